"""Generated streams: the i-th message is a pure function of the parameters and i.

Arrival times are optional: with ``rate``, message i (from 0) arrives after i / rate seconds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.keys import hash_keys
from evenflow.spec import number, parameters_of, spell, whole
from evenflow.streams.base import CHUNK, MOST_KEYS, Chunk, Stream
from evenflow.streams.sampling import alias_columns, zipf_weights

MOST_MESSAGES = 10**15  # message numbers stay exact in a float64


# what numbers have to be, wherever a generator has a parameter of this name
_RANGES = {
    "z": (0.0, 100.0, "it must be from 0 (uniform) to 100"),
    "share": (0.0, 1.0, "it must be a share of the messages from 0 to 1"),
    "start": (0.0, 1.0, "it must be a fraction of the stream from 0 to 1"),
    "end": (0.0, 1.0, "it must be a fraction of the stream from 0 to 1"),
    "skew": (0.0, 100.0, "it must be a percentage from 0 to 100"),
    "then": (0.0, 100.0, "it must be a percentage from 0 to 100"),
    "rate": (1e-9, 1e15, "it must be a number of messages per second above 0"),
}


class _Law:
    """Parameters that most generators have."""

    keys: int
    z: float


@dataclass(frozen=True, kw_only=True)
class Generator(_Law, Stream):
    """Base class of the generators, frozen dataclasses.

    Parameters
    ----------
    messages
        Number of messages.
    seed
        Seed of the random draws.
    rate
        Messages per second; None for a stream without times.

    Attributes
    ----------
    keyword
        Name in a spec, before the colon.
    summary
        One-line description.

    Examples
    --------
    >>> from evenflow.streams import Zipf
    >>> Zipf(keys=1000, messages=10**6).generate(500_000, 500_003).ids.tolist()
    [1, 0, 0]
    """

    messages: int = 10**7
    seed: int = 0
    rate: float | None = None

    keyword: ClassVar[str]
    summary: ClassVar[str]

    def _check(self) -> None:
        """Reject parameters that do not fit together."""

    @abstractmethod
    def _fill(self, start: int, out: Int32Array) -> None:
        """Write the key ids of messages ``start``, ``start + 1``, ... to ``out``."""

    def keys_upper_bound(self) -> int:
        """Return the number of possible keys; not all of them need to occur."""
        return self.keys

    def __post_init__(self) -> None:
        """Reject invalid parameters, and convert whole floats such as 1e5 to int."""
        self._whole("messages", 1, MOST_MESSAGES)
        self._whole("seed", -(2**63), 2**64)
        for name, (low, high, rule) in _RANGES.items():
            if getattr(self, name, None) is not None:
                self._set(name, number(name, getattr(self, name), low, high, rule))
        if hasattr(self, "keys"):
            why = f"it must be from 1 to {MOST_KEYS}, as a generator uses some bytes of memory per key"
            self._set("keys", whole("keys", self.keys, 1, MOST_KEYS, why))
        self._check()

    def _parameters(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in parameters_of(type(self))}

    @property
    def name(self) -> str:
        """The spec that opens this stream again."""
        values = self._parameters().items()
        return spell(self.keyword, {name: value for name, value in values if value is not None})

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the stream from its beginning in chunks of ``size`` messages; the last may be shorter."""
        size = whole("size", size, 1, None, "it must be at least 1")
        for start in range(0, self.messages, size):
            yield self.generate(start, min(start + size, self.messages))

    def generate(self, start: int, stop: int) -> Chunk:
        """Return messages ``start`` to ``stop - 1`` without generating those before them."""
        if not 0 <= start <= stop <= self.messages:
            raise EvenflowError(f"messages {start} to {stop} do not exist; choose from 0 to {self.messages}.")
        ids = np.empty(stop - start, np.int32)
        self._fill(start, ids)
        return Chunk(ids, self._times(start, stop))

    @cached_property
    def hashes(self) -> UInt64Array:
        """The 64-bit hash of every key, by id."""
        return hash_keys(np.arange(1, self.keys_upper_bound() + 1, dtype=np.int64))

    def label(self, id: int) -> str:
        """Return the key as text: the number ``id + 1``."""
        return str(self._known(id) + 1)

    def _known(self, id: int) -> int:
        last = self.keys_upper_bound() - 1
        return whole("id", id, 0, last, f"it must be from 0 to {last}")

    def _times(self, start: int, stop: int) -> Float64Array | None:
        if self.rate is None:
            return None
        return np.arange(start, stop, dtype=np.float64) / self.rate

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)

    def _whole(self, field: str, low: int, high: int) -> None:
        why = f"it must be a whole number from {low} to {high}"
        self._set(field, whole(field, getattr(self, field), low, high, why))

    @cached_property
    def _zipf(self) -> UInt64Array:
        """The alias table of Zipf's law."""
        return alias_columns(zipf_weights(self.keys, self.z))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the parameters: tables are rebuilt where needed."""
        return partial(type(self), **self._parameters()), ()
