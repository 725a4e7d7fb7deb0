"""The base class that users of ``aggregate`` derive from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

State = Any


class Aggregator:
    """Mergeable per-key work in Python; the methods are named as in Spark's Aggregator.

    ``buffer`` declares the columns of the state, which is sent and stored as columns and never pickled. A
    state is a dict with these names or a tuple (or NamedTuple) in their order, and is passed back in the form
    that ``zero`` returns: maps and structs as dicts, arrays as lists, timestamps with time zone UTC.

    ``merge`` must be associative and commutative, with ``zero()`` as its identity: rows of a hot key are
    reduced on several workers, and a large group in several calls of ``reduce``.

    Instead of ``merge``, ``merges`` may give an aggregate of Spark for each column of the buffer: its name
    (``"sum"``, ``"max"``, ``"hll_union_agg"``) or a function from a Column to a Column. Spark then merges
    without Python, in streaming at less than half of the overhead per micro-batch (``evenflow bench spark``).

    ``finish`` may be omitted if the state is the result; the schema is then the buffer's.

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
        """Return the state updated with rows of the key: a Table, or a DataFrame if ``rows`` is "pandas"."""
        raise NotImplementedError

    def merge(self, a: State, b: State) -> State:
        """Return the combined state."""
        raise NotImplementedError

    def finish(self, state: State) -> Any:
        """Return the result as a dict or tuple of the output schema; by default, the state."""
        return state
