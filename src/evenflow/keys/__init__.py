"""Hashing: keys to 64 bits, and 64 bits to candidate workers.

``hash_keys`` returns the same values as Spark's ``xxhash64``, so that Python and the JVM agree on every key.

The hash family of all schemes is ``candidate(key, i, salt, n) = range(mix(key ^ (salt + i * golden)), n)``,
where ``mix`` is the finaliser of splitmix64 and ``range(h, n) = (h >> 32) * n >> 32``. ``salt`` depends only
on the seed, so that all sources of one run agree on every key's candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenflow.kernels import UInt64Array, inlined

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27 = np.uint64(27)
_S30 = np.uint64(30)
_S31 = np.uint64(31)
_S32 = np.uint64(32)


@inlined
def mix(value: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finaliser of splitmix64)."""
    value = (value ^ (value >> _S30)) * _MIX_1
    value = (value ^ (value >> _S27)) * _MIX_2
    return value ^ (value >> _S31)


@inlined
def to_range(hashed: np.uint64, n: int) -> int:
    """Map 64 hashed bits to 0 .. n - 1 by their upper half, without division."""
    return np.int64(((hashed >> _S32) * np.uint64(n)) >> _S32)  # type: ignore[return-value]


@inlined
def candidate(key: np.uint64, index: int, salt: np.uint64, n: int) -> int:
    """Return the ``index``-th hash of ``key`` onto 0 .. n - 1; two indices may give the same worker."""
    return to_range(mix(key ^ (salt + np.uint64(index) * GOLDEN)), n)


@inlined
def second_candidate(key: np.uint64, first: int, salt: np.uint64, n: int, distinct: bool) -> int:
    """Return the next hash or, if ``distinct``, the next one that differs from ``first``."""
    worker = candidate(key, 1, salt, n)
    if distinct and n > 1:
        index = 2
        while worker == first:
            worker = candidate(key, index, salt, n)
            index += 1
    return worker


def salt_of(seed: int) -> np.uint64:
    """Return the salt of the hash family for ``seed``, which can be any integer."""
    mask = 0xFFFFFFFFFFFFFFFF
    value = (seed * int(GOLDEN) + int(GOLDEN)) & mask
    value = ((value ^ (value >> 30)) * int(_MIX_1)) & mask
    value = ((value ^ (value >> 27)) * int(_MIX_2)) & mask
    return np.uint64(value ^ (value >> 31))


def hash_keys(*columns: Any) -> UInt64Array:
    """Return a 64-bit hash for every row, equal to Spark's ``xxhash64`` of the same columns.

    Parameters
    ----------
    *columns
        Columns of equal length: lists, numpy arrays, pandas Series or Indexes, or Arrow arrays. A single
        pandas DataFrame, Arrow table or record batch stands for all its columns. `evenflow.keys.columns`
        describes how Python, numpy and pandas values are typed, `evenflow.keys.hashing` what Spark hashes for
        each type.

    Returns
    -------
    numpy.ndarray
        The hashes, uint64. A null leaves the running hash unchanged, so a row of nulls hashes to the seed,
        42.

    Raises
    ------
    EvenflowError
        If keys mix types, have a type that Spark does not hash, or columns differ in length.

    Examples
    --------
    >>> hash_keys(["to", "be", None]).tolist()
    [17933877694092729143, 11435180318302450781, 42]
    >>> hash_keys(["to", "be"], [1, 2]).dtype
    dtype('uint64')
    """
    # Imported here: pyarrow is loaded on first use, and schemes' cached kernels do not depend on these files.
    from evenflow.keys.columns import as_columns
    from evenflow.keys.hashing import hash_columns

    return hash_columns(as_columns(columns))
