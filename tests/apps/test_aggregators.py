"""The apps' aggregators without Spark: rows in any parts, merged in any order, give the exact answer."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.apps.generated import Documents
from evenflow.apps.heavy_hitters import HeavyHitters, Summary, hitters
from evenflow.apps.naive_bayes import Model
from evenflow.apps.vwap import Vwap
from evenflow.apps.windowed_join import BandJoin
from evenflow.keys import hash_keys


def folded(using: Any, table: pa.Table, parts: int, seed: int = 0) -> Any:
    """Reduce parts of a table on so many workers, in two calls each, and merge them in a random order."""
    rng = np.random.default_rng(seed)
    worker = rng.integers(0, parts, table.num_rows)
    states = []
    for at in range(parts):
        mine = table.filter(pa.array(worker == at))
        half = mine.num_rows // 2
        states.append(using.reduce(using.reduce(using.zero(), mine.slice(0, half)), mine.slice(half)))
    whole = using.zero()
    for at in rng.permutation(parts):
        whole = using.merge(whole, states[at])
    return whole


@pytest.mark.parametrize("parts", [1, 5])
def test_every_pair_is_compared_once(parts: int) -> None:
    values = np.random.default_rng(1).uniform(0, 50, 300)
    using = BandJoin(band=0.5)
    rows, comparisons, matches = using.finish(folded(using, pa.table({"value": values}), parts))
    exact = sum(abs(a - b) <= 0.5 for i, a in enumerate(values) for b in values[:i])
    assert (rows, comparisons, matches) == (300, 300 * 299 // 2, exact)


def test_many_comparisons_fit_in_memory() -> None:
    using = BandJoin(band=0.0)
    state = using.reduce(using.zero(), pa.table({"value": np.zeros(3000)}))
    assert using.finish(state) == (3000, 3000 * 2999 // 2, 3000 * 2999 // 2)


def test_prices_that_are_missing_are_counted() -> None:
    using = Vwap()
    table = pa.table({"price": [1.0, None, 3.0], "size": [1.0, 2.0, None]})
    assert using.finish(using.reduce(using.zero(), table)) == (1, 1.0, 1.0, 2)
    assert using.finish(using.zero()) == (0, 0.0, None, 0)


def zipf_words(count: int) -> list[str]:
    ranks = np.minimum(np.random.default_rng(7).zipf(1.3, count), 2000)
    return [f"w{rank}" for rank in ranks]


def summarised(words: list[str], scheme: str) -> tuple[dict[int, Summary], dict[int, set[int]]]:
    """Route words for real to eight workers with 100 counters each; return summaries, and who got what."""
    hashed = hash_keys(words)
    worker = ef.scheme(scheme).router(workers=8, seed=1).route(hashed)
    using = HeavyHitters(capacity=100)
    parts = {}
    for at in range(8):
        mine = [word for word, to in zip(words, worker, strict=True) if to == at]
        parts[at] = using.reduce(using.zero(), pa.table({"item": mine}))
        assert parts[at].floor <= len(mine) / 100
    sent: dict[int, set[int]] = {}
    for key, to in zip(hashed.view(np.int64).tolist(), worker.tolist(), strict=True):
        sent.setdefault(key, set()).add(to)
    return parts, sent


@pytest.mark.parametrize(
    ("scheme", "hottest"), [("key", 1), ("partial-key", 2), ("fill", None), ("shuffle", 8)]
)
def test_bounds_hold(scheme: str, hottest: int | None) -> None:
    words = zipf_words(20_000)
    parts, sent = summarised(words, scheme)
    exact: Counter[str | None] = Counter(words)
    floors = sum(part.floor for part in parts.values())
    blind, knowing = hitters(parts), hitters(parts, lambda key: sent[key])
    for one in blind:
        assert one.at_least <= exact[one.item] <= one.at_most <= one.at_least + floors
    for one in knowing:
        assert one.at_least <= exact[one.item] <= one.at_most
    if scheme == "key":  # one summary's error, as on a single machine
        assert all(one.at_most - one.at_least <= max(p.floor for p in parts.values()) for one in knowing)
    assert [one.item for one in knowing[:5]] == [word for word, _ in exact.most_common(5)]
    if hottest is not None:
        assert knowing[0].summaries == hottest


def test_the_error_grows_with_the_summaries_that_may_hold_a_key() -> None:
    words = zipf_words(20_000)
    exact: Counter[str | None] = Counter(words)
    errors = {}
    for scheme in ("key", "partial-key", "shuffle"):
        parts, sent = summarised(words, scheme)
        top = [one for one in hitters(parts, sent.__getitem__) if exact[one.item] >= 20]
        errors[scheme] = sum(one.at_most - exact[one.item] for one in top) / len(top)
    assert errors["key"] < errors["partial-key"] < errors["shuffle"]
    assert errors["key"] < errors["shuffle"] / 4


def test_summaries_merge_as_sketches() -> None:
    words = zipf_words(3000)
    using = HeavyHitters(capacity=60)
    state = folded(using, pa.table({"item": words}), 4)
    exact: Counter[str | None] = Counter(words)
    assert state.total == 3000
    assert len(state.items) <= 60
    assert state.floor <= 3000 / 60
    for item, count, error in zip(state.items, state.counts, state.errors, strict=True):
        assert count - error <= exact[item] <= count
    with_null = using.reduce(using.zero(), pa.table({"item": pa.array([None, "a", None])}))
    assert with_null.items == [None, "a"]


class SlowBayes:
    """Multinomial naive Bayes on one machine, by its textbook formula."""

    def __init__(self, documents: list[tuple[str, list[str]]]):
        self.labels = sorted({label for label, _ in documents})
        self.prior = Counter(label for label, _ in documents)
        self.counts = {
            c: Counter(w for label, text in documents if label == c for w in text) for c in self.labels
        }
        self.words = {word for _, text in documents for word in text}

    def predict(self, text: list[str]) -> str:
        scores = {}
        for c in self.labels:
            total = sum(self.counts[c].values()) + len(self.words)
            parts = [math.log((self.counts[c][word] + 1) / total) for word in text if word in self.words]
            scores[c] = math.log(self.prior[c] / sum(self.prior.values())) + sum(parts)
        return max(self.labels, key=lambda c: scores[c])


def test_predictions_are_those_of_one_machine() -> None:
    rows = Documents(messages=600, length=12, seed=2).make(np.arange(600)).to_pylist()
    documents = [(row["label"], row["words"]) for row in rows]
    train, test = documents[:400], documents[400:]
    counters: Counter[tuple[str, str | None]] = Counter()
    for label, words in train:
        counters.update((label, word) for word in [None, *words])
    model = Model()
    model.learn((label, word, count) for (label, word), count in counters.items())
    slow = SlowBayes(train)
    answers = model.predict_all(words for _, words in test)
    assert answers == [slow.predict(words) for _, words in test]
    assert sum(a == label for a, (label, _) in zip(answers, test, strict=True)) > 0.6 * len(test)
    assert Model().predict(["a"]) is None
