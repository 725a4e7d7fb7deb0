"""What would each scheme do to n workers? Every scheme there is routes the same messages, from one source.

One source sees all rows, as a plan made from the whole data does; the schemes' clocks run on their own, so
a stream of years and one of seconds are judged alike. A scheme with one owner per key is also asked what
moves when one more worker joins half way.

Key grouping hashes with evenflow's own family, not with Spark's: many keys fall alike, of few keys the one
hash may deal luckier than the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.kernels import Int64Array
from evenflow.schemes import Scheme, list_schemes, scheme
from evenflow.schemes.spelling import spell
from evenflow.simulator import Rescale, simulate
from evenflow.streams.sample import Sample

Watch = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Outcome:
    """What one scheme did. Shares are of all messages; None where nothing can move."""

    scheme: Scheme
    one_owner: bool
    loads: Int64Array
    max_over_mean: float
    speed_up: float  # largest load of key grouping / largest load of this scheme
    imbalance: float
    imbalance_mean: float
    replicas: int
    memory: float
    keys_moved: int | None
    state_moved: float | None
    joining_moves: float | None  # state that moves when a worker joins
    joining_ideal: float | None  # the newcomer's fair part of it

    @property
    def spelling(self) -> str:
        """The scheme as it is written on a command line."""
        return spell(self.scheme)

    def row(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        return {
            "scheme": self.scheme.name,
            "spelling": self.spelling,
            "one_owner": self.one_owner,
            "max_load": int(self.loads.max()),
            "max_over_mean": self.max_over_mean,
            "speed_up": self.speed_up,
            "imbalance": self.imbalance,
            "imbalance_mean": self.imbalance_mean,
            "replicas": self.replicas,
            "memory": self.memory,
            "keys_moved": self.keys_moved,
            "state_moved": self.state_moved,
            "joining_moves": self.joining_moves,
            "joining_ideal": self.joining_ideal,
        }


def contenders(keys: int, messages: int) -> list[Scheme]:
    """Return every known scheme with its defaults, in the variants that suit such a stream."""
    return [found for name in list_schemes() for found in scheme(name).contenders(keys, messages)]


def compare(
    sample: Sample, workers: int, found: Iterable[Scheme], seed: int = 0, watch: Watch | None = None
) -> list[Outcome]:
    """Send ``sample`` through every scheme, several at a time, and return what they did, in order.

    Kernels run without the interpreter's lock, so threads are enough.
    """
    clockless = Sample(sample.stream, sample.ids, None, sample.total, sample.how)
    found = list(found)
    results: dict[int, Outcome] = {}
    base = int(simulate("key", clockless, workers, 1, seed).loads.max())
    with _threads() as pool:
        indices = {
            pool.submit(_outcome, scheme, clockless, workers, seed, base): index
            for index, scheme in enumerate(found)
        }
        for done, future in enumerate(as_completed(indices), 1):
            results[indices[future]] = future.result()
            if watch is not None:
                watch(done, len(found), found[indices[future]].name)
    return [results[index] for index in range(len(found))]


def shuffled(sample: Sample, seed: int = 0) -> Sample:
    """Return the same messages in random order."""
    order = np.random.default_rng(seed).permutation(sample.messages)
    return Sample(sample.stream, sample.ids[order], None, sample.total, sample.how)


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(cores())
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _outcome(scheme: Scheme, sample: Sample, workers: int, seed: int, base: int) -> Outcome:
    result = simulate(scheme, sample, workers, 1, seed)
    row = result.row()
    owned = scheme.one_owner
    moves, ideal = _joining(scheme, sample, workers, seed) if owned else (None, None)
    return Outcome(
        scheme=scheme,
        one_owner=owned,
        loads=result.loads,
        max_over_mean=row["max_over_mean"],
        speed_up=base / int(result.loads.max()),
        imbalance=row["imbalance"],
        imbalance_mean=row["imbalance_mean"],
        replicas=row["replicas"],
        memory=row["memory"],
        keys_moved=row.get("keys_moved", 0 if owned else None),
        state_moved=row.get("state_moved", 0) / sample.messages if owned else None,
        joining_moves=moves,
        joining_ideal=ideal,
    )


def _joining(scheme: Scheme, sample: Sample, workers: int, seed: int) -> tuple[float | None, float | None]:
    """Return the shares of the state that move when a worker joins half way, and that have to."""
    half = sample.messages // 2
    if half < 1:
        return None, None
    if scheme.rescales:
        table = simulate(scheme, sample, workers, 1, seed, events=[Rescale(half, workers + 1)]).rescales
        return float(table["state_moved"][0] / half), float(table["state_ideal"][0] / half)
    hashes = sample.hashes[sample.ids[:half]]
    before, after = (scheme.router(number, seed).route(hashes) for number in (workers, workers + 1))
    return float(np.mean(before != after)), 1 / (workers + 1)
