"""Run the Spark tests on every supported version of Spark, and write what works into docs/spark/running.md.

python scripts/matrix.py [--all] [VERSION ...]

Every version has an environment of its own in .cache/matrix, with its PySpark; Python and all other packages
are those of the environment that runs this script. Without ``--all``, a selection of the tests is run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

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
    "what stands in for newer features": ("test_versions.py",),
}
REFUSED = "refused: "


def environment(version: str) -> Path:
    """Return the Python of an environment with the newest PySpark of a version, made if there is none."""
    folder = CACHE / version
    made = folder / "bin" / "python"
    if not (folder / ".made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        quiet = ("--quiet", "--disable-pip-version-check")
        subprocess.run([str(made), "-m", "pip", "install", *quiet, f"pyspark=={version}.*"], check=True)
        [packages] = folder.glob("lib/python*/site-packages")
        shared = sysconfig.get_paths()["purelib"]
        (packages / "zz_shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
        (folder / ".made").touch()
    return made


def run(version: str, python: Path, everything: bool) -> Path:
    """Run the tests of a version, and return the file with their results."""
    results = CACHE / f"{version}.xml"
    results.unlink(missing_ok=True)
    files = sorted({file for listed in FEATURES.values() for file in listed})
    tests = ["tests/spark"] if everything else [f"tests/spark/{file}" for file in files]
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    settings = os.environ | {"PATH": path, "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT / "src")}
    settings.pop("SPARK_HOME", None)
    subprocess.run(
        [str(python), "-m", "pytest", "-n", "0", f"--junitxml={results}", *tests],
        cwd=ROOT, env=settings, check=False,
    )  # fmt: skip
    return results


def pyspark_of(python: Path) -> str:
    """Return the version of PySpark in an environment."""
    code = "import pyspark; print(pyspark.__version__)"
    return subprocess.run(
        [str(python), "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def outcomes(results: Path) -> dict[str, Counter[str]]:
    """Return for every test file how many of its tests passed, failed, were refused or skipped."""
    found: dict[str, Counter[str]] = {}
    for case in ET.parse(results).iter("testcase"):
        file = re.findall(r"test_\w+", case.get("classname", ""))
        if file:
            found.setdefault(f"{file[0]}.py", Counter())[_outcome(case)] += 1
    return found


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


def table(found: dict[str, dict[str, Counter[str]]]) -> str:
    """Return the table: a line for every feature, a column for every version."""
    lines = ["| tests that pass | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for feature, files in FEATURES.items():
        cells = [
            cell(sum((by_file.get(file, Counter()) for file in files), Counter()))
            for by_file in found.values()
        ]
        lines.append(f"| {feature} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write(lines: str) -> None:
    """Put the table between its markers on the page."""
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{lines}\n{END}{after}")


def main() -> int:
    """Return exit status 0 if nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="such as 4.0; without any, all of them")
    parser.add_argument("--all", action="store_true", help="all Spark tests instead of a selection")
    given = parser.parse_args()
    for version in given.versions:
        python = environment(version)
        results = run(version, python, given.all)
        if results.exists():
            kept = {"pyspark": pyspark_of(python), "counts": outcomes(results)}
            (CACHE / f"{version}.json").write_text(json.dumps(kept))
    found: dict[str, dict[str, Counter[str]]] = {}
    for version in VERSIONS:  # also those of earlier runs
        if (CACHE / f"{version}.json").exists():
            kept = json.loads((CACHE / f"{version}.json").read_text())
            found[kept["pyspark"]] = {file: Counter(counts) for file, counts in kept["counts"].items()}
    write(table(found))
    return int(any(counts["failed"] for by_file in found.values() for counts in by_file.values()))


if __name__ == "__main__":
    sys.exit(main())
