"""What every stream is: key numbers in the order of the stream, in chunks, as often as asked for.

Laws, tested for every stream:

* repetition: every call of ``chunks`` starts anew and yields the same messages, whatever the chunk size;
* dense numbers: an id is 0 .. K - 1 and stands for one key; ``hashes[id]`` is what a router gets,
  ``hash_keys`` of the key;
* conservation: every row of the data is one message; rows are never dropped in silence;
* bounded memory: what a stream holds grows with its distinct keys, never with its messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, UInt64Array

CHUNK = 1 << 20
MOST_KEYS = 10**8  # a generator holds about 20 bytes per key


class Chunk(NamedTuple):
    """Some messages in a row: their key numbers, and the seconds at which they arrive (None: no clock).

    Times never decrease.
    """

    ids: Int32Array
    times: Float64Array | None

    def part(self, begin: int, end: int) -> Chunk:
        """Return the messages from ``begin`` up to ``end``."""
        return Chunk(self.ids[begin:end], None if self.times is None else self.times[begin:end])


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Return the messages of several chunks, one after the other, as one."""
    if len(chunks) == 1:
        return chunks[0]
    times = [chunk.times for chunk in chunks if chunk.times is not None]
    return Chunk(np.concatenate([chunk.ids for chunk in chunks]), np.concatenate(times) if times else None)


class Stream(ABC):
    """A keyed stream that can be read again and again; ``open_stream`` makes one from its spelling."""

    messages: int | None  # how many there are, where that is known before reading

    @property
    @abstractmethod
    def name(self) -> str:
        """The spelling that makes this stream again."""

    @abstractmethod
    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the stream from its start in chunks of ``size`` messages; the last one may be shorter."""

    @property
    @abstractmethod
    def hashes(self) -> UInt64Array:
        """The 64 bits of every key, by id; of a file: of the ids that ``chunks`` has yielded so far."""

    @abstractmethod
    def label(self, id: int) -> str:
        """Return the key as text, for people."""

    def keys_upper_bound(self) -> int | None:
        """Return how many distinct ids there can be, where that is known before reading."""
        return None
