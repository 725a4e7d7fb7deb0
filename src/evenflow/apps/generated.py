"""Generators of rows with more columns than a key: labelled documents, labelled points, trades.

Row i is a pure function of the seed and i, as in every generator of evenflow, and the specs have the same
form: ``documents:classes=4,messages=1e5,seed=1``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from evenflow.kernels import Float64Array, Int64Array, kernel
from evenflow.spec import build, check
from evenflow.streams.sampling import bits, draw_salt, unit, zipf_weights

_START = 1_600_000_000  # Unix time of row 0


def units(seed: int, use: int, at: Int64Array) -> Float64Array:
    """Return uniform numbers in [0, 1), one per position in ``at``; uses of a seed are independent.

    >>> units(1, 0, np.array([5, 6, 5])).round(3).tolist()
    [0.961, 0.449, 0.961]
    """
    drawn = np.empty(at.size)
    _draw_units(draw_salt(seed, use), at, drawn)
    return drawn


@kernel
def _draw_units(salt: np.uint64, at: Int64Array, out: Float64Array) -> None:
    for i in range(at.size):
        out[i] = unit(bits(salt, at[i]))


def normals(seed: int, use: int, at: Int64Array) -> Float64Array:
    """Return standard normal numbers (Box and Muller)."""
    radius = np.sqrt(-2 * np.log1p(-units(seed, use, at)))
    return radius * np.cos(2 * np.pi * units(seed, use + 1000, at))


def ranks(count: int, z: float, draws: Float64Array) -> Int64Array:
    """Map numbers in [0, 1) to ranks from 0 that follow Zipf's law.

    >>> ranks(3, 1.0, np.array([0.0, 0.6, 0.999])).tolist()
    [0, 1, 2]
    """
    ends = np.cumsum(zipf_weights(count, z))
    return np.searchsorted(ends / ends[-1], draws, side="right")


def _named(prefix: str, numbers: Int64Array) -> pa.Array:
    return pa.array([f"{prefix}{number}" for number in numbers.tolist()], pa.string())


def _lists(values: pa.Array, length: int) -> pa.ListArray:
    offsets = np.arange(0, len(values) + 1, length)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


class RowGenerator:
    """Base class: frozen dataclasses with ``messages`` and ``seed``."""

    keyword: ClassVar[str]
    ddl: ClassVar[str]  # Spark schema of the columns
    messages: int
    seed: int

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name not in ("seed", "z", "own", "spread"):
                check(f"{field.name} of {self.keyword}", value, value >= 1, "it must be at least 1")

    def make(self, positions: Int64Array) -> pa.StructArray:
        """Return the rows at the given positions."""
        raise NotImplementedError


@dataclass(frozen=True)
class Documents(RowGenerator):
    """Texts of ``length`` Zipf-distributed words; a share ``own`` is ranked differently in each class.

    >>> Documents(length=3).make(np.array([0])).to_pylist()
    [{'label': 'class1', 'words': ['w2109', 'w6', 'w7']}]
    """

    messages: int = 20_000
    classes: int = 4
    words: int = 5000
    length: int = 15
    z: float = 1.1
    own: float = 0.2
    seed: int = 0

    keyword = "documents"
    ddl = "label string, words array<string>"

    def make(self, positions: Int64Array) -> pa.StructArray:
        """Return label and words."""
        label = (units(self.seed, 0, positions) * self.classes).astype(np.int64)
        draws = (positions[:, None] * self.length + np.arange(self.length)).ravel()
        rank = ranks(self.words, self.z, units(self.seed, 1, draws))
        turn = np.repeat(label + 1, self.length) * (self.words // (self.classes + 1))
        word = np.where(units(self.seed, 2, draws) < self.own, (rank + turn) % self.words, rank)
        words = _lists(_named("w", word), self.length)
        return pa.StructArray.from_arrays([_named("class", label), words], ["label", "words"])


@dataclass(frozen=True)
class Points(RowGenerator):
    """Points in classes, each normally distributed around its own centre.

    >>> Points(dimensions=2).make(np.array([0])).field("label").to_pylist()
    ['class0']
    """

    messages: int = 20_000
    classes: int = 3
    dimensions: int = 8
    spread: float = 1.0  # of the centres
    seed: int = 0

    keyword = "points"
    ddl = "label string, features array<double>"

    def make(self, positions: Int64Array) -> pa.StructArray:
        """Return label and features."""
        # some classes are frequent, some are rare
        label = ranks(self.classes, 0.5, units(self.seed, 0, positions))
        centres = normals(self.seed, 1, np.arange(self.classes * self.dimensions)) * self.spread
        draws = (positions[:, None] * self.dimensions + np.arange(self.dimensions)).ravel()
        values = centres.reshape(self.classes, -1)[label].ravel() + normals(self.seed, 2, draws)
        features = _lists(pa.array(values), self.dimensions)
        return pa.StructArray.from_arrays([_named("class", label), features], ["label", "features"])


@dataclass(frozen=True)
class Trades(RowGenerator):
    """Trades of Zipf-distributed tickers with oscillating prices, ``rate`` per second.

    >>> Trades().make(np.array([0])).to_pylist()[0]["ticker"]
    'T5'
    """

    messages: int = 200_000
    tickers: int = 500
    z: float = 1.1
    rate: float = 1000.0
    seed: int = 0

    keyword = "trades"
    ddl = "time timestamp, ticker string, price double, size long"

    def make(self, positions: Int64Array) -> pa.StructArray:
        """Return time, ticker, price and size."""
        ticker = ranks(self.tickers, self.z, units(self.seed, 0, positions))
        swing = 0.1 * np.sin(2 * np.pi * (positions / self.rate / 60 + units(self.seed, 1, ticker)))
        noise = 0.005 * normals(self.seed, 2, positions)
        price = 10 * np.exp(3 * units(self.seed, 3, ticker)) * (1 + swing + noise)
        size = 100 * (1 - np.log1p(-units(self.seed, 4, positions)) * 3).astype(np.int64)
        micros = ((_START + positions / self.rate) * 1e6).astype(np.int64)
        columns = [
            pa.array(micros).cast(pa.timestamp("us", "UTC")),
            _named("T", ticker),
            pa.array(np.round(price, 2)),
            pa.array(size),
        ]
        return pa.StructArray.from_arrays(columns, ["time", "ticker", "price", "size"])


ROWS: dict[str, type[Any]] = {kind.keyword: kind for kind in (Documents, Points, Trades)}


def open_rows(spec: str) -> Any:
    """Return the row generator of ``spec``, or None if it names none.

    >>> open_rows("points:dimensions=3").dimensions, open_rows("zipf")
    (3, None)
    """
    word, _, rest = spec.partition(":")
    kind = ROWS.get(word.strip().lower())
    if kind is None:
        return None
    return build(kind, kind, kind.keyword, rest)
