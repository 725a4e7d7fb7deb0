"""Find the Java that Spark would use. Standard library only: set-up runs this before installing anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 17
PACKAGE = "openjdk-17-jre-headless"
# For short-lived JVMs on few cores: the optimising compiler would take a core from the tasks. Without it,
# Java reserves only a fifth of the space for compiled code, which Spark fills within minutes.
SHORT_RUNS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"


def java_version() -> int | None:
    """Return the major version of the Java that Spark would use, or None."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        return None
    try:
        output = subprocess.run([command, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found.group(1)) if found else None


def advice(version: int | None) -> str:
    """Return what is wrong with that version and what to do."""
    found = "no Java was found" if version is None else f"Java {version} was found"
    return (
        f"Spark needs Java {OLDEST} or newer, but {found}; install it (Debian or Ubuntu: apt-get install "
        f"{PACKAGE}), and set JAVA_HOME if it is not the default Java."
    )
