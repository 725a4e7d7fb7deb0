"""The class that users of ``aggregate`` write: expensive, mergeable work per key, in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

State = Any


class Aggregator:
    """Work on the rows of a key that can be done in parts and merged; names as in Spark's own Aggregator.

    ``buffer`` types the state, so that it can be sent and stored as columns and is never pickled. A state is
    a dict with the buffer's names or a tuple (also a NamedTuple) in their order, and comes back as whatever
    ``zero`` returns: maps as dicts, arrays as lists, structs as dicts, timestamps aware and in UTC.

    ``merge(a, b)`` must not care for order or grouping, and ``merge(zero(), a)`` must be ``a``: rows of a hot
    key are reduced on several workers, and a large group in several calls of ``reduce``.

    ``merges`` may say instead, for each column of the buffer, which of Spark's aggregates merges it: the name
    of one (``"sum"``, ``"max"``, ``"hll_union_agg"``) or a function from a Column to a Column. Then merging
    happens inside Spark, in streaming about 8 times as fast.

    ``finish`` may be left out where the state is the result; then the schema is the buffer's.

    >>> class Mean(Aggregator):
    ...     buffer = "n long, total double"
    ...     merges = {"n": "sum", "total": "sum"}
    ...     def zero(self):
    ...         return 0, 0.0
    ...     def reduce(self, state, rows):
    ...         values = rows["value"].drop_null()
    ...         return state[0] + len(values), state[1] + (pc.sum(values).as_py() or 0.0)
    ...     def finish(self, state):
    ...         return {"mean": state[1] / state[0] if state[0] else None}
    >>> import pyarrow as pa, pyarrow.compute as pc
    >>> mean = Mean()
    >>> mean.finish(mean.reduce(mean.zero(), pa.table({"value": [1.0, 2.0, None]})))
    {'mean': 1.5}
    """

    buffer: ClassVar[str | StructType]
    rows: ClassVar[str] = "arrow"
    merges: ClassVar[Mapping[str, str | Callable[[Column], Column]] | None] = None

    def zero(self) -> State:
        """Return the state of a key before its first row."""
        raise NotImplementedError

    def reduce(self, state: State, rows: Any) -> State:
        """Return the state after some rows of the key: a Table, or a DataFrame if ``rows`` is "pandas"."""
        raise NotImplementedError

    def merge(self, a: State, b: State) -> State:
        """Return the state of the rows of both."""
        raise NotImplementedError

    def finish(self, state: State) -> Any:
        """Return the result: a dict or a tuple for the output schema; as it is, the state."""
        return state
