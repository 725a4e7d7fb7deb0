"""Aggregators for tests; Spark's Python workers do not have this module, so it is sent by value."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any, ClassVar

import pyarrow.compute as pc
from pyspark import cloudpickle

from evenflow.spark import Aggregator

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Profile(Aggregator):
    """Count, sum, words and the last time of a key, merged in Python."""

    buffer = "n long, total double, words map<string,long>, last timestamp"

    def zero(self) -> Any:
        return {"n": 0, "total": 0.0, "words": {}, "last": None}

    def reduce(self, state: Any, rows: Any) -> Any:
        words = Counter(state["words"])
        words.update(word for word in rows["word"].to_pylist() if word is not None)
        return {
            "n": state["n"] + rows.num_rows,
            "total": state["total"] + (pc.sum(rows["x"]).as_py() or 0.0),
            "words": words,
            "last": _later(state["last"], pc.max(rows["ts"]).as_py()),
        }

    def merge(self, a: Any, b: Any) -> Any:
        return {
            "n": a["n"] + b["n"],
            "total": a["total"] + b["total"],
            "words": Counter(a["words"]) + Counter(b["words"]),
            "last": _later(a["last"], b["last"]),
        }

    def finish(self, state: Any) -> Any:
        return {
            "n": state["n"],
            "total": state["total"],
            "words": len(state["words"]),
            "last": state["last"],
        }


def _distinct(column: Any) -> Any:
    from pyspark.sql import functions as F

    return F.array_distinct(F.flatten(F.collect_list(column)))


class Declared(Profile):
    """The same, merged by Spark."""

    buffer = "n long, total double, words array<string>, last timestamp"
    merges: ClassVar[Any] = {"n": "sum", "total": "sum", "words": _distinct, "last": "max"}

    def zero(self) -> Any:
        return (0, 0.0, [], None)

    def reduce(self, state: Any, rows: Any) -> Any:
        words = {*state[2], *(word for word in rows["word"].to_pylist() if word is not None)}
        return (
            state[0] + rows.num_rows,
            state[1] + (pc.sum(rows["x"]).as_py() or 0.0),
            sorted(words),
            _later(state[3], pc.max(rows["ts"]).as_py()),
        )

    def finish(self, state: Any) -> Any:
        return (state[0], state[1], len(state[2]), state[3])


SCHEMA = "n long, total double, words int, last timestamp"


def plain(rows: Any) -> Any:
    """Return the same as Spark's own aggregates, of grouped data."""
    from pyspark.sql import functions as F

    return rows.agg(
        F.count("*").alias("n"),
        F.coalesce(F.sum("x"), F.lit(0.0)).alias("total"),
        F.size(F.collect_set("word")).alias("words"),
        F.max("ts").alias("last"),
    )


def _later(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)
