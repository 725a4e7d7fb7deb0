"""The class that users of ``stateful`` write: what a key remembers, and what its rows do to that."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

State = dict[str, Any]


class KeyedProcessor:
    """Work on the rows of a key with a memory of its own, in the one place where the key lives.

    ``state`` types the memory: columns of a table that anyone can query; nothing is ever pickled into storage
    or out of it. Maps are dicts, arrays lists, structs dicts, timestamps aware and in UTC. A key is the value
    of its column, or a tuple where it has several.

    ``process`` and ``expire`` return the new state, or None to forget the key, and a list of outputs. A third
    element is the time at which the key should be looked at again if no row of it comes: then ``expire`` is
    called. Without one the key never expires. ``clock`` says what time that is: "processing" (of the machine,
    the same for a whole batch) or "event" (the watermark: the largest event time seen less the delay). Inside
    of both methods ``self.now`` is that time; None while there is no watermark yet.

    A processor holds no other memory: which process runs it, and for which keys, changes from batch to batch.

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
    rows: ClassVar[str] = "arrow"  # or "pandas": what ``process`` gets
    clock: ClassVar[str] = "processing"
    now: datetime | None = None

    def start(self, key: Any) -> State:
        """Return the first state of a key: a dict of the declared columns."""
        raise NotImplementedError

    def process(self, key: Any, state: State, rows: Any) -> tuple[Any, ...]:
        """Take the rows of one key in this batch, in input order; return the new state and the outputs."""
        raise NotImplementedError

    def expire(self, key: Any, state: State) -> tuple[Any, ...]:
        """Take a key whose time has come; return as ``process`` does. By default it is forgotten."""
        return None, []
