"""Random tables with skew from none to one key only, for comparing with plain Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

NAN = float("nan")
START = datetime(2024, 3, 10, 6, tzinfo=UTC)  # in New York the clock jumps an hour later
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["hot", "", "a", "b", None, "é"]),
    "double": (pa.float64(), [0.0, NAN, -0.0, None, 1.5, float("inf")]),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 1, "b": None}, {"a": 2, "b": "x"}],
    ),
    "timestamp": (pa.timestamp("us", "UTC"), [START + timedelta(microseconds=n) for n in range(4)] + [None]),
    "array": (pa.list_(pa.int64()), [[1], [], None, [None], [1, 2]]),
}


@st.composite
def tables(draw: Any, most: int = 200) -> tuple[str, pa.Table]:
    """A table with the columns k (of some type), user, word, x and ts; some of them null."""
    kind = draw(st.sampled_from(sorted(KEYS)))
    rows = draw(st.sampled_from([0, 1, 7, most]))
    skew = draw(st.sampled_from([0.0, 1.0, 2.0, 50.0]))
    return kind, table(kind, rows, skew, draw(st.integers(0, 2**32)))


def table(kind: str, rows: int, skew: float, seed: int) -> pa.Table:
    """Return one such table: key i comes with a probability like i^-skew."""
    rng = np.random.default_rng(seed)
    arrow, values = KEYS[kind]
    weights = np.arange(1.0, len(values) + 1) ** -skew
    keys = rng.choice(len(values), rows, p=weights / weights.sum())
    users = np.minimum(rng.zipf(1.5, rows), 30) if skew else rng.integers(0, 30, rows)
    words = rng.integers(0, 4, rows)
    return pa.table(
        {
            "k": pa.array([values[key] for key in keys], arrow),
            "user": pa.array([int(user) for user in users], pa.int64()),
            "word": pa.array([None if word == 0 else f"w{word}" for word in words], pa.string()),
            "x": pa.array(
                [None if word == 1 else float(word) for word in rng.integers(0, 10, rows)], pa.float64()
            ),
            "ts": pa.array(
                [START + timedelta(seconds=int(second)) for second in rng.integers(0, 3600, rows)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


def rows_of(rows: list[Any]) -> list[str]:
    """Return rows as sorted texts; 0.0 and -0.0 are one."""
    return sorted(str(_tidy(row.asDict(recursive=True))) for row in rows)


def _tidy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tidy(inner) for name, inner in value.items()}
    return value + 0.0 if isinstance(value, float) else value
