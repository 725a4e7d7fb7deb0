"""The ring: the same owner as a sorted list gives, few keys move, shares follow weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.kernels import Int32Array, UInt64Array, kernel
from evenflow.keys import salt_of
from evenflow.ring import Ring, build_ring, ring_next, ring_owners, ring_position
from reference.heterogeneous import PlainRing

KEYS = np.random.default_rng(7).integers(0, 2**64, 20000, np.uint64)
IDS = st.lists(st.integers(0, 300), min_size=1, max_size=12, unique=True)


@kernel
def _walk(ring: Ring, hashed: np.uint64, out: Int32Array) -> None:
    place = ring_position(ring, hashed)
    for i in range(out.size):
        out[i] = ring.owners[place]
        place = ring_next(ring, place)


@given(
    ids=IDS,
    seed=st.integers(0, 2**40),
    replicas=st.sampled_from([1, 2, 7, 100]),
    buckets=st.sampled_from([None, 1, 3, 100, 5000]),
    data=st.data(),
)
def test_owners_are_those_of_a_sorted_list(
    ids: list[int], seed: int, replicas: int, buckets: int | None, data: st.DataObject
) -> None:
    weights = data.draw(
        st.none() | st.lists(st.floats(0.01, 3), min_size=len(ids), max_size=len(ids)), label="weights"
    )
    salt = salt_of(seed)
    ring = build_ring(ids, salt, replicas, weights, buckets)
    plain = PlainRing(ids, int(salt), replicas, weights)
    on_points = ring.points[: 50 : max(1, ring.points.size // 10)]
    edges = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)
    keys = np.concatenate([KEYS[:100], edges, on_points, on_points + np.uint64(1), on_points - np.uint64(1)])
    assert ring_owners(ring, keys).tolist() == [plain.owners(int(key))[0] for key in keys]
    round_trip = np.empty(ring.points.size, np.int32)
    _walk(ring, KEYS[0], round_trip)
    assert round_trip.tolist() == plain.owners(int(KEYS[0]))


@given(ids=IDS, new=st.integers(301, 400), seed=st.integers(0, 99), weight=st.floats(0.1, 3))
def test_only_keys_that_go_to_the_newcomer_move(ids: list[int], new: int, seed: int, weight: float) -> None:
    salt = salt_of(seed)
    small = build_ring(ids, salt, replicas=50)
    large = build_ring([*ids, new], salt, 50, [*[1.0] * len(ids), weight])
    before, after = ring_owners(small, KEYS), ring_owners(large, KEYS)
    moved = before != after
    assert (after[moved] == new).all()
    assert (after == new).sum() == moved.sum() > 0


@pytest.mark.parametrize("workers", [1, 2, 10, 50])
def test_a_newcomer_takes_its_share(workers: int) -> None:
    salt = salt_of(3)
    before = ring_owners(build_ring(workers, salt), KEYS)
    after = ring_owners(build_ring(workers + 1, salt), KEYS)
    assert (before != after).mean() == pytest.approx(1 / (workers + 1), rel=0.15)


def test_shares_follow_weights() -> None:
    weights = np.array([1.0, 2.0, 0.5, 1.0, 4.0])
    shares = np.bincount(ring_owners(build_ring(5, salt_of(1), weights=weights), KEYS)) / KEYS.size
    assert shares == pytest.approx(weights / weights.sum(), rel=0.12)
    many = np.bincount(ring_owners(build_ring(100, salt_of(1)), np.repeat(KEYS, 1))) / KEYS.size
    assert many.max() < 1.35 / 100


def test_a_bucket_is_scanned_for_few_points() -> None:
    ring = build_ring(100, salt_of(1))
    per_bucket = np.diff(np.append(ring.first, ring.points.size))
    assert per_bucket.mean() <= 0.5
    assert per_bucket.max() < 12


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda salt: build_ring(0, salt), "pass at least one"),
        (lambda salt: build_ring([], salt), "pass at least one"),
        (lambda salt: build_ring([1, 1], salt), "distinct ids"),
        (lambda salt: build_ring([-1], salt), "from 0"),
        (lambda salt: build_ring(2, salt, replicas=0), "replicas is 0"),
        (lambda salt: build_ring(2, salt, weights=[1.0]), "one positive number per worker"),
        (lambda salt: build_ring(2, salt, weights=[1.0, -1.0]), "one positive number per worker"),
        (lambda salt: build_ring(2, salt, weights=[1.0, float("nan")]), "one positive number per worker"),
        (lambda salt: build_ring(2, salt, buckets=0), "buckets is 0"),
    ],
)
def test_bad_input_gets_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        call(salt_of(1))


def test_hashes_need_not_be_contiguous() -> None:
    ring = build_ring(5, salt_of(2), replicas=10)
    every_other: UInt64Array = KEYS[::2]
    assert ring_owners(ring, every_other).tolist() == ring_owners(ring, every_other.copy()).tolist()
