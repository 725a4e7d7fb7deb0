"""Which Java would Spark use? Standard library only: set-up reads this file before anything is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 17
PACKAGE = "openjdk-17-jre-headless"
# For a JVM that lives for seconds on few cores: the compiler for hot code would take a core from its tasks.
SHORT_RUNS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


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
    """Say what is wrong with that version and what to do."""
    found = "no Java was found" if version is None else f"Java {version} was found"
    return (
        f"Spark needs Java {OLDEST} or newer and {found}; install it (Debian or Ubuntu: apt-get install "
        f"{PACKAGE}) and set JAVA_HOME if it is not the default."
    )
