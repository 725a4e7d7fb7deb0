"""Measured points on disk: what is kept, what it was measured with, and when it must be measured again.

A point lies under the digest of its measurement, the experiment's version and its parameters. With its rows
are kept the date, the commit and digests of the code. A run takes a point that the same code measured; one
that is resumed (``--resume``) also takes points of other commits, as long as the measurement itself is the
same: paper scale takes many hours, which no single commit has.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from evenflow.files import replace_file
from evenflow.papers.experiment import Experiment, Row, measured

ROOT = Path(__file__).parents[1]
MEASURING = ("keys", "plan", "schemes", "simulator", "sketches", "streams", "*.py")  # what points depend on


@dataclass(frozen=True)
class Task:
    """A point that a figure needs, and where it is kept."""

    experiment: str
    measure: Callable[..., list[Row]]
    point: Row
    file: Path

    def usable(self, resume: bool) -> bool:
        """Whether the point is kept and need not be measured again."""
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        same = found.get("measurement") == text_digest(self.measure)
        return same and (resume or found.get("sources") == source_digest())

    def keep(self, rows: list[Row], seconds: float) -> None:
        """Write the rows, whole or not at all."""
        made: Row = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(), "sources": source_digest()}
        made |= {"measurement": text_digest(self.measure), "seconds": round(seconds, 3)}
        text = json.dumps({"point": measured(self.point), "rows": rows, **made})
        replace_file(self.file, text.encode())

    def kept(self) -> Row:
        """Read what was kept: rows, seconds, date and commit."""
        found: Row = json.loads(self.file.read_text(encoding="utf-8"))
        return found


def point_file(out: Path, experiment: Experiment, point: Row) -> Path:
    """Return where a point is kept: figures that measure the same point share it."""
    measured_by = f"{experiment.measure.__module__}.{experiment.measure.__qualname__}"
    text = json.dumps([measured_by, experiment.version, measured(point)], sort_keys=True)
    return out / "points" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


@cache
def text_digest(measure: Callable[..., list[Row]]) -> str:
    """Return a digest of a measurement's own text."""
    try:
        text = inspect.getsource(measure)
    except (OSError, TypeError):  # not from a file
        text = measure.__qualname__
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def source_digest(root: Path = ROOT) -> str:
    """Return a digest of the sources that measurements depend on: schemes, simulator, streams."""
    digest = hashlib.sha256()
    files = {file for room in MEASURING for file in root.glob(room)}
    for file in sorted(part for room in files for part in ([room] if room.is_file() else room.rglob("*.py"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


@cache
def commit() -> str:
    """Return the commit that runs, with a plus if files of the package differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
