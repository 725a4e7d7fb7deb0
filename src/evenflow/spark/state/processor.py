"""The base class that users of ``stateful`` derive from."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

State = dict[str, Any]


class KeyedProcessor:
    """Processes the rows of each key, with state per key, on the worker that owns the key.

    ``state`` declares the columns of the state, stored in a table that can be queried; nothing is pickled.
    Maps and structs are dicts, arrays are lists, timestamps have the time zone UTC. A key is the value of its
    column, or a tuple if it has several columns.

    ``process`` and ``expire`` return the new state, or None to remove the key, and a list of outputs. An
    optional third element is an expiry time: ``expire`` is called at that time unless rows of the key arrive
    before. Without one, the key never expires. ``clock`` selects the time: "processing" (the driver's clock,
    constant within a batch) or "event" (the watermark: the largest event time so far minus the delay). In
    both methods, ``self.now`` is the current time; None while there is no watermark.

    Do not keep other state in the processor: the process that runs it, and its keys, change between batches.

    >>> class Vwap(KeyedProcessor):
    ...     state = "notional double, volume double"
    ...     def start(self, key):
    ...         return {"notional": 0.0, "volume": 0.0}
    ...     def process(self, key, state, rows):
    ...         state["volume"] += pc.sum(rows["volume"]).as_py()
    ...         state["notional"] += pc.sum(pc.multiply(rows["price"], rows["volume"])).as_py()
    ...         return state, [{"ticker": key, "vwap": state["notional"] / state["volume"]}]
    >>> import pyarrow as pa, pyarrow.compute as pc
    >>> vwap = Vwap()
    >>> vwap.process("A", vwap.start("A"), pa.table({"price": [10.0, 12.0], "volume": [1.0, 3.0]}))
    ({'notional': 46.0, 'volume': 4.0}, [{'ticker': 'A', 'vwap': 11.5}])
    """

    state: ClassVar[str | StructType]
    rows: ClassVar[str] = "arrow"  # or "pandas": the format of the rows passed to ``process``
    clock: ClassVar[str] = "processing"
    now: datetime | None = None

    def start(self, key: Any) -> State:
        """Return the initial state of a key: a dict of the declared columns."""
        raise NotImplementedError

    def process(self, key: Any, state: State, rows: Any) -> tuple[Any, ...]:
        """Process the rows of one key in this batch, in input order; return the new state and the outputs."""
        raise NotImplementedError

    def expire(self, key: Any, state: State) -> tuple[Any, ...]:
        """Handle a key that has expired; return as ``process`` does. By default, the key is removed."""
        return None, []
