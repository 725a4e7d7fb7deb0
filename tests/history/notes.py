"""Control directories as a long query would leave them, without running one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenflow.control.notes import LOG


def batch_note(number: int, workers: int = 4, operator: str = "fill-1", **fields: Any) -> dict[str, Any]:
    """The note of a batch in which worker 0 has twice the rows of each other one."""
    rows = [20] + [10] * (workers - 1)
    return {
        "time": 1_700_000_000.0 + number,
        "event": "batch",
        "operator": operator,
        "batch": number,
        "rows": rows,
        "hashed": rows[::-1],
        "keys": 5,
        "pairs": 6,
        "hot": [["00ff", 20, [0, 1], 1_700_000_000.0]],
        "seconds": 0.5,
        **fields,
    }


def write_log(folder: Path, notes: list[Any], name: str = LOG) -> None:
    """Write notes, and texts as they are, as the lines of a log."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [note if isinstance(note, str) else json.dumps(note) for note in notes]
    with (folder / name).open("a", encoding="utf-8") as log:
        log.write("\n".join(lines) + "\n")
