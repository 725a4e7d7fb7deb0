"""Bounded in-memory samples of streams.

Samples consist of contiguous rows, which preserves bursts. A generator is sampled in 100 blocks spread over
its length. Several files are sampled in proportion to their size; a Parquet file contributes the beginning of
every row group, any other file its beginning. A single file that is not Parquet contributes its first rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.spec import whole
from evenflow.streams.base import CHUNK, Chunk, Stream, join_chunks
from evenflow.streams.files import FileStream
from evenflow.streams.generator import Generator

BLOCKS = 100
_PIECE = 1 << 18  # messages between progress reports

Watch = Callable[[int], None]


class Sample(Stream):
    """Messages in memory.

    Attributes
    ----------
    ids, times
        Key ids and arrival times, as in a ``Chunk``.
    total
        Messages in the whole stream; None if not counted.
    how
        Which messages were read; empty for all.

    Examples
    --------
    >>> from evenflow.streams import open_stream
    >>> sample = take_sample(open_stream("zipf:keys=100,messages=1e6"), 1000)
    >>> sample.messages, sample.how
    (1000, '1,000 of 1,000,000 messages, in 100 blocks spread over the stream')
    """

    messages: int

    def __init__(
        self, stream: Stream, ids: Int32Array, times: Float64Array | None, total: int | None, how: str
    ):
        self.stream = stream
        self.ids = ids
        self.times = times
        self.total = total
        self.how = how
        self.messages = ids.size

    @property
    def name(self) -> str:
        """The spec of the sampled stream."""
        return self.stream.name

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the sample from its beginning in chunks of ``size`` messages; the last may be shorter."""
        size = whole("size", size, 1, None, "it must be at least 1")
        whole_sample = Chunk(self.ids, self.times)
        for start in range(0, self.messages, size):
            yield whole_sample.part(start, start + size)

    @property
    def hashes(self) -> UInt64Array:
        """The 64-bit hash of every key, by id."""
        return self.stream.hashes

    def label(self, id: int) -> str:
        """Return the key with this id as text."""
        return self.stream.label(id)

    def keys_upper_bound(self) -> int:
        """Return the number of ids."""
        return int(self.hashes.size)


def take_sample(stream: Stream, limit: int | None, watch: Watch | None = None) -> Sample:
    """Read at most ``limit`` messages into memory; None reads all. ``watch`` gets the number read so far."""
    if limit is not None:
        limit = whole("limit", limit, 1, None, "it must be at least 1")
    sample = _taken(stream, limit, watch)
    if isinstance(stream, FileStream) and sample.ids.min() == sample.ids.max():
        stream.refuse_null(int(sample.ids[0]))
    return sample


def _taken(stream: Stream, limit: int | None, watch: Watch | None) -> Sample:
    if limit is None or (stream.messages is not None and stream.messages <= limit):
        ids, times = _read(stream.chunks(_PIECE), watch)
        return Sample(stream, ids, times, ids.size, "")
    if isinstance(stream, Generator):
        return _blocks(stream, limit, watch)
    if isinstance(stream, FileStream) and stream.messages is not None:
        return _spread(stream, limit, watch)
    ids, times = _read(_first(stream.chunks(_PIECE), limit + 1), watch)
    if ids.size <= limit:
        return Sample(stream, ids, times, ids.size, "")
    if isinstance(stream, FileStream) and len(stream.files) > 1:
        return _spread(stream, limit, watch)
    how = f"the first {limit:,} messages; the total is unknown"
    return Sample(stream, ids[:limit], None if times is None else times[:limit], None, how)


def _blocks(stream: Generator, limit: int, watch: Watch | None) -> Sample:
    blocks = min(BLOCKS, limit)
    bounds = [limit * block // blocks for block in range(blocks + 1)]
    starts = [(stream.messages - limit) * block // max(1, blocks - 1) for block in range(blocks)]
    parts = (
        stream.generate(start + low, start + high)
        for start, low, high in zip(starts, bounds, bounds[1:], strict=False)
    )
    ids, times = _read(parts, watch)
    how = f"{limit:,} of {stream.messages:,} messages, in {blocks} blocks spread over the stream"
    return Sample(stream, ids, times, stream.messages, how)


def _spread(stream: FileStream, limit: int, watch: Watch | None) -> Sample:
    sizes = [file.rows() if stream.messages is not None else file.size() or 0 for file in stream.files]
    ends = np.cumsum([size or 0 for size in sizes], dtype=np.float64)
    shares = np.diff(np.floor(ends / ends[-1] * limit), prepend=0.0).astype(np.int64).tolist()
    ids, times = _read(stream.beginnings(shares), watch)
    files = f"{len(sizes):,} files" if len(sizes) > 1 else "the file"
    total = stream.messages
    if total is None:
        how = f"{ids.size:,} messages, from the beginning of each of {files}; the total is unknown"
    else:
        how = f"{ids.size:,} of {total:,} messages, from the beginning of every row group of {files}"
    return Sample(stream, ids, times, total, how)


def _first(chunks: Iterator[Chunk], limit: int) -> Iterator[Chunk]:
    for chunk in chunks:
        yield chunk.part(0, limit)
        limit -= chunk.ids.size
        if limit <= 0:
            return


def _read(chunks: Iterator[Chunk], watch: Watch | None) -> Chunk:
    found: list[Chunk] = []
    read = 0
    for chunk in chunks:
        found.append(chunk)
        read += chunk.ids.size
        if watch is not None:
            watch(read)
    return join_chunks(found)
