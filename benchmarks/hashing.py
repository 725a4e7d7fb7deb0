"""hash_keys on a million strings, against hashing one string at a time from Python.

Three ways to hash one at a time: XXH64 in plain Python, the standard library's blake2b, and the fastest one
found, evenflow's compiled XXH64 called once per key. The target is 20 times their speed. A list misses it
against the compiled variant, since converting a list to an Arrow array alone takes about a tenth of such a
call per key.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import evenflow as ef
from evenflow.bench.measure import Prepare, Progress, Row, against, silent
from evenflow.kernels import kernel
from evenflow.keys.hashing import SEED
from evenflow.keys.xxhash import hash_bytes
from evenflow.report.tables import Table

KEYS = 10**6
ONE_BY_ONE = 100  # 1 in 100 keys is hashed one at a time; the speed does not depend on the number
ARROW, LIST = "hash_keys of an Arrow array", "hash_keys of a list"
COMPILED, BLAKE, PLAIN = "one at a time, compiled", "one at a time, blake2b", "one at a time, plain Python"


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure; ``speed_relative_to`` has the ratio to each way of hashing one at a time."""
    words = [f"word {number}" for number in range(KEYS // 10 if quick else KEYS)]
    array = pa.array(words)
    few = words[: len(words) // ONE_BY_ONE]
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        ARROW: (lambda: ef.hash_keys(array), len(words)),
        LIST: (lambda: ef.hash_keys(words), len(words)),
        COMPILED: (lambda: [hash_one(word.encode(), SEED) for word in few], len(few)),
        BLAKE: (lambda: [blake2b(word.encode()) for word in few], len(few)),
        PLAIN: (lambda: [plain_xxh64(word.encode(), int(SEED)) for word in few], len(few)),
    }
    hashes = ef.hash_keys(array).tolist()
    same = [ways[LIST][0]().tolist(), ways[COMPILED][0](), ways[PLAIN][0]()]
    if any(hashes[: len(other)] != other for other in same):
        raise AssertionError("the ways to hash disagree; their speeds mean nothing")
    tasks = {name: _task(work) for name, (work, _) in ways.items()}
    measured = against(tasks[ARROW], tasks, 3 if quick else 7, progress)
    speeds = {name: count / measured[name].seconds for name, (_, count) in ways.items()}
    return [
        {
            "what": name,
            "keys_per_second": speed,
            "speed_relative_to": {other: speed / speeds[other] for other in (COMPILED, BLAKE, PLAIN)},
        }
        for name, speed in speeds.items()
    ]


def _task(work: Callable[[], object]) -> Prepare:
    return lambda: work


@kernel
def hash_one(key: bytes, seed: np.uint64) -> np.uint64:
    """Hash one key; numba accepts bytes directly, which is twice as fast as wrapping them in an array."""
    return hash_bytes(key, 0, len(key), seed)  # type: ignore[arg-type]


def blake2b(data: bytes) -> int:
    """Hash one key with the standard library."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def plain_xxh64(data: bytes, seed: int) -> int:
    """Hash one key of fewer than 32 bytes by the definition of XXH64."""
    mask = 0xFFFFFFFFFFFFFFFF
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def rotate(value: int, bits: int) -> int:
        value &= mask
        return (value << bits | value >> (64 - bits)) & mask

    hashed, at = (seed + p5 + len(data)) & mask, 0
    while at + 8 <= len(data):
        (word,) = struct.unpack_from("<Q", data, at)
        hashed = rotate(hashed ^ rotate(word * p2, 31) * p1 & mask, 27) * p1 + p4 & mask
        at += 8
    if at + 4 <= len(data):
        (half,) = struct.unpack_from("<I", data, at)
        hashed = rotate(hashed ^ half * p1 & mask, 23) * p2 + p3 & mask
        at += 4
    for byte in data[at:]:
        hashed = rotate(hashed ^ byte * p5 & mask, 11) * p1 & mask
    hashed = (hashed ^ hashed >> 33) * p2 & mask
    hashed = (hashed ^ hashed >> 29) * p3 & mask
    return hashed ^ hashed >> 32


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return one table."""
    cells = [(row["what"], row["keys_per_second"] / 1e6, *row["speed_relative_to"].values()) for row in rows]
    columns = ("what", "M keys/s", "x compiled", "x blake2b", "x plain Python")
    return [Table("Hashing strings, speed relative to one at a time from Python", columns, cells)]
