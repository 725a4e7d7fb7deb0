"""A generated stream: frozen parameters, the i-th message a pure function of them and of i.

Arrival times are optional: with ``rate`` the i-th message (from 0) arrives after i / rate seconds.
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
    """The common part of all generators, each a frozen dataclass with ``messages``, ``seed`` and ``rate``."""

    keyword: ClassVar[str]  # what stands before the colon of its spelling
    summary: ClassVar[str]
    messages: int
    seed: int
    rate: float | None
    keys: int  # of those that have it
    z: float

    @abstractmethod
    def _check(self) -> None:
        """Refuse bad parameters with a sentence, and turn whole floats such as 1e5 into ints."""

    @abstractmethod
    def _fill(self, start: int, out: Int32Array) -> None:
        """Write the key numbers of messages ``start``, ``start + 1``, ... to ``out``."""

    def keys_upper_bound(self) -> int:
        """Return how many keys there are; all of them are possible, not all need to occur."""
        return self.keys

    def __post_init__(self) -> None:
        self._whole("messages", 1, MOST_MESSAGES)
        self._whole("seed", -(2**63), 2**64)
        if self.rate is not None:
            self._set("rate", number("rate", self.rate, 1e-9, 1e15, "it is messages per second, above 0"))
        self._check()

    @property
    def name(self) -> str:
        """The spelling that makes this stream again."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return spell(self.keyword, {name: value for name, value in values.items() if value is not None})

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the stream from its start in chunks of ``size`` messages; the last one may be shorter."""
        size = whole("size", size, 1, None, "a chunk holds at least one message")
        for start in range(0, self.messages, size):
            yield self.generate(start, min(start + size, self.messages))

    def generate(self, start: int, stop: int) -> Chunk:
        """Return messages ``start`` to ``stop - 1``, made without those before them."""
        if not 0 <= start <= stop <= self.messages:
            raise EvenflowError(f"messages {start} to {stop} were asked for; there are 0 to {self.messages}.")
        ids = np.empty(stop - start, np.int32)
        self._fill(start, ids)
        return Chunk(ids, self._times(start, stop))

    @cached_property
    def hashes(self) -> UInt64Array:
        """The 64 bits of every key, by id."""
        return hash_keys(np.arange(1, self.keys_upper_bound() + 1, dtype=np.int64))

    def label(self, id: int) -> str:
        """Return the key as text: number ``id + 1``."""
        return str(self._known(id) + 1)

    def _known(self, id: int) -> int:
        return whole("id", id, 0, self.keys_upper_bound() - 1, f"ids go to {self.keys_upper_bound() - 1}")

    def _times(self, start: int, stop: int) -> Float64Array | None:
        if self.rate is None:
            return None
        return np.arange(start, stop, dtype=np.float64) / self.rate

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)

    def _whole(self, field: str, low: int, high: int) -> None:
        why = f"it is a whole number from {low} to {high}"
        self._set(field, whole(field, getattr(self, field), low, high, why))

    def _keys(self) -> None:
        why = f"a generator has at least 1 key and, as it holds some bytes for each, at most {MOST_KEYS}"
        self._set("keys", whole("keys", self.keys, 1, MOST_KEYS, why))

    def _share(self, field: str, why: str) -> None:
        self._set(field, number(field, getattr(self, field), 0.0, 1.0, why))

    def _exponent(self) -> None:
        self._set("z", number("z", self.z, 0.0, 100.0, "the exponent of a Zipf law is 0 (uniform) or more"))

    @cached_property
    def _zipf(self) -> UInt64Array:
        """What draws a key by Zipf's law."""
        return alias_columns(zipf_weights(self.keys, self.z))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parameters alone: tables are made again where they are needed."""
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
