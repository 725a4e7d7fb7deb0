"""The distribution of a stream to its sources: by shuffle (the papers' default), by key, or skewed.

* ``shuffle``: message i goes to source i mod s;
* ``key``: all messages of a key go to one source, ``range(mix(key ^ salt), s)`` with a separate salt;
* ``skewed:z``: message i goes to source j with probability proportional to (j + 1)^-z (default z = 1).

The source of message i depends only on i, its key and the seed, never on how the stream is cut into chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.keys import mix, to_range
from evenflow.streams.sampling import alias_columns, alias_draw, bits, draw_salt, zipf_weights

_BY_KEY, _SKEWED = 11, 12  # uses of the seed, distinct from the streams' own


class Part(NamedTuple):
    """The messages of one source, in stream order."""

    keys: UInt64Array
    ids: Int32Array
    times: Float64Array | None
    positions: slice | Int32Array  # of these messages among all


@dataclass(frozen=True)
class Feed:
    """Which source gets a message.

    >>> Feed.parse("skewed:1.5")
    Feed(kind='skewed', exponent=1.5)
    """

    kind: str = "shuffle"
    exponent: float = 1.0

    @staticmethod
    def parse(spec: str | Feed) -> Feed:
        """Read ``shuffle``, ``key``, ``skewed`` or ``skewed:exponent``."""
        if isinstance(spec, Feed):
            return spec
        kind, _, exponent = str(spec).partition(":")
        try:
            feed = Feed(kind, float(exponent) if exponent else 1.0)
        except ValueError:
            feed = Feed("")
        if feed.kind not in {"shuffle", "key", "skewed"} or (exponent and kind != "skewed"):
            raise EvenflowError(
                f"feed is {spec!r}; use 'shuffle', 'key', 'skewed' or an exponent, as in 'skewed:1.5'."
            )
        if not 0 <= feed.exponent <= 100:
            raise EvenflowError(f"feed is {spec!r}; use an exponent between 0 and 100.")
        return feed

    def __str__(self) -> str:
        return f"skewed:{self.exponent:g}" if self.kind == "skewed" else self.kind


class Dealer:
    """Distributes messages to ``sources`` sources, reusing its buffers."""

    def __init__(self, feed: Feed, sources: int, seed: int, size: int):
        self.feed = feed
        self.sources = sources
        self.size = size
        self._salt = draw_salt(seed, _BY_KEY if feed.kind == "key" else _SKEWED)
        self._columns = alias_columns(zipf_weights(sources, feed.exponent))
        self._keys = np.empty(size, np.uint64)
        sorted_size = 0 if feed.kind == "shuffle" else size
        self._chosen = np.empty(sorted_size, np.int32)
        self._ids = np.empty(sorted_size, np.int32)
        self._positions = np.empty(sorted_size, np.int32)
        self._starts = np.empty(sources + 1, np.int64)
        self._next = np.empty(sources, np.int64)

    def deal(
        self, first: int, ids: Int32Array, times: Float64Array | None, hashes: UInt64Array
    ) -> list[Part]:
        """Distribute messages ``first``, ``first + 1``, ... of the stream; valid until the next call."""
        if self.feed.kind == "shuffle":
            return self._deal_in_turn(first, ids, times, hashes)
        n = ids.size
        chosen, keys, own, positions = self._chosen[:n], self._keys[:n], self._ids[:n], self._positions[:n]
        if self.feed.kind == "key":
            _by_key(ids, hashes, self._salt, self.sources, chosen)
        else:
            _by_weight(first, self._salt, self._columns, chosen)
        _deal(ids, hashes, chosen, self._starts, self._next, keys, own, positions)
        parts = [slice(*self._starts[source : source + 2]) for source in range(self.sources)]
        return [
            Part(keys[part], own[part], None if times is None else times[positions[part]], positions[part])
            for part in parts
        ]

    def _deal_in_turn(
        self, first: int, ids: Int32Array, times: Float64Array | None, hashes: UInt64Array
    ) -> list[Part]:
        """Give source j the messages whose number modulo the number of sources is j."""
        parts = []
        used = 0
        for source in range(self.sources):
            positions = slice((source - first) % self.sources, None, self.sources)
            own = ids[positions]
            keys = self._keys[used : used + own.size]
            used += own.size
            _gather(own, hashes, keys)
            parts.append(Part(keys, own, None if times is None else times[positions], positions))
        return parts


@kernel
def _gather(ids: Int32Array, hashes: UInt64Array, keys: UInt64Array) -> None:
    for i in range(ids.size):
        keys[i] = hashes[ids[i]]


@kernel
def _by_key(ids: Int32Array, hashes: UInt64Array, salt: np.uint64, sources: int, chosen: Int32Array) -> None:
    for i in range(ids.size):
        chosen[i] = to_range(mix(hashes[ids[i]] ^ salt), sources)


@kernel
def _by_weight(first: int, salt: np.uint64, columns: UInt64Array, chosen: Int32Array) -> None:
    for i in range(chosen.size):
        chosen[i] = alias_draw(bits(salt, first + i), columns)


@kernel
def _deal(
    ids: Int32Array,
    hashes: UInt64Array,
    chosen: Int32Array,
    starts: Int64Array,
    place_of: Int64Array,
    keys: UInt64Array,
    own: Int32Array,
    positions: Int32Array,
) -> None:
    """Sort the messages by source, preserving their order."""
    sources = place_of.size
    place_of[:] = 0
    for i in range(chosen.size):
        place_of[chosen[i]] += 1
    start = 0
    for source in range(sources):
        starts[source] = start
        start += place_of[source]
        place_of[source] = starts[source]
    starts[sources] = start
    for i in range(chosen.size):
        source = chosen[i]
        slot = place_of[source]
        place_of[source] = slot + 1
        keys[slot] = hashes[ids[i]]
        own[slot] = ids[i]
        positions[slot] = i
