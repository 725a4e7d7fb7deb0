"""The interface of a stream: key ids in stream order, in chunks, repeatable.

Invariants, tested for every stream:

* repeatable: every call of ``chunks`` starts from the beginning and yields the same messages, regardless of
  the chunk size;
* dense ids: ids are 0 .. K - 1, one per key; ``hashes[id]`` is ``hash_keys`` of the key, the input of a
  router;
* lossless: every row of the data is one message; no row is dropped silently;
* bounded memory: memory grows with the number of distinct keys, not with the number of messages.
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
    """Consecutive messages of a stream.

    Attributes
    ----------
    ids
        Key ids.
    times
        Arrival times in seconds, which never decrease; None if the stream has no times.

    Examples
    --------
    >>> Chunk(np.array([0, 1, 0], np.int32), None).part(0, 2).ids.tolist()
    [0, 1]
    """

    ids: Int32Array
    times: Float64Array | None

    def part(self, begin: int, end: int) -> Chunk:
        """Return the messages from ``begin`` to ``end - 1``."""
        return Chunk(self.ids[begin:end], None if self.times is None else self.times[begin:end])


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Concatenate chunks."""
    if len(chunks) == 1:
        return chunks[0]
    times = [chunk.times for chunk in chunks if chunk.times is not None]
    return Chunk(np.concatenate([chunk.ids for chunk in chunks]), np.concatenate(times) if times else None)


class Stream(ABC):
    """A keyed stream that can be read repeatedly; ``open_stream`` creates one from its spec.

    Attributes
    ----------
    messages
        Number of messages, or None if unknown before reading.
    """

    messages: int | None

    @property
    @abstractmethod
    def name(self) -> str:
        """The spec that opens this stream again."""

    @abstractmethod
    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the stream from its beginning.

        Parameters
        ----------
        size
            Messages per chunk; the last chunk may be shorter.

        Yields
        ------
        Chunk
            Consecutive messages.
        """

    @property
    @abstractmethod
    def hashes(self) -> UInt64Array:
        """The 64-bit hash of every key, by id; for files, of the ids that ``chunks`` has yielded so far."""

    @abstractmethod
    def label(self, id: int) -> str:
        """Return the key with this id as text."""

    def keys_upper_bound(self) -> int | None:
        """Return the maximum number of distinct ids, or None if unknown before reading."""
        return None
