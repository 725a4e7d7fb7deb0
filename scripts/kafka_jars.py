"""Resolve the jars of a Kafka broker and of Spark's Kafka connector into a folder, once.

python scripts/kafka_jars.py .cache/kafka [VERSION]

``broker/`` gets Apache Kafka with all it needs, ``connector/`` what Spark needs to read and write topics. The
Ivy that PySpark ships resolves them, so nothing but Java is required. The connector is that of Spark VERSION
(default: of the PySpark here), with everything it depends on, as ``spark-submit --packages`` would take it.
Where a repository lacks some of that, it is made of parts that are there and run together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BROKER = ("org.apache.kafka", "kafka_2.13", "4.1.0")
CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13")
NEWEST = "4.2.0"  # connector that is everywhere
PARTS = (
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def resolve(ivy: Path, module: tuple[str, str, str], target: Path, cache: Path, *, alone: bool) -> None:
    """Copy a module's jar, and unless ``alone`` those it depends on, into ``target``."""
    home = os.environ.get("JAVA_HOME")
    subprocess.run(
        [
            str(Path(home) / "bin" / "java") if home else "java",
            *("-jar", str(ivy), "-confs", "default", "-types", "jar", "bundle", "-cache", str(cache)),
            *(["-notransitive"] if alone else []),
            *("-dependency", *module),
            *("-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def resolve_connector(ivy: Path, version: str, target: Path, cache: Path) -> None:
    """Copy a connector's jars into ``target``: the version's, else that of X.Y.0, else made of parts."""
    first = ".".join([*version.split(".")[:2], "0"])
    attempts = [([(*CONNECTOR, whole)], False) for whole in dict.fromkeys((version, first))]
    attempts += [([(*CONNECTOR, part), *PARTS], True) for part in dict.fromkeys((first, NEWEST))]
    for number, (modules, alone) in enumerate(attempts, 1):
        try:
            for module in modules:
                resolve(ivy, module, target, cache, alone=alone)
        except subprocess.CalledProcessError:
            shutil.rmtree(target, ignore_errors=True)
            if number == len(attempts):
                raise
        else:
            return


def main(folder: Path, version: str | None = None) -> int:
    """Return exit status 0 if all jars are in ``folder``, which appears only when it is complete."""
    if (folder / "connector").is_dir() and (folder / "broker").is_dir():
        return 0
    import pyspark

    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        target, cache = Path(made) / "jars", Path(made) / "cache"
        try:
            resolve(ivy, BROKER, target / "broker", cache, alone=False)
            resolve_connector(ivy, version or pyspark.__version__, target / "connector", cache)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stderr.write(
                f"the jars of Kafka could not be resolved ({error}); its tests will be skipped.\n"
            )
            return 1
        shutil.rmtree(folder, ignore_errors=True)
        target.rename(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), *sys.argv[2:3]))
