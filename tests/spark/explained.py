"""How many times a frame's rows are shuffled or broadcast, by Spark's own account."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any


def explained(df: Any) -> str:
    """Return the physical plan as text."""
    text = io.StringIO()
    with redirect_stdout(text):
        df.explain()
    return text.getvalue()


def exchanges(df: Any) -> tuple[int, int]:
    """Return the number of shuffles and of broadcasts in the physical plan."""
    text = explained(df)
    broadcasts = text.count("BroadcastExchange")
    return text.count("Exchange") - broadcasts, broadcasts
