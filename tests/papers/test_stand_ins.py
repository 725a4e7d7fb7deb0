"""Generated stand-ins are close to the papers' streams: messages per key, hottest key, drift."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow.papers.data import FULL, GENERATED, PRINTED
from evenflow.papers.experiment import RunConfig
from evenflow.papers.measures import measure_data
from evenflow.streams import Drift, Zipf, open_stream

MADE = {
    "WP-made": 1,
    "TW-made": 1,
    "CT-made": 10,
    "MT-made": 10,
    "AM-made": 10,
}  # hottest keys of ten equal parts


@pytest.mark.parametrize(("name", "hottest"), MADE.items())
def test_it_has_the_papers_messages_per_key_and_hottest_key(name: str, hottest: int) -> None:
    (row,) = measure_data(name, GENERATED[name])
    messages, keys, p1, _ = PRINTED[name.partition("-")[0]]
    assert messages is not None
    assert keys is not None
    assert row["messages"] / row["keys"] == pytest.approx(messages / keys, rel=0.05)
    assert p1 is None or row["p1"] == pytest.approx(p1, rel=0.05)
    assert row["hottest"] == hottest


@pytest.mark.parametrize("name", [name for name in MADE if GENERATED[name] in FULL])
def test_at_paper_scale_it_has_the_papers_size(name: str) -> None:
    stream = open_stream(RunConfig("paper", GENERATED).stream(name))
    messages, keys, p1, _ = PRINTED[name.partition("-")[0]]
    assert isinstance(stream, Drift | Zipf)
    assert messages is not None
    assert keys is not None
    assert stream.messages == (5_000_000 if name == "TW-made" else messages), "TW's 1.2 billion are too many"
    weights = np.arange(1, stream.keys_upper_bound() + 1, dtype=np.float64) ** -stream.z
    law = weights / weights.sum()
    share = stream.share if isinstance(stream, Drift) else 0.0
    seen = float(-np.expm1(-(1 - share) * stream.messages * law).sum())
    assert stream.messages / seen == pytest.approx(messages / keys, rel=0.05)
    assert p1 is None or (share or law[0]) == pytest.approx(p1, rel=0.05)


def test_the_users_own_stream_is_taken_at_every_scale() -> None:
    own = RunConfig("paper", GENERATED | {"AM-made": "mine.csv#product"})
    assert own.stream("AM-made") == "mine.csv#product"
