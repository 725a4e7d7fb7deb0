"""The messages of a deployment: a stream in memory, the same for Spark (files) and for the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.kernels import Int32Array, UInt64Array
from evenflow.keys import hash_keys
from evenflow.streams import open_stream
from evenflow.streams.base import CHUNK, Chunk, Stream
from evenflow.streams.sample import take_sample


class Messages(Stream):
    """Key numbers in order; the key of id i is the number i + 1, in Spark and in the simulator.

    >>> Messages(np.array([7, 3, 7, 7], np.int32)).thinned(2).ids.tolist()
    [0, 0]
    """

    messages: int

    def __init__(self, ids: Int32Array, name: str = "messages"):
        found, numbers = np.unique(ids, return_inverse=True)
        self.ids: Int32Array = numbers.astype(np.int32)
        self.keys = int(found.size)
        self.messages = int(ids.size)
        self._name = name

    @staticmethod
    def of(spec: str, messages: int | None = None) -> Messages:
        """Take so many messages of a stream, spread over its length where it is longer."""
        stream = open_stream(spec)
        return Messages(take_sample(stream, messages).ids, spec)

    def thinned(self, step: int) -> Messages:
        """Return every ``step``-th message."""
        return self if step == 1 else Messages(self.ids[::step], self._name)

    @property
    def name(self) -> str:
        """The spelling of the stream that these were taken from."""
        return self._name

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the messages from their start."""
        for start in range(0, self.messages, size):
            yield Chunk(self.ids[start : start + size], None)

    @cached_property
    def hashes(self) -> UInt64Array:
        """The 64 bits of every key, by id."""
        return hash_keys(np.arange(1, self.keys + 1, dtype=np.int64))

    def label(self, id: int) -> str:
        """Return the key as text."""
        return str(id + 1)

    def keys_upper_bound(self) -> int:
        """Return the number of keys."""
        return self.keys

    def write(self, folder: Path, sources: int) -> None:
        """Write one file per source: source j has the messages whose number is j modulo ``sources``."""
        folder.mkdir(parents=True)
        keys = self.ids.astype(np.int64) + 1
        for source in range(sources):
            own = pa.table({"k": keys[source::sources]})
            path = folder / f"{source:05d}.parquet"
            pq.write_table(own, path, compression="none", use_dictionary=False)
