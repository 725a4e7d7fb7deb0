"""How many times a frame's rows are shuffled or broadcast, by Spark's own account."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any


def exchanges(df: Any) -> tuple[int, int]:
    """Return the number of shuffles and of broadcasts in the physical plan."""
    text = io.StringIO()
    with redirect_stdout(text):
        df.explain()
    explained = text.getvalue()
    broadcasts = explained.count("BroadcastExchange")
    return explained.count("Exchange") - broadcasts, broadcasts
