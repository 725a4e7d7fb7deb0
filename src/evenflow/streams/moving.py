"""Keys that become hot while the stream runs: one that appears and fades, and one that moves from key to key.

Both lie over a background of Zipf's law with exponent ``z``: with probability ``share`` a message is of the
hot key, otherwise of the background. Ours, not a paper's: they ask a scheme how fast it finds a new hot key
and how soon it lets an old one go.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Int32Array, UInt64Array, kernel
from evenflow.streams.generator import Generator
from evenflow.streams.sampling import alias_draw, bits, draw_salt, unit


@dataclass(frozen=True)
class Burst(Generator):
    """A new key takes ``share`` of the messages at ``start`` and fades in a straight line until ``end``.

    ``start`` and ``end`` are parts of the stream; the bursting key is the last id, after the ``keys`` of the
    background.

    >>> ids = next(Burst(keys=100, messages=3000, start=0.5, end=1.0, seed=1).chunks()).ids
    >>> [int((part == 100).sum()) for part in ids.reshape(6, 500)]
    [0, 0, 0, 127, 73, 27]
    """

    z: float = 1.0
    keys: int = 10**5
    messages: int = 10**7
    share: float = 0.3
    start: float = 0.4
    end: float = 0.8
    seed: int = 0
    rate: float | None = None

    keyword = "burst"
    summary = "Zipf's law, and a new key that takes share= at start= and fades until end="

    def _check(self) -> None:
        self._exponent()
        self._keys()
        self._share("share", "it is the hot key's part of the messages, from 0 to 1")
        self._share("start", "it is the part of the stream before the burst, from 0 to 1")
        self._share("end", "it is the part of the stream after which the burst is over, from 0 to 1")
        if self.start >= self.end:
            raise EvenflowError(f"start is {self.start} and end is {self.end}; start is the lower.")

    def _fill(self, start: int, out: Int32Array) -> None:
        first, last = self.start * self.messages, self.end * self.messages
        salts = draw_salt(self.seed), draw_salt(self.seed, use=1)
        _draw_burst(salts[0], salts[1], start, self._zipf, self.share, first, last, out)

    def keys_upper_bound(self) -> int:
        """Return ``keys`` and one: the background's and the bursting key."""
        return self.keys + 1


@dataclass(frozen=True)
class Drift(Generator):
    """A hot key with ``share`` of the messages, another key in each of ``steps`` equal parts of the stream.

    In part j (from 0) it is the key of id ``keys - 1 - j``, which the background has among its rarest.

    >>> ids = next(Drift(keys=100, messages=3000, steps=3, share=0.9, seed=1).chunks()).ids
    >>> [int(np.bincount(part).argmax()) for part in ids.reshape(3, 1000)]
    [99, 98, 97]
    """

    z: float = 1.0
    keys: int = 10**5
    messages: int = 10**7
    share: float = 0.3
    steps: int = 10
    seed: int = 0
    rate: float | None = None

    keyword = "drift"
    summary = "Zipf's law, and a hot key with share= that is another one in each of steps= parts"

    def _check(self) -> None:
        self._exponent()
        self._keys()
        self._share("share", "it is the hot key's part of the messages, from 0 to 1")
        self._whole("steps", 1, self.keys)

    def _fill(self, start: int, out: Int32Array) -> None:
        salts = draw_salt(self.seed), draw_salt(self.seed, use=1)
        _draw_drift(salts[0], salts[1], start, self._zipf, self.share, self.steps / self.messages, out)


@kernel
def _draw_burst(
    salt: np.uint64,
    coin: np.uint64,
    start: int,
    columns: UInt64Array,
    share: float,
    first: float,
    last: float,
    out: Int32Array,
) -> None:
    for i in range(out.size):
        index = start + i
        hot = 0.0
        if first <= index < last:
            hot = share * (last - index) / (last - first)
        if unit(bits(coin, index)) < hot:
            out[i] = columns.size
        else:
            out[i] = alias_draw(bits(salt, index), columns)


@kernel
def _draw_drift(
    salt: np.uint64,
    coin: np.uint64,
    start: int,
    columns: UInt64Array,
    share: float,
    steps_per_message: float,
    out: Int32Array,
) -> None:
    for i in range(out.size):
        index = start + i
        if unit(bits(coin, index)) < share:
            out[i] = columns.size - 1 - np.int64(index * steps_per_message)
        else:
            out[i] = alias_draw(bits(salt, index), columns)
