"""Resolve the jars of a Kafka broker and of Spark's Kafka connector into a folder, once.

python scripts/kafka_jars.py .cache/kafka

``broker/`` gets Apache Kafka with all it needs, ``connector/`` what Spark needs to read and write topics. The
Ivy that PySpark ships resolves them, so nothing but Java is required. The connector of Spark 4.3 is made of
parts: its own release is not everywhere yet, and the one of 4.2 runs on it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BROKER = ("org.apache.kafka", "kafka_2.13", "4.1.0")
CONNECTOR = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
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


def main(folder: Path) -> int:
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
            for module in CONNECTOR:
                resolve(ivy, module, target / "connector", cache, alone=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stderr.write(
                f"the jars of Kafka could not be resolved ({error}); its tests will be skipped.\n"
            )
            return 1
        shutil.rmtree(folder, ignore_errors=True)
        target.rename(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
