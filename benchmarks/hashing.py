"""Strings through hash_keys, a million at once, against hashing them one by one from Python.

Ratios are to be read within one run. Two ways to go one by one: plain Python (the slow reference of the
tests), and the fastest found, this library's own compiled XXH64 called once for every key. The target is 20
times the speed of one by one; a list misses it against the compiled way, since making an Arrow array of a
list alone takes about a tenth of such a call per key.
"""

from __future__ import annotations

import runpy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import evenflow as ef
from evenflow.hashing import SEED
from evenflow.kernels import kernel
from evenflow.xxhash import hash_bytes

KEYS = 1_000_000
ONE_BY_ONE = 100_000  # of the same keys; the speed does not depend on how many
PLAIN_PYTHON = 10_000
TRIES = 5


@kernel
def hash_one(key: bytes, seed: np.uint64) -> np.uint64:
    """Hash one key; numba takes Python's bytes as they are, twice as fast as with an array around them."""
    return hash_bytes(key, 0, len(key), seed)  # type: ignore[arg-type]


def run(keys: int = KEYS) -> list[dict[str, Any]]:
    """Measure; ``ratio`` is to the fastest way one by one, ``ratio_to_plain_python`` to the other."""
    words = [f"word {number}" for number in range(keys)]
    array = pa.array(words)
    xxh64 = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "reference" / "xxhash.py"))["xxh64"]
    few, fewer = words[:ONE_BY_ONE], words[:PLAIN_PYTHON]

    def compiled() -> list[Any]:
        return [hash_one(word.encode(), SEED) for word in few]

    def plain() -> list[Any]:
        return [xxh64(word.encode(), 42) for word in fewer]

    hashes = ef.hash_keys(array).tolist()
    if not (hashes == ef.hash_keys(words).tolist() and hashes[: len(few)] == compiled()):
        raise AssertionError("the ways to hash disagree; their speeds mean nothing")
    speeds = {
        "hash_keys of an Arrow array": _speed(lambda: ef.hash_keys(array), keys),
        "hash_keys of a list": _speed(lambda: ef.hash_keys(words), keys),
        "one by one, compiled": _speed(compiled, len(few)),
        "one by one, plain Python": _speed(plain, len(fewer)),
    }
    return [
        {
            "what": what,
            "keys_per_second": speed,
            "ratio": speed / speeds["one by one, compiled"],
            "ratio_to_plain_python": speed / speeds["one by one, plain Python"],
        }
        for what, speed in speeds.items()
    ]


def _speed(work: Callable[[], object], count: int) -> float:
    """Return items per second, of the best of some tries: other programs only ever slow it down."""
    seconds = []
    for _ in range(TRIES):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return count / min(seconds)


if __name__ == "__main__":
    for row in run():
        print(
            f"{row['what']:28} {row['keys_per_second'] / 1e6:9.2f} M/s  {row['ratio']:7.2f} x one by one"
            f"  {row['ratio_to_plain_python']:9.1f} x plain Python"
        )
