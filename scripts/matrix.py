"""Run the Spark tests on every supported version of Spark, and write what works into docs/spark/running.md.

python scripts/matrix.py [--all | --only FILE ...] [--processes N] [VERSION ...]

Every version has an environment of its own in .cache/matrix, with its PySpark; Python and all other packages
are those of the environment that runs this script: run by another Python, it adds columns to the table.
Topics of Kafka are tested with the version's own connector (scripts/kafka_jars.py). By default, only the
tests of the features below are run, all in one session. The results of each file replace earlier ones in the
table; columns of the page without results in .cache/matrix stay as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import kafka_jars

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "matrix"
PAGE = ROOT / "docs" / "spark" / "running.md"
BEGIN, END = "<!-- make matrix -->", "<!-- end of make matrix -->"
VERSIONS = ("4.0", "4.1", "4.2", "4.3")
FEATURES = {  # files in tests/spark
    "`balance`": ("test_balance.py", "test_plan_backends.py"),
    "online mode": ("test_online.py",),
    "`apply`": ("test_apply.py",),
    "`aggregate`": ("test_aggregate.py",),
    "`aggregate` on streams": ("test_aggregate_streaming.py",),
    "plans that follow a stream": ("test_refresh.py",),
    "`join`": ("test_join.py",),
    "`join` of streams": ("test_join_streams.py",),
    "`stateful`": ("test_stateful.py",),
    "topics of Kafka": ("test_kafka.py", "test_kafka_operators.py"),
    "what stands in for newer features": ("test_versions.py",),
}
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TESTS = "tests/spark"
ROWS = (*FEATURES, "Kafka connector", "all tests of Spark")
REFUSED = "refused: "


def environment(version: str) -> Path:
    """Return the folder of an environment with the newest PySpark of a version, made if there is none."""
    folder = CACHE / f"{version}-python{PYTHON}"
    if not (folder / ".made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        quiet = ("--quiet", "--disable-pip-version-check")
        subprocess.run(
            [str(python_of(folder)), "-m", "pip", "install", *quiet, f"pyspark=={version}.*"], check=True
        )
        [packages] = folder.glob("lib/python*/site-packages")
        shared = sysconfig.get_paths()["purelib"]
        (packages / "zz_shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
        (folder / ".made").touch()
    kafka_jars.main(folder / "kafka", pyspark_of(folder))
    return folder


def python_of(folder: Path) -> Path:
    """Return the Python of an environment."""
    return folder / "bin" / "python"


def pyspark_of(folder: Path) -> str:
    """Return the version of PySpark in an environment."""
    code = "import pyspark; print(pyspark.__version__)"
    return subprocess.run(
        [str(python_of(folder)), "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def connector_of(folder: Path) -> str:
    """Return the version of the Kafka connector in an environment, and whether it is there whole."""
    jars = sorted((folder / "kafka" / "connector").glob("spark-*-kafka-0-10_*.jar"))
    numbers = [jar.stem.rpartition("-")[2] for jar in jars]
    if not numbers:
        return "none"
    return numbers[0] if len(set(numbers)) == 1 else f"{numbers[0]}, in parts"


def run(folder: Path, files: Iterable[str], processes: int = 0) -> dict[str, Counter[str]]:
    """Run files of tests in an environment; return how many of each passed, failed, were refused, skipped."""
    results = folder / "results.xml"
    results.unlink(missing_ok=True)
    python = python_of(folder)
    settings = os.environ | {
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", "")]),
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": str(ROOT / "src"),
        "EVENFLOW_KAFKA": str(folder / "kafka"),
    }
    settings.pop("SPARK_HOME", None)
    tests = [f"{TESTS}/{file}" for file in files]
    spread = ["-n", str(processes), "--dist", "worksteal"]
    command = [str(python), "-m", "pytest", *spread, f"--junitxml={results}", *tests]
    subprocess.run(command, cwd=ROOT, env=settings, check=False)
    found = dict[str, Counter[str]]()
    for case in ET.parse(results).iter("testcase"):
        module = (case.get("classname") or case.get("name", "")).split(".")  # tests, spark, test_...
        found.setdefault(f"{module[2]}.py", Counter())[_outcome(case)] += 1
    return found


@dataclass
class Column:
    """What came of the tests in one environment."""

    title: str
    connector: str  # of Kafka
    files: dict[str, Counter[str]]

    def counts(self, files: Iterable[str]) -> Counter[str]:
        """Return the outcomes of some files."""
        return sum((self.files.get(file, Counter()) for file in files), Counter())

    def cells(self) -> dict[str, str]:
        """Return what works, by row of the table."""
        cells = list[str]()
        for files in FEATURES.values():
            run = [file for file in files if file in self.files]
            cells.append(cell(self.counts(run)) + (", not all run" if run and len(run) < len(files) else ""))
        cells.append(self.connector)
        cells.append(cell(self.counts(self.files)) if set(all_files()) <= set(self.files) else "not run")
        return dict(zip(ROWS, cells, strict=True))


def all_files() -> list[str]:
    """Return the names of all files of tests."""
    return sorted(path.name for path in (ROOT / TESTS).glob("test_*.py"))


def kept(folder: Path) -> Column | None:
    """Return what came of earlier runs in an environment."""
    try:
        found = json.loads((folder / "column.json").read_text())
    except FileNotFoundError:
        return None
    found["files"] = {name: Counter(counts) for name, counts in found["files"].items()}
    return Column(**found)


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    return "refused" if REFUSED in skipped.get("message", "") else "skipped"


def cell(counts: Counter[str]) -> str:
    """Return what works in a few words.

    >>> cell(Counter(passed=3, failed=1, refused=2, skipped=4))
    '3 of 4, 2 refused'
    """
    ran = counts["passed"] + counts["failed"]
    if not ran:
        return "refused" if counts["refused"] else "not run"
    return f"{counts['passed']} of {ran}" + (f", {counts['refused']} refused" if counts["refused"] else "")


def table(columns: dict[str, dict[str, str]]) -> str:
    """Return the table: a line for every feature, a column for every environment.

    >>> print(table({"4.0.5": {"`apply`": "3 of 3"}}).splitlines()[4])
    | `apply` | 3 of 3 |
    """
    heads = ["tests that pass", *columns]
    rows = [[row, *(cells.get(row, "not run") for cells in columns.values())] for row in ROWS]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def columns_in(lines: str) -> dict[str, dict[str, str]]:
    """Return the columns of a table.

    >>> columns_in(table({"4.0.5": {"`apply`": "3 of 3"}}))["4.0.5"]["`apply`"]
    '3 of 3'
    """
    heads, _, *rows = [line.strip("| ").split(" | ") for line in lines.strip().splitlines()]
    return {title: {row[0]: row[number] for row in rows} for number, title in enumerate(heads) if number > 0}


def _environment_of(title: str) -> tuple[str, ...]:
    """Return the minor versions of PySpark and Python of a column.

    >>> _environment_of("4.0.5, Python 3.11")
    ('4', '0', '3.11')
    """
    spark, _, python = title.partition(", Python ")
    return (*spark.split(".")[:2], python)


def write(columns: dict[str, dict[str, str]]) -> None:
    """Put the columns in the table on the page, in the place of older ones of the same environment."""
    before, rest = PAGE.read_text().split(BEGIN)
    lines, after = rest.split(END)
    newest = {_environment_of(title): title for title in [*columns_in(lines), *columns]}
    cells = columns_in(lines) | columns
    shown = {newest[key]: cells[newest[key]] for key in sorted(newest, key=lambda key: key[::-1])}
    PAGE.write_text(f"{before}{BEGIN}\n{table(shown)}\n{END}{after}")


def main() -> int:
    """Return exit status 0 if nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="such as 4.0; without any, all of them")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="all Spark tests instead of a selection")
    which.add_argument("--only", action="append", metavar="FILE", help="only this file; may be repeated")
    parser.add_argument("--processes", type=int, default=0, metavar="N", help="run N tests at a time")
    given = parser.parse_args()
    selection = list(dict.fromkeys(file for listed in FEATURES.values() for file in listed))
    for version in given.versions:
        folder = environment(version)
        title = f"{pyspark_of(folder)}, Python {PYTHON}"
        before = kept(folder)
        column = Column(title, connector_of(folder), before.files if before else {})
        column.files |= run(folder, all_files() if given.all else given.only or selection, given.processes)
        (folder / "column.json").write_text(json.dumps(vars(column)))
    columns = [found for folder in sorted(CACHE.iterdir()) if (found := kept(folder))]
    write({column.title: column.cells() for column in columns})
    return int(any(column.counts(column.files)["failed"] for column in columns))


if __name__ == "__main__":
    sys.exit(main())
