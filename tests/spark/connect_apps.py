"""Apps of `evenflow run` through Spark Connect, streaming and at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenflow.runner.pipeline import run_app
from evenflow.streams import Zipf

SOURCE = "zipf:z=1.4,keys=50,messages=2000,seed=3"
APPS = ("count", "heavy-hitters:capacity=64")


def found(spark: Any, folder: Path) -> dict[str, Any]:
    """Return, for every app and way of reading, whether the hottest key has its rows."""
    counts = np.bincount(Zipf(z=1.4, keys=50, messages=2000, seed=3).generate(0, 2000).ids)
    hottest = {"key": int(counts.argmax()) + 1, "rows": int(counts.max())}
    same: dict[str, Any] = {}
    for app in APPS:
        for at_once in (False, True):
            seen = run_app(spark, app, SOURCE, workers=3, at_once=at_once)
            top = seen.view["top"][0]
            key, rows = top.get("key", top.get("item")), top.get("rows", top.get("at_least"))
            is_same = (int(key), int(rows)) == (hottest["key"], hottest["rows"])
            same[f"{app.partition(':')[0]}, {'at once' if at_once else 'stream'}"] = is_same or str(top)
    return same
