"""Hot keys that change during the stream: one that appears and fades, and one that drifts from key to key.

With probability ``share`` a message has the hot key; otherwise it follows Zipf's law with exponent ``z``.
These streams are not from a paper: they test how fast a scheme detects a new hot key and drops an old one.
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
    """A new key that has ``share`` of the messages at ``start`` and fades linearly until ``end``.

    Parameters
    ----------
    z, keys
        Zipf exponent and number of keys of the background; the bursting key has id ``keys``.
    share
        Share of the messages with the bursting key at ``start``.
    start, end
        Beginning and end of the burst, as fractions of the stream.

    Examples
    --------
    >>> ids = next(Burst(keys=100, messages=3000, start=0.5, end=1.0, seed=1).chunks()).ids
    >>> [int((part == 100).sum()) for part in ids.reshape(6, 500)]
    [0, 0, 0, 127, 73, 27]
    """

    z: float = 1.0
    keys: int = 10**5
    share: float = 0.3
    start: float = 0.4
    end: float = 0.8

    keyword = "burst"
    summary = "Zipf's law, plus a new key with share= of the messages at start= that fades until end="

    def _check(self) -> None:
        if self.start >= self.end:
            raise EvenflowError(f"start is {self.start} and end is {self.end}; start must be below end.")

    def _fill(self, start: int, out: Int32Array) -> None:
        first, last = self.start * self.messages, self.end * self.messages
        salts = draw_salt(self.seed), draw_salt(self.seed, use=1)
        _draw_burst(salts[0], salts[1], start, self._zipf, self.share, first, last, out)

    def keys_upper_bound(self) -> int:
        """Return ``keys + 1``: the background and the bursting key."""
        return self.keys + 1


@dataclass(frozen=True)
class Drift(Generator):
    """A hot key with ``share`` of the messages, a different one in each of ``steps`` equal parts.

    In part j (from 0) it is id ``keys - 1 - j``, one of the rarest keys of the background.

    Parameters
    ----------
    z, keys
        Zipf exponent and number of keys of the background.
    share
        Share of the messages with the hot key.
    steps
        Number of parts.

    Examples
    --------
    >>> ids = next(Drift(keys=100, messages=3000, steps=3, share=0.9, seed=1).chunks()).ids
    >>> [int(np.bincount(part).argmax()) for part in ids.reshape(3, 1000)]
    [99, 98, 97]
    """

    z: float = 1.0
    keys: int = 10**5
    share: float = 0.3
    steps: int = 10

    keyword = "drift"
    summary = (
        "Zipf's law, plus a hot key with share= of the messages, a different one in each of steps= parts"
    )

    def _check(self) -> None:
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
