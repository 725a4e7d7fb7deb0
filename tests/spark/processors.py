"""Keyed processors for tests; Spark's Python workers do not have this module, so it is sent by value."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from evenflow.spark import KeyedProcessor

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

OUTPUT = "key string, n long, total long"
STREAM = "key string, number long"


class Adding(KeyedProcessor):
    """Counts and adds up; rows must come in order. Fails for the key in the file ``bad``, if there is one."""

    state = "n long, total long, last long"

    def __init__(self, bad: Path | None = None):
        self.bad = bad

    def start(self, key: Any) -> Any:
        return {"n": 0, "total": 0, "last": -1}

    def process(self, key: Any, state: Any, rows: Any) -> Any:
        if self.bad is not None and self.bad.exists() and self.bad.read_text() == key:
            raise KeyError("no such luck")
        numbers = rows["number"].to_pylist()
        assert numbers == sorted(numbers)
        assert numbers[0] > state["last"]
        new = {"n": state["n"] + len(numbers), "total": state["total"] + sum(numbers), "last": numbers[-1]}
        return new, [{"key": key, "n": new["n"], "total": new["total"]}]


class Counting(Adding):
    """Counts and adds up rows in any order, also again."""

    def process(self, key: Any, state: Any, rows: Any) -> Any:
        numbers = rows["number"].to_pylist()
        new = {"n": state["n"] + len(numbers), "total": state["total"] + sum(numbers), "last": numbers[-1]}
        return new, [{"key": key, "n": new["n"], "total": new["total"]}]


class Everything(KeyedProcessor):
    """Keeps states of many types, from rows as pandas; a key has several columns."""

    state = (
        "words map<string,long>, seen array<struct<x: double, at: timestamp>>, best decimal(9,2), "
        "raw binary, day date, small tinyint, flag boolean, `a.b` float"
    )
    rows = "pandas"

    def start(self, key: Any) -> Any:
        return {
            "words": {}, "seen": [], "best": None, "raw": b"", "day": None, "small": 0, "flag": False,
            "a.b": 0.5,
        }  # fmt: skip

    def process(self, key: Any, state: Any, rows: Any) -> Any:
        assert isinstance(key, tuple)
        assert len(key) == 3
        words = Counter(state["words"])
        words.update(rows["word"])
        last = rows.iloc[-1]
        state = {
            "words": dict(words),
            "seen": [*state["seen"], *({"x": row.x, "at": row.ts} for row in rows.itertuples())],
            "best": max(value for value in [state["best"], *rows["price"]] if value is not None),
            "raw": state["raw"] + last["word"].encode(),
            "day": last["ts"].date(),
            "small": state["small"] + 1,
            "flag": not state["flag"],
            "a.b": state["a.b"] * 2,
        }
        return state, [(",".join(rows["word"]), sum(words.values()), state["small"])]


class Sessions(KeyedProcessor):
    """Counts until a key is silent, says so and forgets it."""

    state = "n long"
    clock = "processing"

    def __init__(self, silence: float):
        self.silence = timedelta(seconds=silence)

    def start(self, key: Any) -> Any:
        return {"n": 0}

    def process(self, key: Any, state: Any, rows: Any) -> Any:
        assert self.now is not None
        return {"n": state["n"] + rows.num_rows}, [(key, state["n"] + rows.num_rows, 0)], self.silence

    def expire(self, key: Any, state: Any) -> Any:
        return None, [(key, state["n"], -1)]


class Late(Sessions):
    """The same in event time."""

    clock = "event"

    def process(self, key: Any, state: Any, rows: Any) -> Any:
        done = super().process(key, state, rows) if self.now is not None else self._first(key, state, rows)
        return (*done[:2], max(rows["ts"].to_pylist()) + self.silence)

    def _first(self, key: Any, state: Any, rows: Any) -> Any:
        return {"n": rows.num_rows}, [(key, rows.num_rows, 0)]
