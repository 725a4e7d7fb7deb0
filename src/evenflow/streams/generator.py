"""Generated streams: the i-th message is a pure function of the parameters and i.

Arrival times are optional: with ``rate``, message i (from 0) arrives after i / rate seconds.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.keys import hash_keys
from evenflow.spec import number, spell, whole
from evenflow.streams.base import CHUNK, MOST_KEYS, Chunk, Stream
from evenflow.streams.sampling import alias_columns, zipf_weights

MOST_MESSAGES = 10**15  # message numbers stay exact in a float64


class Generator(Stream):
    """Base class of the generators, frozen dataclasses with ``messages``, ``seed`` and ``rate``.

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

    keyword: ClassVar[str]
    summary: ClassVar[str]
    messages: int
    seed: int
    rate: float | None
    keys: int  # for those that have it
    z: float

    @abstractmethod
    def _check(self) -> None:
        """Reject invalid parameters, and convert whole floats such as 1e5 to int."""

    @abstractmethod
    def _fill(self, start: int, out: Int32Array) -> None:
        """Write the key ids of messages ``start``, ``start + 1``, ... to ``out``."""

    def keys_upper_bound(self) -> int:
        """Return the number of possible keys; not all of them need to occur."""
        return self.keys

    def __post_init__(self) -> None:
        self._whole("messages", 1, MOST_MESSAGES)
        self._whole("seed", -(2**63), 2**64)
        if self.rate is not None:
            rule = "it must be a number of messages per second above 0"
            self._set("rate", number("rate", self.rate, 1e-9, 1e15, rule))
        self._check()

    @property
    def name(self) -> str:
        """The spec that opens this stream again."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return spell(self.keyword, {name: value for name, value in values.items() if value is not None})

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

    def _keys(self) -> None:
        why = f"it must be from 1 to {MOST_KEYS}, as a generator uses some bytes of memory per key"
        self._set("keys", whole("keys", self.keys, 1, MOST_KEYS, why))

    def _share(self, field: str, why: str) -> None:
        self._set(field, number(field, getattr(self, field), 0.0, 1.0, why))

    def _exponent(self) -> None:
        self._set("z", number("z", self.z, 0.0, 100.0, "it must be from 0 (uniform) to 100"))

    @cached_property
    def _zipf(self) -> UInt64Array:
        """The alias table of Zipf's law."""
        return alias_columns(zipf_weights(self.keys, self.z))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the parameters: tables are rebuilt where needed."""
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
