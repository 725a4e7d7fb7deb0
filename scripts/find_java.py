"""Find Java 17 or newer, or install it with apt; otherwise print what to do."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

# evenflow is not installed yet when this runs
java = runpy.run_path(str(Path(__file__).parents[1] / "src" / "evenflow" / "java.py"))


def installed() -> bool:
    """Install Java with apt, if permitted; return whether it succeeded."""
    if shutil.which("apt-get") is None:
        return False
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            return False
        prefix = ["sudo", "--non-interactive"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (
        ["update", "-qq"],
        ["install", "-y", "-qq", "--no-install-recommends", java["PACKAGE"]],
    ):
        if subprocess.run([*prefix, "apt-get", *arguments], env=environment, check=False).returncode:
            return False
    return True


def main() -> int:
    """Return exit status 0 if a suitable Java is available."""
    version = java["java_version"]()
    if version is not None and version >= java["OLDEST"]:
        return 0
    if installed() and (java["java_version"]() or 0) >= java["OLDEST"]:
        return 0
    sys.stderr.write(java["advice"](version) + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
