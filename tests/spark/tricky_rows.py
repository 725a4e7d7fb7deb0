"""Rows that differ where a hash does not look: nulls, zeros with a sign, arrays and maps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

NAN = float("nan")
TRICKY: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.float64(), [None, 0.0, -0.0, NAN, 1.0]),
    "text": (pa.string(), [None, "", " ", "null"]),
    "list": (pa.list_(pa.int32()), [None, [], [None], [1], [1, None], [None, 1]]),
    "nested": (
        pa.struct([("x", pa.float32()), ("y", pa.struct([("z", pa.string())]))]),
        [None, {"x": None, "y": None}, {"x": 0.0, "y": {"z": None}}, {"x": -0.0, "y": {"z": None}}],
    ),
    "map": (pa.map_(pa.string(), pa.float64()), [None, [], [("a", 0.0)], [("a", -0.0)], [("a", None)]]),
}


def tricky_rows(rows: int, seed: int) -> pa.Table:
    """Return rows that differ where a hash does not look: three of four have one key."""
    rng = np.random.default_rng(seed)
    columns = {
        name: pa.array([values[i] for i in rng.integers(0, len(values), rows)], kind)
        for name, (kind, values) in TRICKY.items()
    }
    keys = np.where(rng.random(rows) < 0.75, 0, rng.integers(1, 50, rows))
    return pa.table({"key": keys, "part": rng.integers(0, 3, rows), **columns})


def arriving(df: Any, salt: int) -> Any:
    """Return ``df`` with the rows of each partition in an order of their own."""

    def mix(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if came := list(batches):
            rows = pa.Table.from_batches(came)
            yield from rows.take(np.random.default_rng(salt).permutation(len(rows))).to_batches()

    return df.repartition(3, "part").mapInArrow(mix, df.schema)
