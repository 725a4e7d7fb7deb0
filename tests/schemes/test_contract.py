"""The laws of evenflow.schemes.base, for every registered scheme; a new scheme is tested by being registered.

Each scheme is tried with the variants of its parameters in ``VARIANTS`` (at least its defaults).
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.kernels import UInt64Array
from reference import REFERENCES
from schemes.variants import CASES, IDS, Case


def stream(seed: int, messages: int, keys: int, skew: float) -> UInt64Array:
    """A skewed stream whose hot keys change half way."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, keys + 1, dtype=float) ** -skew
    ids = rng.choice(keys, messages, p=weights / weights.sum())
    ids[messages // 2 :] = keys - 1 - ids[messages // 2 :]
    return rng.integers(0, 2**64, keys, dtype=np.uint64)[ids]


STREAMS = st.builds(
    stream,
    seed=st.integers(0, 2**32),
    messages=st.integers(0, 1500),
    keys=st.integers(1, 400),
    skew=st.sampled_from([0.0, 0.6, 1.0, 1.4, 2.0, 4.0]),
)
WORKERS = st.sampled_from([1, 2, 3, 5, 10, 50])


@pytest.mark.parametrize("case", CASES, ids=IDS)
@given(
    keys=STREAMS, workers=WORKERS, seed=st.integers(0, 99), place=st.sampled_from([(0, 1), (0, 3), (2, 3)])
)
@example(keys=stream(2**32, 425, 173, 2.0), workers=3, seed=0, place=(0, 1))  # both sides of Prop. 4.1 equal
def test_decides_like_the_reference(
    case: Case, keys: UInt64Array, workers: int, seed: int, place: tuple[int, int]
) -> None:
    source, sources = place
    scheme = case.scheme(workers)
    router = scheme.router(workers, seed, source=source, sources=sources)
    reference = REFERENCES[scheme.name](scheme, workers, seed, source, sources)
    times = case.times(keys.size)
    expected = [reference.route_one(int(key), float(t)) for key, t in zip(keys, times, strict=True)]
    assert router.route(keys, times).tolist() == expected
    assert router.loads.tolist() == reference.loads


@pytest.mark.parametrize("case", CASES, ids=IDS)
@given(keys=STREAMS, workers=WORKERS, cuts=st.lists(st.integers(0, 1500), max_size=4))
def test_goes_on_from_its_bytes_and_in_pieces(
    case: Case, keys: UInt64Array, workers: int, cuts: list[int]
) -> None:
    scheme = case.scheme(workers)
    times = case.times(keys.size)
    whole = scheme.router(workers, seed=3).route(keys, times)
    router: ef.Router = scheme.router(workers, seed=3)
    pieces = []
    for piece, clock in zip(
        np.split(keys, sorted(min(cut, keys.size) for cut in cuts)),
        np.split(times, sorted(min(cut, keys.size) for cut in cuts)),
        strict=True,
    ):
        router = ef.Router.from_bytes(router.to_bytes())
        pieces.append(router.route(piece, clock))
    assert np.concatenate(pieces).tolist() == whole.tolist()


@pytest.mark.parametrize("case", CASES, ids=IDS)
@given(keys=STREAMS, workers=WORKERS)
def test_conserves_and_stays_in_range(case: Case, keys: UInt64Array, workers: int) -> None:
    router = case.scheme(workers).router(workers, seed=1)
    destinations = router.route(keys)
    assert destinations.dtype == np.int32
    assert destinations.size == keys.size
    if keys.size:
        assert destinations.min() >= 0
        assert destinations.max() < workers
    assert np.bincount(destinations, minlength=workers).tolist() == router.loads.tolist()


@pytest.mark.parametrize("name", [name for name, kind in ef.list_schemes().items() if kind.needs_time])
def test_a_long_call_has_one_logical_clock(name: str) -> None:
    keys = stream(1, 200_000, 300, 1.2)
    times = np.arange(keys.size) * (3 / 1e4)  # three sources share the default rate
    given, own = (ef.scheme(name).router(9, source=1, sources=3) for _ in range(2))
    assert own.route(keys).tolist() == given.route(keys, times).tolist()
    assert own.routed == given.routed == keys.size


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_holds_no_more_for_more_keys(case: Case) -> None:
    sizes = []
    for keys in (10**3, 10**5):
        router = case.scheme(20).router(20, seed=1)
        rng = np.random.default_rng(5)
        router.route(rng.integers(0, 2**64, keys, dtype=np.uint64)[rng.integers(0, keys, 2 * 10**5)])
        sizes.append(router.nbytes)
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_rescales_or_says_that_it_cannot(case: Case) -> None:
    scheme = case.scheme(8)
    router = scheme.router(8, seed=1)
    keys = stream(1, 5000, 300, 1.0)
    router.route(keys)
    if not scheme.rescales:
        with pytest.raises(ef.EvenflowError, match="cannot change its number of workers"):
            router.rescale(9)
        return
    for workers in (9, 12, 3, 1, 8):
        router.rescale(workers)
        router = ef.Router.from_bytes(router.to_bytes())
        destinations = router.route(keys)
        assert router.loads.size == workers
        assert 0 <= destinations.min() <= destinations.max() < workers


def test_every_scheme_has_a_reference_and_a_case() -> None:
    assert set(REFERENCES) == set(ef.list_schemes())
    assert {case.name for case in CASES} == set(ef.list_schemes())


def test_two_processes_agree() -> None:
    program = (
        "import evenflow as ef, numpy as np\n"
        "keys = np.random.default_rng(1).zipf(1.3, 3000).astype(np.uint64)\n"
        "for name in ef.list_schemes():\n"
        "    print(name, ef.scheme(name).router(7, seed=5).route(keys).tolist())\n"
    )
    runs = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ef.scheme("key").router(0), "workers is 0; a router needs at least one worker"),
        (lambda: ef.scheme("key").router(-3), "workers is -3"),
        (lambda: ef.scheme("key").router(True), "workers is True"),
        (lambda: ef.scheme("key").router(2.5), "workers is 2.5"),  # type: ignore[arg-type]
        (lambda: ef.scheme("key").router(3, seed="x"), "seed is 'x'; pass an integer"),  # type: ignore[arg-type]
        (lambda: ef.scheme("key").router(3, source=3, sources=3), "source is 3 of 3"),
        (lambda: ef.scheme("d-choice"), "there is no scheme 'd-choice'; did you mean 'd-choices'"),
        (lambda: ef.scheme("partial-key", distnct=True), "no parameter 'distnct'; did you mean 'distinct'"),
        (lambda: ef.scheme("fish", decay="x"), "fish: decay is 'x'; it must be a number, such as 0.2"),
        (lambda: ef.scheme("partial-key", distinct="yes"), "distinct is 'yes'; it must be True or False"),
        (lambda: ef.scheme("explicit", algorithm=3), "algorithm is 3"),
        (lambda: ef.scheme("key", seed=1), "key has no parameter 'seed'; it takes none"),
        (lambda: ef.scheme("key").router(3).route(np.zeros((2, 2), np.uint64)), "keys have 2 dimensions"),
        (lambda: ef.scheme("key").router(3).route([object()]), "object"),
        (lambda: ef.Router.from_bytes(b"nothing"), "are not a saved router"),
        (lambda: ef.Router.from_bytes("text"), "must be bytes, not str"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_gets_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        call()


def test_a_damaged_blob_is_refused() -> None:
    blob = bytearray(ef.scheme("key").router(3).to_bytes())
    for place in range(0, len(blob), 7):
        damaged = bytearray(blob)
        damaged[place] ^= 1
        with pytest.raises(ef.EvenflowError, match=r"damaged|not a saved|format"):
            ef.Router.from_bytes(bytes(damaged))
    with pytest.raises(ef.EvenflowError):
        ef.Router.from_bytes(bytes(blob[:-1]))
