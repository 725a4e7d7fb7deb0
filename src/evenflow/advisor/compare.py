"""Compare the schemes on n workers: each places the same messages.

A scheme that Spark runs by a plan places them by the plan that Spark would make; the others route from one
source, which sees all rows. Event times are ignored, so streams that span years or seconds are judged alike.
For schemes with one owner per key, the state that moves when one worker is added halfway through is measured
too.

Key grouping uses evenflow's hash family, not Spark's. With many keys both behave alike; with few keys either
may happen to be better balanced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from evenflow.advisor.planned import FollowPlan, makespan, plan_for
from evenflow.kernels import Int64Array
from evenflow.schemes import Scheme, list_schemes, scheme
from evenflow.schemes.spelling import spell
from evenflow.simulator import Rescale, simulate
from evenflow.streams.sample import Sample

Watch = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Outcome:
    """The result of routing a sample with one scheme.

    Attributes
    ----------
    scheme
        The scheme.
    mode
        How Spark runs it: ``planned`` (keys are counted first) or ``online`` (decided row by row).
    one_owner
        Whether all rows of a key go to the same worker.
    loads
        Messages per worker.
    max_over_mean
        Maximum load divided by the mean.
    expected
        The same without chance: for a plan, which draws a home for each row of a split key, what it is with
        very many rows. Schemes are ranked by this.
    makespan
        Rows until the last core is done, if each core takes the next worker's rows when it is free.
    speed_up
        Makespan under key grouping divided by the makespan under this scheme.
    imbalance, imbalance_mean
        (max - mean load) / messages, at the end and averaged over the stream.
    replicas, memory
        Distinct (key, worker) pairs, and the same per key.
    keys_moved, state_moved
        Keys that changed owner, and their state as a share of all messages; None if keys are split.
    joining_moves, joining_ideal
        Share of the state that moves when a worker is added, and the least that has to; None if keys are
        split.
    """

    scheme: Scheme
    mode: str
    one_owner: bool
    loads: Int64Array
    max_over_mean: float
    expected: float
    makespan: int
    speed_up: float
    imbalance: float
    imbalance_mean: float
    replicas: int
    memory: float
    keys_moved: int | None
    state_moved: float | None
    joining_moves: float | None
    joining_ideal: float | None

    @property
    def spelling(self) -> str:
        """The scheme as written on the command line."""
        return spell(self.scheme)

    def row(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        first = {"scheme": self.scheme.name, "spelling": self.spelling, "one_owner": self.one_owner}
        rest = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in first}
        return {**first, "max_load": int(rest.pop("loads").max()), **rest}


def contenders(keys: int, messages: int) -> list[Scheme]:
    """Return the schemes to compare: all registered ones, in the variants that suit the stream.

    Parameters
    ----------
    keys
        Number of distinct keys.
    messages
        Number of messages.

    Returns
    -------
    list of Scheme
        One or more per registered scheme.

    Examples
    --------
    >>> "fill" in [candidate.name for candidate in contenders(keys=1000, messages=10**5)]
    True
    """
    return [variant for name in list_schemes() for variant in scheme(name).contenders(keys, messages)]


def compare(
    sample: Sample,
    workers: int,
    schemes: Iterable[Scheme],
    seed: int = 0,
    watch: Watch | None = None,
    cores: int | None = None,
) -> list[Outcome]:
    """Place a sample with every scheme, several at a time.

    Kernels release the GIL, so threads are enough.

    Parameters
    ----------
    sample
        The messages; their times are ignored.
    workers
        Number of workers.
    schemes
        The schemes to compare.
    seed
        Seed of the hash functions.
    watch
        Called with ``(done, total, name)`` as schemes finish.
    cores
        Number of cores that process the workers' rows. Default: one per worker.

    Returns
    -------
    list of Outcome
        In the order of ``schemes``.

    Examples
    --------
    >>> from evenflow.streams import open_stream
    >>> from evenflow.streams.sample import take_sample
    >>> sample = take_sample(open_stream("zipf:z=1.4,keys=1000,messages=1e4"), None)
    >>> key, fill = compare(sample, workers=8, schemes=[scheme("key"), scheme("fill")])
    >>> fill.max_over_mean < key.max_over_mean
    True
    """
    clockless = Sample(sample.stream, sample.ids, None, sample.total, sample.how)
    schemes = list(schemes)
    results: dict[int, Outcome] = {}
    cores = workers if cores is None else cores
    base = makespan(simulate("key", clockless, workers, 1, seed).loads, cores)
    with _threads() as pool:
        indices = {
            pool.submit(_outcome, scheme, clockless, workers, seed, cores, base): index
            for index, scheme in enumerate(schemes)
        }
        for done, future in enumerate(as_completed(indices), 1):
            results[indices[future]] = future.result()
            if watch is not None:
                watch(done, len(schemes), schemes[indices[future]].name)
    return [results[index] for index in range(len(schemes))]


def shuffled(sample: Sample, seed: int = 0) -> Sample:
    """Return the same messages in random order."""
    order = np.random.default_rng(seed).permutation(sample.messages)
    return Sample(sample.stream, sample.ids[order], None, sample.total, sample.how)


def own_cores() -> int:
    """Return the number of CPUs available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(own_cores())
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _outcome(scheme: Scheme, sample: Sample, workers: int, seed: int, cores: int, base: int) -> Outcome:
    plan = plan_for(scheme, sample, workers, seed) if scheme.plannable and scheme.counts_keys else None
    result = simulate(scheme if plan is None else FollowPlan(plan), sample, workers, 1, seed)
    row = result.row()
    owned = scheme.one_owner
    moves, ideal = _joining(scheme, sample, workers, seed) if owned else (None, None)
    needed = makespan(result.loads, cores)
    return Outcome(
        scheme=scheme,
        mode="planned" if scheme.plannable else "online",
        one_owner=owned,
        loads=result.loads,
        expected=row["max_over_mean"] if plan is None else plan.max_over_mean,
        makespan=needed,
        speed_up=base / needed,
        **{
            name: row[name] for name in ("max_over_mean", "imbalance", "imbalance_mean", "replicas", "memory")
        },
        keys_moved=row.get("keys_moved", 0 if owned else None),
        state_moved=row.get("state_moved", 0) / sample.messages if owned else None,
        joining_moves=moves,
        joining_ideal=ideal,
    )


def _joining(scheme: Scheme, sample: Sample, workers: int, seed: int) -> tuple[float | None, float | None]:
    """Return the shares of the state that move, and must move, when a worker is added halfway through."""
    half = sample.messages // 2
    if half < 1:
        return None, None
    if scheme.rescales:
        table = simulate(scheme, sample, workers, 1, seed, events=[Rescale(half, workers + 1)]).rescales
        return float(table["state_moved"][0] / half), float(table["state_ideal"][0] / half)
    hashes = sample.hashes[sample.ids[:half]]
    before, after = (scheme.router(number, seed).route(hashes) for number in (workers, workers + 1))
    return float(np.mean(before != after)), 1 / (workers + 1)
