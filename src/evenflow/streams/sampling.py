"""Counter-based random keys: draw i of a seed is a pure function of i, so chunks are independent.

The bits of message i are ``mix(salt + (i + 1) * golden)``, the i-th step of splitmix64. Their upper 53 bits
draw from a weighted set by the alias method (Walker 1977, set up as in Vose 1991): one column, one
comparison. A column is a 64-bit word, threshold in the upper half and alias in the lower, so a draw touches
one cache line; a key's probability is exact to 2^-32 of a column's, that is to 2^-32 / K.
"""

from __future__ import annotations

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import GOLDEN, mix, salt_of

_ONE = np.uint64(1)
_S11 = np.uint64(11)
_S32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_UNIT = 2.0**-53
_SCALE = 2.0**32
_STREAMS = 0x73747265616D73  # keeps the draws of a seed independent of its hash family


def draw_salt(seed: int, use: int = 0) -> np.uint64:
    """Return the salt of a generator's draws, independent for every ``use`` of a seed."""
    return salt_of(int(salt_of(seed)) ^ (_STREAMS + use))


@inlined
def bits(salt: np.uint64, index: int) -> np.uint64:
    """Return the 64 random bits of message ``index``."""
    return mix(salt + (np.uint64(index) + _ONE) * GOLDEN)


@inlined
def unit(random: np.uint64) -> float:
    """Map 64 bits to [0, 1)."""
    return np.float64(random >> _S11) * _UNIT


@inlined
def uniform_draw(random: np.uint64, keys: int) -> int:
    """Choose one of 0 .. keys - 1."""
    return np.int64(unit(random) * keys)  # type: ignore[return-value]


@inlined
def alias_draw(random: np.uint64, columns: UInt64Array) -> int:
    """Choose one of 0 .. K - 1 by the weights given to ``alias_columns``."""
    scaled = unit(random) * columns.size
    column = np.int64(scaled)
    word = columns[column]
    if np.uint64((scaled - column) * _SCALE) < (word >> _S32):
        return column  # type: ignore[return-value]
    return np.int64(word & _LOW)  # type: ignore[return-value]


def alias_columns(weights: Float64Array) -> UInt64Array:
    """Return the columns of the alias method for ``weights`` (non-negative, at least one positive)."""
    share = weights * (weights.size / weights.sum())
    columns = np.empty(weights.size, np.uint64)
    _fill_columns(share, columns, np.empty(weights.size, np.int64))
    return columns


@kernel
def _fill_columns(share: Float64Array, columns: UInt64Array, stack: Int64Array) -> None:
    """Pair every below-average column with an above-average one; the two stacks grow from both ends."""
    n = share.size
    poor = 0
    rich = n
    for i in range(n):
        if share[i] < 1.0:
            stack[poor] = i
            poor += 1
        else:
            rich -= 1
            stack[rich] = i
    while poor > 0 and rich < n:
        low = stack[poor - 1]
        poor -= 1
        high = stack[rich]
        columns[low] = (np.uint64(share[low] * _SCALE) << _S32) | np.uint64(high)
        share[high] -= 1.0 - share[low]
        if share[high] < 1.0:
            rich += 1
            stack[poor] = high
            poor += 1
    for left in range(poor):  # left over by rounding
        columns[stack[left]] = (_LOW << _S32) | np.uint64(stack[left])
    for left in range(rich, n):
        columns[stack[left]] = (_LOW << _S32) | np.uint64(stack[left])


def zipf_weights(keys: int, z: float) -> Float64Array:
    """Return ``rank ** -z`` for the ranks 1 .. keys."""
    return np.arange(1, keys + 1, dtype=np.float64) ** -z


@kernel
def draw_uniform(salt: np.uint64, start: int, keys: int, out: Int32Array) -> None:
    """Fill ``out`` with the uniform draws of messages ``start``, ``start + 1``, ..."""
    for i in range(out.size):
        out[i] = uniform_draw(bits(salt, start + i), keys)


@kernel
def draw_weighted(salt: np.uint64, start: int, columns: UInt64Array, out: Int32Array) -> None:
    """Fill ``out`` with the weighted draws of messages ``start``, ``start + 1``, ..."""
    for i in range(out.size):
        out[i] = alias_draw(bits(salt, start + i), columns)


@kernel
def draw_grouped(
    salt: np.uint64, start: int, ends: Float64Array, counts: Int64Array, out: Int32Array
) -> None:
    """Fill ``out`` with draws from groups of keys, uniform within each group.

    Group g has ``counts[g]`` keys, numbered after those of the preceding groups; ``ends`` are the cumulative
    probabilities of the groups, the last one 1. There is no table: draws touch no memory, regardless of the
    number of keys.
    """
    for i in range(out.size):
        draw = unit(bits(salt, start + i))
        group = 0
        begin = 0.0
        first = 0
        while draw >= ends[group]:
            begin = ends[group]
            first += counts[group]
            group += 1
        inside = np.int64((draw - begin) / (ends[group] - begin) * counts[group])
        out[i] = first + min(inside, counts[group] - 1)
