"""How skewed a key is: shares and exponent against known laws, change against known streams."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow.advisor.profile import Profile, fitted_exponent, is_grouped, profile, share_text
from evenflow.streams import open_stream
from evenflow.streams.sample import Sample, take_sample


def look_at(spec: str, workers: int = 20) -> Profile:
    return profile(take_sample(open_stream(spec), None), workers)


def of_ids(ids: list[int]) -> Sample:
    stream = open_stream("uniform:keys=1000,messages=10")
    return Sample(stream, np.array(ids, np.int32), None, len(ids), "")


def test_counts_and_shares_are_exact() -> None:
    found = profile(of_ids([3] * 50 + [5] * 30 + [7] * 15 + [1, 2, 4, 6, 8]), 4)
    assert (found.messages, found.keys) == (100, 8)
    assert [(hot.label, hot.messages, hot.share) for hot in found.hottest[:4]] == [
        ("4", 50, 0.5),
        ("6", 30, 0.3),
        ("8", 15, 0.15),
        ("2", 1, 0.01),
    ]
    assert found.top == {1: 0.5, 10: 1.0, 100: 1.0}
    assert len(found.hottest) == 8


@pytest.mark.parametrize("z", [0.6, 1.0, 1.4, 2.0])
def test_the_exponent_of_a_zipf_stream_is_found(z: float) -> None:
    exponent = look_at(f"zipf:z={z},keys=1e4,messages=3e5").exponent
    assert exponent == pytest.approx(z, abs=0.06)


def test_a_uniform_stream_has_nearly_no_exponent() -> None:
    exponent = look_at("uniform:keys=1000,messages=3e5").exponent
    assert exponent is not None
    assert exponent < 0.05


def test_two_keys_have_no_exponent() -> None:
    assert fitted_exponent(np.array([100, 50, 4, 0])) is None


@pytest.mark.parametrize(
    "spec",
    [
        "zipf:z=1.4,keys=1e4,messages=1e5",
        "zipf:z=0.8,keys=1e4,messages=1e5",
        "uniform:keys=100,messages=1e5",
        "uniform:keys=1e5,messages=1e5",
        "countries:skew=60,messages=1e5",
        "zipf:z=2,keys=1e3,messages=2000",
    ],
)
def test_stationary_streams_do_not_change(spec: str) -> None:
    for workers in (4, 20, 200):
        change = look_at(spec, workers).change
        assert change is not None
        assert not change.changes
        assert change.changing_keys == 0


@pytest.mark.parametrize(
    "spec",
    [
        "drift:keys=1e4,messages=1e5,share=0.3",
        "burst:keys=1e4,messages=1e5,share=0.3",
        "evolving:z=1.4,keys=1e4,messages=1e5",
        "countries:skew=80,then=0,messages=1e5",
        "drift:keys=1e3,messages=5000,share=0.5,steps=2",
    ],
)
def test_streams_whose_hot_keys_move_change(spec: str) -> None:
    change = look_at(spec, 20).change
    assert change is not None
    assert change.changes
    assert 0 < change.changing_keys <= change.hot_keys


def test_the_leaders_are_those_of_ten_parts() -> None:
    change = look_at("drift:keys=1e3,messages=1e5,share=0.4,steps=10").change
    assert change is not None
    assert [leader.label for leader in change.leaders] == [str(1000 - step) for step in range(10)]
    assert all(leader.share == pytest.approx(0.4, abs=0.02) for leader in change.leaders)


def test_small_change_of_a_light_key_is_no_change() -> None:
    ids = ([0] * 90 + [1] * 10) * 500 + ([0] * 90 + [2] * 10) * 500
    change = profile(of_ids(ids), 4).change
    assert change is not None
    assert (change.hot_keys, change.changing_keys) == (3, 2)
    assert not change.changes


def test_rows_grouped_by_key_say_nothing_of_time() -> None:
    found = profile(of_ids([key for key in range(50) for _ in range(40)]), 4)
    assert found.grouped
    assert found.change is None
    assert not is_grouped(np.array([1, 1, 1, 1], np.int32), 1)
    assert not is_grouped(np.arange(50, dtype=np.int32), 50)
    assert not profile(take_sample(open_stream("zipf:z=2,messages=1e4"), None), 4).grouped


def test_too_few_rows_say_nothing_of_time() -> None:
    assert profile(of_ids([1, 2, 1, 1, 2]), 4).change is None


def test_the_trace_follows_the_hottest_keys_window_by_window() -> None:
    sample = take_sample(open_stream("drift:keys=1e3,messages=1e5,share=0.4,steps=4,rate=10"), None)
    trace = profile(sample, 20).trace
    assert trace.shares.shape == (len(trace.labels), 50)
    assert {"1000", "999", "998", "997"} <= set(trace.labels)
    first = trace.shares[trace.labels.index("1000")]
    assert first[:12] == pytest.approx(0.4, abs=0.05)
    assert first[13:].max() < 0.02
    assert trace.times is not None
    assert trace.times[0] == 0
    assert trace.times[-1] == pytest.approx(9999.9)
    windows = np.bincount(sample.ids[:2000], minlength=1000)[999] / 2000
    assert first[0] == windows


def test_a_stream_of_one_message_has_a_profile() -> None:
    found = look_at("zipf:keys=1,messages=1")
    assert (found.keys, found.exponent, found.change) == (1, None, None)
    assert found.trace.shares.tolist() == [[1.0]]


def test_shares_have_two_digits_that_count() -> None:
    assert [share_text(share) for share in (0, 1, 0.9999, 0.5, 0.031, 0.0001)] == [
        "0%",
        "100%",
        "100%",
        "50%",
        "3.1%",
        "0.010%",
    ]
