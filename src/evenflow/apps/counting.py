"""Counting (`choices` I and V, word count): rows per key, and the k most frequent keys.

Both are one aggregate: rows are counted where they were placed, and the counts of a key's workers are added.
The k most frequent are then exact without remembering more than k keys between two micro-batches: counts only
grow, so a key that enters the first k was among the keys that just grew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from evenflow.spark.aggregator import Aggregator

SCHEMA = "rows long"


class Count(Aggregator):
    """Rows per key.

    >>> import pyarrow as pa
    >>> Count().reduce((1,), pa.table({"word": ["to", "be"]}))
    (3,)
    """

    buffer = SCHEMA
    merges: ClassVar[Mapping[str, str]] = {"rows": "sum"}

    def zero(self) -> tuple[int]:
        """Begin with no rows."""
        return (0,)

    def reduce(self, state: tuple[int], rows: Any) -> tuple[int]:
        """Add the number of rows."""
        return (state[0] + rows.num_rows,)

    def merge(self, a: tuple[int], b: tuple[int]) -> tuple[int]:
        """Add both counts."""
        return (a[0] + b[0],)

    def finish(self, state: tuple[int]) -> tuple[int]:
        """Return the count."""
        return state


class Top:
    """The k keys with most rows among all that were ever told of, as long as counts only grow.

    >>> top = Top(2)
    >>> top.update([("a", 3), ("b", 1), ("c", 2)])
    >>> top.update([("b", 5)])
    >>> top.most()
    [('b', 5), ('a', 3)]
    """

    def __init__(self, k: int, known: Iterable[tuple[Any, int]] = ()):
        self.k = k
        self._rows: dict[Any, int] = dict(known)

    def update(self, counts: Iterable[tuple[Any, int]]) -> None:
        """Take the counts, since the beginning, of keys that grew; the same again changes nothing."""
        for key, rows in counts:
            self._rows[key] = max(rows, self._rows.get(key, 0))
        self._rows = dict(self.most())

    def most(self) -> list[tuple[Any, int]]:
        """Return keys and rows, most rows first."""
        return sorted(self._rows.items(), key=lambda pair: (-pair[1], str(pair[0])))[: self.k]
