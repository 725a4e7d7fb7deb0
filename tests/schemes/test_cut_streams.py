"""One law for all schemes: a stream cut into micro-batches ends where the uncut stream ends.

Every batch has new routers, one per partition, which learn what those of the batch before knew. Stated
bounds, for a stream of 10,000 messages per worker:

* one batch is the uncut stream, message by message;
* the fullest worker of all messages together exceeds the mean by at most 0.03 more (10 batches), or 0.1 more
  (100 batches, of which a router of four has 25 messages per worker);
* memory, the key-worker pairs per key, is at most 1.15 times that of the uncut stream;
* FISH and DKG end with the same hot keys: under FISH save those within a factor of 1.5 of the threshold,
  under DKG the five most frequent ones are old. Each is as wide as at the uncut sources, or one worker wider
  or narrower;
* the clock is the same, and so is the size in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import evenflow as ef
from evenflow.kernels import Int32Array, Int64Array, UInt64Array
from evenflow.schemes.dynamic_key import DynamicKeyRouter
from evenflow.schemes.fish import FishRouter
from evenflow.schemes.handover import hand_over
from evenflow.sketches.generations import OLD

WORKERS = 10
MESSAGES = 100_000
KEYS = 2_000
HOTTEST = 0.4
SLACK = {1: 0.0, 10: 0.03, 100: 0.1}
SCHEMES = [
    *(ef.scheme(name) for name in ef.list_schemes() if name not in ("dynamic-key", "explicit")),
    ef.scheme("fill", split=False),
    ef.scheme("consistent", allocation="bounded-load", virtual_workers=3, epsilon=0.2),
    ef.scheme("dynamic-key", teenage_cycle=0.5, old_cycle=1, warm_up=1, check_every=1),
    ef.scheme("explicit", domain=KEYS, replicas=100),
]


@cache
def keys() -> UInt64Array:
    """One key with four tenths of the messages, the others Zipf 1.1."""
    rng = np.random.default_rng(1)
    weights = np.arange(1, KEYS + 1) ** -1.1
    ids = rng.choice(KEYS, MESSAGES, p=weights / weights.sum())
    ids[rng.random(MESSAGES) < HOTTEST] = KEYS
    return rng.integers(0, 2**64, KEYS + 1, dtype=np.uint64)[ids]


@dataclass
class Ended:
    """Where a stream ended."""

    workers: Int32Array  # of each message
    routers: list[ef.Router]  # of the last batch
    known: ef.Router

    @property
    def loads(self) -> Int64Array:
        return np.bincount(self.workers, minlength=WORKERS)

    @property
    def imbalance(self) -> float:
        return float(self.loads.max() / self.loads.mean() - 1)

    @property
    def memory(self) -> float:
        pairs = np.unique(keys() * np.uint64(31) + self.workers.astype(np.uint64)).size
        return pairs / np.unique(keys()).size


def run(scheme: ef.Scheme, batches: int, partitions: int) -> Ended:
    """Route the stream in so many batches."""
    workers = np.empty(MESSAGES, np.int32)
    known: ef.Router | None = None
    for batch in np.array_split(np.arange(MESSAGES), batches):
        routers = []
        for source in range(partitions):
            router = scheme.router(WORKERS, source=source, sources=partitions)
            if known is not None:
                router.learn([known], 1 / partitions)
            mine = batch[source::partitions]
            workers[mine] = router.route(keys()[mine])
            routers.append(router)
        known = hand_over(scheme, WORKERS, routers, known)
    assert known is not None
    return Ended(workers, routers, known)


def uncut(scheme: ef.Scheme, partitions: int) -> Ended:
    """Route the stream with the same routers from beginning to end."""
    workers = np.empty(MESSAGES, np.int32)
    routers = [scheme.router(WORKERS, source=source, sources=partitions) for source in range(partitions)]
    for source, router in enumerate(routers):
        workers[source::partitions] = router.route(keys()[source::partitions])
    return Ended(workers, routers, hand_over(scheme, WORKERS, routers))


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_cut_stream_ends_near_the_uncut_one(scheme: ef.Scheme, partitions: int) -> None:
    whole = uncut(scheme, partitions)
    for batches, slack in SLACK.items():
        cut = run(scheme, batches, partitions)
        if batches == 1:
            assert np.array_equal(cut.workers, whole.workers)
        assert cut.imbalance <= whole.imbalance + slack
        assert cut.memory <= 1.15 * whole.memory
        assert cut.known.nbytes == whole.known.nbytes
        assert cut.known.clock == pytest.approx(whole.known.clock)
        assert cut.known.loads.sum() == 0
        for key in surely_hot(whole.known) | surely_hot(cut.known):
            widths = [width(router, key) for router in whole.routers]
            assert min(widths) - 1 <= width(cut.known, key) <= max(widths) + 1
        assert surely_hot(cut.known) <= hot_keys(whole.known)
        assert surely_hot(whole.known) <= hot_keys(cut.known)


def by_frequency() -> list[int]:
    found, counts = np.unique(keys(), return_counts=True)
    most: list[int] = found[np.argsort(-counts)].tolist()
    return most


def width(router: ef.Router, key: int) -> int:
    assert isinstance(router, FishRouter | DynamicKeyRouter)
    return router.widths.get(key, 2)


def hot_keys(router: ef.Router, factor: float = 1.0) -> set[int]:
    """Return the keys above the threshold of FISH times ``factor``, or those that are old under DKG."""
    if isinstance(router, FishRouter):
        found, counts = router.head
        total = max(router.state.sketch.sums[0], router.scheme.epoch)
        return set(found[counts > factor * router.theta * total].tolist())
    if isinstance(router, DynamicKeyRouter):
        space = router.state.space
        return set(space.keys[space.old[: space.sizes[OLD]]].tolist())
    return set()


def surely_hot(router: ef.Router) -> set[int]:
    hot = hot_keys(router, 1.5)
    return hot & set(by_frequency()[:5]) if isinstance(router, DynamicKeyRouter) else hot


def test_fish_and_dkg_find_hot_keys() -> None:
    """What the law compares is not empty, and a router that learns nothing breaks it."""
    for name in ("fish", "dynamic-key"):
        scheme = next(scheme for scheme in SCHEMES if scheme.name == name)
        known = run(scheme, 10, 4).known
        assert len(surely_hot(known)) >= 1
        assert by_frequency()[0] in surely_hot(known)
        assert width(known, by_frequency()[0]) > 2
        assert width(scheme.router(WORKERS), by_frequency()[0]) == 2


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_the_order_of_the_partitions_does_not_matter(scheme: ef.Scheme) -> None:
    routers = []
    for source in range(3):
        router = scheme.router(WORKERS, source=source, sources=3)
        router.route(keys()[source : 6000 + 500 * source : 3])
        routers.append(router)
    first = hand_over(scheme, WORKERS, routers).to_bytes()
    assert hand_over(scheme, WORKERS, [routers[2], routers[0], routers[1]]).to_bytes() == first
