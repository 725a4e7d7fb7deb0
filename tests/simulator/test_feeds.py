"""Which source gets a message."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.kernels import Int32Array
from evenflow.simulator.source_assignment import Dealer, Feed

IDS = np.random.default_rng(1).integers(0, 300, 5000).astype(np.int32)
HASHES = np.random.default_rng(2).integers(0, 2**64, 300, dtype=np.uint64)


def sources_of(feed: str, sources: int, seed: int, cuts: list[int]) -> Int32Array:
    dealer = Dealer(Feed.parse(feed), sources, seed, IDS.size)
    result = np.full(IDS.size, -1, np.int32)
    edges = [0, *sorted(cuts), IDS.size]
    times = np.arange(0, IDS.size / 2, 0.5, dtype=np.float64)
    for start, stop in pairwise(edges):
        for source, part in enumerate(dealer.deal(start, IDS[start:stop], times[start:stop], HASHES)):
            places = np.arange(start, stop)[part.positions]
            assert (np.diff(places) > 0).all()
            assert part.keys.tolist() == HASHES[IDS[places]].tolist()
            assert part.ids.tolist() == IDS[places].tolist()
            assert part.times is not None
            assert part.times.tolist() == times[places].tolist()
            assert (result[places] == -1).all()
            result[places] = source
    assert (result >= 0).all()
    return result


@pytest.mark.parametrize("feed", ["shuffle", "key", "skewed:2"])
@given(sources=st.sampled_from([1, 2, 7]), cuts=st.lists(st.integers(0, 5000), max_size=5))
def test_cuts_do_not_matter_and_every_message_has_one_source(
    feed: str, sources: int, cuts: list[int]
) -> None:
    assert sources_of(feed, sources, 3, cuts).tolist() == sources_of(feed, sources, 3, []).tolist()


def test_shuffle_takes_turns() -> None:
    assert sources_of("shuffle", 7, 3, []).tolist() == [i % 7 for i in range(IDS.size)]


def test_by_key_a_key_has_one_source_and_sources_are_used_evenly() -> None:
    sources = sources_of("key", 4, 3, [])
    assert all(np.unique(sources[key == IDS]).size == 1 for key in range(300))
    assert np.bincount(sources, minlength=4).min() > 800
    assert sources_of("key", 4, 4, []).tolist() != sources.tolist()


def test_a_skewed_split_has_zipf_shares() -> None:
    counts = np.bincount(sources_of("skewed:1.0", 4, 3, []), minlength=4)
    expected = IDS.size * (1 / np.arange(1, 5)) / (1 / np.arange(1, 5)).sum()
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    assert np.bincount(sources_of("skewed:0", 4, 3, []), minlength=4).min() > 1000


def test_spelling() -> None:
    assert str(Feed.parse("skewed")) == "skewed:1"
    assert str(Feed.parse("skewed:1.5")) == "skewed:1.5"
    assert Feed.parse(Feed("key")) == Feed("key")
