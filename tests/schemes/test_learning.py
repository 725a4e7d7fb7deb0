"""What routers learned passes to routers that begin: who is hot and where keys live, not what was sent."""

from __future__ import annotations

import numpy as np
import pytest

import evenflow as ef
from evenflow.kernels import UInt64Array
from evenflow.schemes.d_choices import DChoicesRouter
from evenflow.schemes.explicit import ExplicitRouter
from evenflow.schemes.fill import FillRouter
from evenflow.sketches.space_saving import SpaceSaving
from schemes.variants import CASES, IDS, Case

SOURCES = 3
HASHES = np.random.default_rng(0).integers(0, 2**64, 500, dtype=np.uint64)


def zipf(messages: int, seed: int) -> UInt64Array:
    """Zipf 1.4 over 500 keys, the same keys whatever the seed."""
    weights = np.arange(1, 501) ** -1.4
    ids = np.random.default_rng(seed).choice(500, messages, p=weights / weights.sum())
    return HASHES[ids]


def one_round(scheme: ef.Scheme, workers: int, past: ef.Router | None, seed: int) -> list[ef.Router]:
    """Route a part of a stream at each source, starting from what is known of the past."""
    routers = [scheme.router(workers, source=source, sources=SOURCES) for source in range(SOURCES)]
    for source, router in enumerate(routers):
        if past is not None:
            router.learn([past], 1 / SOURCES)
        assert router.loads.sum() == 0
        router.route(zipf(600, SOURCES * seed + source))
    return routers


def joined(routers: list[ef.Router]) -> ef.Router:
    """Return one router that knows half as much as all of these together."""
    result = routers[0].scheme.router(routers[0].workers)
    result.learn(routers, 0.5)
    return result


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_scheme_goes_on_from_round_to_round(case: Case) -> None:
    """Twenty rounds: the laws hold, a saved router learns the same, and nothing it holds grows."""
    scheme, workers = case.scheme(7), 7
    past, size = None, 0
    for seed in range(20):
        routers = one_round(scheme, workers, past, seed)
        assert all(router.loads.sum() == 600 for router in routers)
        past = joined(routers)
        assert past.loads.sum() == 0
        again = joined([ef.Router.from_bytes(router.to_bytes()) for router in routers])
        assert again.to_bytes() == past.to_bytes()
        size = size or past.nbytes
    assert past is not None
    assert past.nbytes <= size


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_router_that_learned_goes_on_from_its_bytes(case: Case) -> None:
    router: ef.Router = case.scheme(7).router(7)
    router.learn([joined(one_round(case.scheme(7), 7, None, 0))])
    router.route(zipf(200, 5))
    again = ef.Router.from_bytes(router.to_bytes())
    assert again.loads.tolist() == router.loads.tolist()
    assert again.clock == router.clock
    assert again.route(zipf(300, 6)).tolist() == router.route(zipf(300, 6)).tolist()


def test_head_is_known_at_the_first_message() -> None:
    scheme = ef.scheme("d-choices", theta=0.02)
    past = joined(one_round(scheme, 10, None, 0))
    router = scheme.router(10)
    router.learn([past])
    assert isinstance(router, DChoicesRouter)
    hottest = int(HASHES[0])
    assert int(router.head[0][0]) == hottest
    router.route(np.full(100, hottest, np.uint64))
    assert router.choices > 2
    assert router.loads.max() < 100 / 2  # a router that begins anew has two choices for it


def test_counts_of_the_past_do_not_pile_up() -> None:
    """Each of several sources takes its part of the past: two rounds' worth at most are ever remembered."""
    scheme = ef.scheme("w-choices")
    past = None
    for seed in range(30):
        past = joined(one_round(scheme, 5, past, seed))
    assert past is not None
    assert 600 * SOURCES * 0.5 <= past.state.sketch.total[0] <= 600 * SOURCES + 30


def test_fill_keeps_homes() -> None:
    scheme = ef.scheme("fill")
    routers = one_round(scheme, 6, None, 0)
    past = joined(routers)
    assert isinstance(past, FillRouter)
    homes = past.homes()
    assert homes
    for router in routers:
        assert isinstance(router, FillRouter)
        assert all(set(own) <= set(homes[key]) for key, own in router.homes().items())
    later = scheme.router(6)
    later.learn([past])
    assert isinstance(later, FillRouter)
    assert later.homes() == homes


def test_sources_of_explicit_share_one_map() -> None:
    scheme = ef.scheme("explicit", domain=500)
    past = joined(one_round(scheme, 5, None, 0))
    routers = one_round(scheme, 5, past, 1)
    assert isinstance(past, ExplicitRouter)
    assert past.mapping
    assert all(isinstance(router, ExplicitRouter) and router.mapping == past.mapping for router in routers)


def test_learning_has_its_time_and_its_kind() -> None:
    router = ef.scheme("fill").router(4)
    with pytest.raises(ef.EvenflowError, match="differ in scheme or number of workers"):
        router.learn([ef.scheme("fill").router(5)])
    with pytest.raises(ef.EvenflowError, match="differ in scheme"):
        router.learn([ef.scheme("w-choices").router(4)])
    router.route(zipf(10, 0))
    with pytest.raises(ef.EvenflowError, match="before the first"):
        router.learn([ef.scheme("fill").router(4)])


def test_a_scaled_sketch_keeps_its_bounds() -> None:
    sketch = SpaceSaving(40)
    sketch.update(zipf(2000, 3))
    hashes, times = np.unique(zipf(2000, 3), return_counts=True)
    true = dict(zip(hashes.tolist(), times.tolist(), strict=True))
    small = sketch.scaled(0.3)
    for key, count, error in zip(*(column.tolist() for column in small.top()), strict=True):
        assert count - error <= 0.3 * true[key] <= count
    assert small.floor >= 0.3 * max(true[key] for key in true.keys() - set(small.top()[0].tolist()))
    assert [column.tolist() for column in sketch.scaled(1.0).top()] == [c.tolist() for c in sketch.top()]
