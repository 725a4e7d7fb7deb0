"""Find Java 17 or newer, or install it with apt; otherwise say in one sentence what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = "openjdk-17-jre-headless"


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


def install() -> bool:
    """Install Java with apt if this user can; return whether it worked."""
    if shutil.which("apt-get") is None:
        return False
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            return False
        prefix = ["sudo", "--non-interactive"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", PACKAGE]):
        if subprocess.run([*prefix, "apt-get", *arguments], env=environment, check=False).returncode:
            return False
    return True


def main() -> int:
    """Exit 0 if Java 17+ is there in the end."""
    version = java_version()
    if version is not None and version >= 17:
        return 0
    if install() and (java_version() or 0) >= 17:
        return 0
    found = "no Java was found" if version is None else f"Java {version} was found"
    sys.stderr.write(
        f"Spark needs Java 17 or newer and {found}; install it (Debian or Ubuntu: apt-get install {PACKAGE}) "
        "and set JAVA_HOME if it is not the default.\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
