"""Generated streams: the laws they promise, whatever the chunk size, exactly again from the seed."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.streams import (
    GENERATORS,
    Burst,
    Countries,
    Drift,
    Election,
    Evolving,
    Generator,
    Uniform,
    Zipf,
    open_stream,
)
from evenflow.streams.countries import COUNTRIES
from evenflow.streams.sampling import alias_columns, zipf_weights

ANY: dict[str, Any] = dict(GENERATORS)  # for parameters that the types forbid
KINDS = [
    Zipf(z=1.4, keys=1000, messages=5003, seed=1),
    Zipf(z=0.0, keys=7, messages=5003, seed=2, rate=250.0),
    Zipf(z=2.0, keys=1, messages=5003, seed=2),
    Uniform(keys=300, messages=5003, seed=3),
    Evolving(z=1.2, keys=500, messages=5003, seed=4),
    Evolving(z=1.2, keys=500, messages=5003, phases=7, seed=4),
    Evolving(z=1.2, keys=500, messages=5003, phases="0.5+1+2.5", seed=4, rate=1e4),
    Countries(skew=80, messages=5003, seed=5),
    Countries(skew=80, then=0, messages=5003, seed=5),
    Election(messages=5003, seed=6),
    Burst(keys=100, messages=5003, seed=7, rate=10),
    Drift(keys=100, messages=5003, steps=9, seed=8),
]


def ids_of(stream: Generator, size: int = 1 << 20) -> Int32Array:
    return np.concatenate([chunk.ids for chunk in stream.chunks(size)])


def chi_square(observed: UInt64Array | Any, expected: Float64Array) -> float:
    """Standard score of the chi-square statistic, cells of fewer than 5 messages taken together."""
    order = np.argsort(-expected)
    observed, expected = np.asarray(observed, float)[order], expected[order]
    enough = int((expected >= 5).sum())
    cells = np.append(observed[:enough], observed[enough:].sum())
    means = np.append(expected[:enough], expected[enough:].sum())
    cells, means = (cells[:-1], means[:-1]) if means[-1] < 5 else (cells, means)
    free = cells.size - 1
    return float((((cells - means) ** 2 / means).sum() - free) / math.sqrt(2 * free))


def octaves(counts: Any) -> Any:
    """Counts of rank 1, ranks 2 and 3, 4 to 7, ...: few cells, which see a small error in the exponent."""
    return np.add.reduceat(counts, [2**i - 1 for i in range(counts.size.bit_length())])


@pytest.mark.parametrize("stream", KINDS, ids=lambda stream: stream.name)
@given(size=st.integers(1, 6000))
def test_a_stream_is_the_same_for_every_chunk_size(stream: Generator, size: int) -> None:
    whole = next(stream.chunks())
    chunks = list(stream.chunks(size))
    assert all(chunk.ids.size == size for chunk in chunks[:-1])
    assert np.array_equal(np.concatenate([chunk.ids for chunk in chunks]), whole.ids)
    if whole.times is None:
        assert all(chunk.times is None for chunk in chunks)
    else:
        assert np.array_equal(np.concatenate([chunk.times for chunk in chunks]), whole.times)


@pytest.mark.parametrize("stream", KINDS, ids=lambda stream: stream.name)
def test_a_stream_keeps_its_laws(stream: Generator) -> None:
    whole = next(stream.chunks())
    bound = stream.keys_upper_bound()
    assert whole.ids.dtype == np.int32
    assert whole.ids.size == stream.messages == 5003
    assert 0 <= whole.ids.min() <= whole.ids.max() < bound == stream.hashes.size
    assert np.unique(stream.hashes).size == bound
    assert np.array_equal(stream.generate(1234, 2345).ids, whole.ids[1234:2345])
    for again in (open_stream(stream.name), pickle.loads(pickle.dumps(stream))):
        assert again == stream
        assert again.name == stream.name
        assert np.array_equal(next(again.chunks()).ids, whole.ids)
    if whole.times is not None:
        assert stream.rate is not None
        assert np.allclose(whole.times, np.arange(5003) / stream.rate, rtol=1e-12)


@pytest.mark.parametrize("kind", GENERATORS.values(), ids=GENERATORS)
def test_seeds_give_other_streams(kind: Any) -> None:
    streams = [ids_of(kind(messages=4000, seed=seed)) for seed in (0, 1, -1, 2**63)]
    for i, one in enumerate(streams):
        for other in streams[:i]:
            assert not np.array_equal(one, other)


def test_another_process_draws_the_same_messages() -> None:
    program = (
        "from evenflow.streams import GENERATORS\n"
        "for kind in GENERATORS.values():\n"
        "    print(kind.keyword, next(kind(messages=3000, seed=9).chunks()).ids.tolist())\n"
    )
    here = "".join(
        f"{name} {next(kind(messages=3000, seed=9).chunks()).ids.tolist()}\n"
        for name, kind in GENERATORS.items()
    )
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert there == here


def test_the_first_messages_of_a_seed_stay_what_they_are() -> None:
    """Results that someone published with a seed must be had again with a later evenflow."""
    assert ids_of(Zipf(z=1.4, keys=1000, messages=8, seed=1)).tolist() == [6, 0, 0, 2, 25, 23, 449, 91]
    assert ids_of(Uniform(keys=10, messages=5, seed=1)).tolist() == [8, 1, 2, 6, 0]


@pytest.mark.parametrize("keys", [1, 2, 3, 10, 1000, 12345])
@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 1.4, 2.0, 5.0])
def test_alias_columns_hold_the_weights_exactly(keys: int, z: float) -> None:
    """Add up what every column gives to its own key and to its alias: no sampling error to hide in."""
    columns = alias_columns(zipf_weights(keys, z))
    own = (columns >> np.uint64(32)).astype(float) / 2**32
    alias = (columns & np.uint64(0xFFFFFFFF)).astype(np.int64)
    held = own.copy()
    np.add.at(held, alias, 1 - own)
    exact = zipf_weights(keys, z) / zipf_weights(keys, z).sum()
    # every column that feeds a key adds its own rounding, all of one sign
    feeders = 1 + np.bincount(alias, minlength=keys)
    assert (np.abs(held / keys - exact) <= feeders * 2.0**-32 / keys + 1e-13).all()


@given(weights=st.lists(st.sampled_from([0.0, 1e-9, 0.5, 1.0, 3.0, 1e6]), min_size=1, max_size=40))
def test_a_key_without_weight_never_occurs(weights: list[float]) -> None:
    if not any(weights):
        weights.append(1.0)
    columns = alias_columns(np.array(weights))
    own = columns >> np.uint64(32)
    alias = (columns & np.uint64(0xFFFFFFFF)).astype(np.int64)
    for key, weight in enumerate(weights):
        if weight == 0:
            assert own[key] == 0
            assert not (alias == key).any()


@pytest.mark.parametrize(
    ("z", "keys", "seed"), [(1.4, 10**5, 1), (1.0, 10**4, 2), (2.0, 10**4, 3), (0.5, 50, 4), (0.0, 1000, 5)]
)
def test_zipf_follows_its_law(z: float, keys: int, seed: int) -> None:
    messages = 2 * 10**6
    counts = np.bincount(ids_of(Zipf(z, keys, messages=messages, seed=seed)), minlength=keys)
    weights = zipf_weights(keys, z)
    expected = messages * weights / weights.sum()
    assert abs(chi_square(counts, expected)) < 4
    assert abs(chi_square(octaves(counts), octaves(expected))) < 4


def test_the_chi_square_test_would_notice_a_wrong_exponent() -> None:
    counts = np.bincount(ids_of(Zipf(1.41, 10**4, messages=10**6, seed=1)), minlength=10**4)
    weights = zipf_weights(10**4, 1.4)
    assert chi_square(octaves(counts), octaves(10**6 * weights / weights.sum())) > 20


def test_uniform_is_uniform() -> None:
    counts = np.bincount(ids_of(Uniform(1000, messages=10**6, seed=1)), minlength=1000)
    assert abs(chi_square(counts, np.full(1000, 1000.0))) < 4


def test_messages_are_independent_of_their_neighbours() -> None:
    ids = ids_of(Uniform(16, messages=10**6, seed=1))
    for lag in (1, 2, 3, 16, 1 << 16):
        pairs = np.bincount(ids[:-lag] * 16 + ids[lag:], minlength=256)
        assert abs(chi_square(pairs, np.full(256, pairs.sum() / 256))) < 4


def test_evolving_reverses_the_ranks_for_the_last_fifth() -> None:
    stream = Evolving(z=1.4, keys=1000, messages=10**6, seed=1)
    ids = ids_of(stream)
    weights = zipf_weights(1000, 1.4) / zipf_weights(1000, 1.4).sum()
    assert stream.boundaries == (800_000, 1_000_000)
    assert abs(chi_square(np.bincount(ids[:800_000], minlength=1000), 800_000 * weights)) < 4
    assert abs(chi_square(np.bincount(ids[800_000:], minlength=1000), 200_000 * weights[::-1])) < 4


def test_evolving_turns_at_every_boundary() -> None:
    stream = Evolving(z=3.0, keys=1000, messages=5000, phases=5, seed=1)
    hottest = [int(np.bincount(part).argmax()) for part in ids_of(stream).reshape(5, 1000)]
    assert hottest == [0, 999, 0, 999, 0]
    assert Evolving(messages=1000, phases=(1, 2, 1)).boundaries == (250, 750, 1000)
    assert Evolving(messages=3, phases="1+1").boundaries[-1] == 3
    assert Evolving(phases="4+1") == Evolving(phases=(4, 1)) == Evolving()
    assert Evolving(phases="5") == Evolving(phases=5) == Evolving(phases=(1, 1, 1, 1, 1))
    assert np.array_equal(ids_of(Evolving(messages=5000, phases=1)), ids_of(Zipf(messages=5000)))


@pytest.mark.parametrize("skew", [0, 10, 50, 100])
def test_countries_give_one_of_them_its_percentage(skew: float) -> None:
    messages = 10**6
    counts = np.bincount(ids_of(Countries(skew, messages=messages, seed=1)), minlength=204)
    hot = max(skew / 100, 1 / 204)
    if skew == 100:
        assert counts[0] == messages
    else:
        expected = messages * np.array([hot] + [(1 - hot) / 203] * 203)
        assert abs(chi_square(counts, expected)) < 4


def test_the_half_skew_stream_turns_uniform_half_way() -> None:
    ids = ids_of(Countries(80, then=0, messages=10**6, seed=1))
    assert abs((ids[: 10**6 // 2] == 0).mean() - 0.8) < 0.003
    assert abs((ids[10**6 // 2 :] == 0).mean() - 1 / 204) < 0.001
    assert abs((ids == 0).mean() - 0.4) < 0.005  # Table 2: 40 percent


def test_countries_are_204_names_hashed_as_text() -> None:
    assert len(set(COUNTRIES)) == 204
    stream = Countries()
    assert [stream.label(id) for id in range(204)] == list(COUNTRIES)
    assert np.array_equal(stream.hashes, ef.hash_keys(list(COUNTRIES)))


def test_numbered_keys_are_hashed_as_their_labels() -> None:
    stream = Zipf(keys=50)
    labels = [int(stream.label(id)) for id in range(50)]
    assert labels == list(range(1, 51))
    assert np.array_equal(stream.hashes, ef.hash_keys(np.array(labels, np.int64)))


def distribution_cost(stream: Generator, scheme: str, workers: int = 10, sources: int = 5) -> float:
    ids = next(stream.chunks(stream.messages)).ids
    routed = np.empty(ids.size, np.int64)
    for source in range(sources):
        router = ef.scheme(scheme).router(workers, seed=1, source=source, sources=sources)
        routed[source::sources] = router.route(stream.hashes[ids[source::sources]])
    return np.unique(ids * np.int64(workers) + routed).size / np.unique(ids).size


@pytest.mark.parametrize("messages", [10**5, 5 * 10**5])
def test_election_costs_what_it_was_fitted_to(messages: int) -> None:
    stream = Election(messages=messages, seed=1)
    assert abs((ids_of(stream) == 0).mean() - 0.68) < 0.01
    assert distribution_cost(stream, "shuffle") == pytest.approx(2.4491, rel=0.01)
    assert distribution_cost(stream, "partial-key") == pytest.approx(1.1647, rel=0.02)
    assert distribution_cost(stream, "key") == 1.0


def test_election_takes_every_share() -> None:
    assert (ids_of(Election(share=1.0, messages=1000)) == 0).all()
    assert (ids_of(Election(share=0.0, messages=1000)) > 0).all()


def test_a_burst_appears_and_fades() -> None:
    stream = Burst(keys=1000, messages=10**6, share=0.5, start=0.2, end=0.7, seed=1)
    shares = (ids_of(stream) == 1000).reshape(10, -1).mean(axis=1)
    assert shares[:2].tolist() == [0, 0]
    assert np.allclose(shares[2:7], [0.45, 0.35, 0.25, 0.15, 0.05], atol=0.01)
    assert shares[7:].tolist() == [0, 0, 0]
    rest = ids_of(stream)
    rest = rest[rest < 1000]
    weights = zipf_weights(1000, 1.0)
    assert abs(chi_square(np.bincount(rest, minlength=1000), rest.size * weights / weights.sum())) < 4


def test_a_drifting_key_moves_at_every_step() -> None:
    ids = ids_of(Drift(keys=1000, messages=10**6, share=0.4, steps=8, seed=1)).reshape(8, -1)
    for step, part in enumerate(ids):
        assert np.bincount(part).argmax() == 999 - step
        assert abs((part == 999 - step).mean() - 0.4) < 0.01


def test_a_long_stream_is_never_in_memory() -> None:
    stream = Zipf(keys=100, messages=10**12)
    chunk = stream.generate(10**12 - 5, 10**12)
    assert chunk.ids.size == 5
    first = next(stream.chunks(1000)).ids
    assert first.size == first.nbytes // 4 == 1000


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ANY["zipf"](z=-1), "z is -1; it must be from 0"),
        (lambda: ANY["zipf"](z=math.nan), "z is nan"),
        (lambda: ANY["zipf"](z="steep"), "z is 'steep'"),
        (lambda: ANY["zipf"](keys=0), "keys is 0; it must be from 1 to 100000000"),
        (lambda: ANY["zipf"](keys=1e9), "keys is 1000000000.0; it must be from 1 to 100000000"),
        (lambda: ANY["zipf"](keys=2.5), "keys is 2.5; it must be a whole number"),
        (lambda: ANY["zipf"](messages=0), "messages is 0; it must be a whole number from 1"),
        (lambda: ANY["zipf"](messages=True), "messages is True"),
        (lambda: ANY["zipf"](messages=math.inf), "messages is inf"),
        (lambda: ANY["zipf"](seed=0.5), "seed is 0.5"),
        (lambda: ANY["zipf"](rate=0), "rate is 0; it must be a number of messages per second above 0"),
        (
            lambda: ANY["countries"](skew=101),
            "skew is 101; it must be a percentage from 0 to 100",
        ),
        (lambda: ANY["countries"](then=-1), "then is -1"),
        (lambda: ANY["election"](share=1.2), "share is 1.2"),
        (lambda: ANY["election"](messages=10**12), "messages is 1000000000000, which needs"),
        (lambda: ANY["burst"](start=0.5, end=0.5), "start is 0.5 and end is 0.5; start must be below end"),
        (lambda: ANY["drift"](keys=5, steps=6), "steps is 6; it must be a whole number from 1 to 5"),
        (lambda: ANY["evolving"](phases="4+x"), "phases is '4\\+x'; it must be relative lengths"),
        (lambda: ANY["evolving"](phases="4+-1"), "phases is "),
        (lambda: ANY["evolving"](phases=0), "phases is 0"),
        (lambda: ANY["evolving"](phases=()), "phases is"),
        (lambda: ANY["evolving"](phases=None), "phases is None"),
        (lambda: next(ANY["zipf"]().chunks(0)), "size is 0; it must be at least 1"),
        (lambda: ANY["zipf"](messages=10).generate(5, 11), "messages 5 to 11 do not exist"),
        (lambda: ANY["zipf"](keys=10).label(10), "id is 10; it must be from 0 to 9"),
        (lambda: ANY["countries"]().label(-1), "id is -1"),
    ],
)
def test_bad_parameters_get_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        call()
