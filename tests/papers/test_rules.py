"""The vocabulary of claims: each measure against numbers, each comparator on both sides of its limit."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.papers.experiment import DIFFERS, DIRECTION, HOLDS, UNTESTED, Claim, judge
from evenflow.papers.rules import (
    all_of,
    apart,
    as_printed,
    at_least,
    at_most,
    at_scale,
    average,
    below,
    between,
    changes,
    compared,
    cut,
    each,
    gain,
    graded,
    holds,
    is_highest,
    largest,
    lowest,
    named,
    ratio,
    reduction,
    steps,
    times,
    values,
)
from evenflow.papers.table import Table

ROWS = [
    {"scheme": scheme, "workers": n, "seed": seed, "load": load * n / 10 + seed}
    for scheme, load in (("key", 40.0), ("partial-key", 20.0), ("fill", 10.0))
    for n in (10, 20)
    for seed in (-1, 1)
]
TABLE = Table.of_rows(ROWS)


def test_a_selection_takes_queries_values_and_any_of_several() -> None:
    assert len(TABLE.only("workers > 10", scheme=("key", "fill"))) == 4
    assert Table.of_rows([{"z": 0.1 + 0.2}]).only(z=0.3).shape == (1, 1)
    for nothing in ({"scheme": "shuffle"}, {"query": "workers > 20"}, {"z": 1.0}):
        with pytest.raises(KeyError):
            TABLE.only(**nothing)


def test_a_wide_table_has_a_column_per_subject_and_means_over_seeds() -> None:
    wide = TABLE.wide("load", "workers")
    assert wide["key"].tolist() == [40, 80]
    assert wide.index.tolist() == [10, 20]
    assert TABLE.wide("load", workers=20).iloc[0].to_dict() == {"key": 80, "partial-key": 40, "fill": 20}
    labelled = Table(TABLE.assign(label=TABLE["scheme"].str.upper()))
    assert labelled.subject == "label"


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (largest("load"), 81),
        (average("load", scheme="fill"), 15),
        (lowest("load", "workers", scheme="key"), 40),
        (values("load", "fill", "key", workers=10), {"fill": 10, "key": 40}),
        (ratio("load", "key", "fill", "workers"), 4),
        (ratio("load", ("key", "partial-key"), "fill", "workers"), 2),
        (gain("load", "key", "partial-key", "workers"), 1),
        (reduction("load", "fill", "key", "workers"), 0.75),
        (reduction("load", ("fill", "partial-key"), "key", "workers"), 0.5),
        (apart("load", ("key", "fill"), "workers"), 3),
        (changes("load", "fill", "seed == 1"), 21 / 11 - 1),
        (at_scale(average("load", scheme="key")), 80),
    ],
)
def test_measures(measure: Any, expected: Any) -> None:
    assert measure(TABLE) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("measure", "count", "right"),
    [
        (below("load", ("fill", "partial-key"), "key", "workers", strictly=True), 4, 4),
        (below("load", "partial-key", "fill", "workers", factor=2.0), 2, 2),
        (below("load", "partial-key", "fill", "workers", factor=2.0, strictly=True), 2, 0),
        (compared("load", "workers", check="key > 3 * fill and `partial-key` > fill"), 2, 2),
        (holds("load > 10", scheme="fill"), 4, 3),
        (is_highest("load", "key", ("key", "fill"), "workers"), 2, 2),
        (is_highest("load", "fill", ("key", "fill"), "workers"), 2, 0),
        (steps("load", "workers", scheme="key"), 1, 1),
        (steps("load", "workers", falling=True, scheme="key"), 1, 0),
        (all_of(holds("load > 0"), holds("load < 0")), 24, 12),
    ],
)
def test_checks(measure: Any, count: int, right: int) -> None:
    assert each(measure, "x")(TABLE).measured == f"{right} of {count} x"


def _verdicts(rule: Any, *numbers: Any) -> list[str]:
    return [rule(lambda t, number=number: number)(TABLE).verdict for number in numbers]


def test_comparators_on_both_sides_of_their_limits() -> None:
    three = [HOLDS, DIRECTION, DIFFERS]
    assert _verdicts(lambda m: at_most(m, 1, 2), 1, 2, 2.1) == three
    assert _verdicts(lambda m: at_least(m, 2, 1), 2, 1, 0.9) == three
    assert _verdicts(lambda m: between(m, 2, 3, 1), 3, 3.1, 1) == three
    assert (
        _verdicts(lambda m: at_most(m, 1, 2), {"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 3}) == three
    )
    assert (
        _verdicts(lambda m: graded(m, lambda a, b: a > b, lambda a, b: a == b), (2, 1), (1, 1), (0, 1))
        == three
    )
    printed = {"a": 1.0, "b": 2.0}
    near = _verdicts(
        lambda m: as_printed(m, printed, 0.1, 0.5), printed, {"a": 0.7, "b": 2}, {"a": 0.6, "b": 2}
    )
    assert near == three
    assert _verdicts(lambda m: times(m, 13.6), 13.6, 2.4, 2.3) == three
    assert _verdicts(lambda m: times(m, 13.6), 30, 0.5) == [DIRECTION, DIFFERS]  # bounded on both sides
    assert _verdicts(lambda m: times(m, 1.32), 1.32, 1.7, 1.08) == three  # 1.08: a third of the effect is 1.1
    assert _verdicts(lambda m: cut(m, 0.6), 0.6, 0.3, 0.2) == three
    assert _verdicts(lambda m: cut(m, 0.25), 0.25, 0.45, 0.07) == three
    assert _verdicts(lambda m: cut(m, 0.6), 0.99, 1.0, -0.1) == [DIRECTION, DIRECTION, DIFFERS]
    found = ({"a": 2, "b": 4}, {"a": 2, "b": 8}, {"a": 8, "b": 4})
    assert _verdicts(lambda m: as_printed(m, printed, 0.1, by_order=True, unit="a"), *found) == three


def test_what_is_told() -> None:
    assert at_most(lambda t: (1, 2.5), 1, text="{:g} of {:g}")(TABLE).measured == "1 of 2.5"
    assert graded(lambda t: {"a": 1.5}, bool, text="a is {a:g}")(TABLE).measured == "a is 1.5"
    assert named(".1f", "loads ", ("b", "a"))({"a": 1, "b": 2}) == "loads b 2.0, a 1.0"
    assert each(lambda t: [True], "x", lambda t: f"{len(t)} rows")(TABLE).measured == "1 of 1 x; 12 rows"


def test_a_claim_without_its_rows_is_untested_and_a_caveat_is_always_told() -> None:
    assert judge(Claim("1", "c", "e", at_most(ratio("load", "key", "shuffle"), 1)), ROWS).verdict == UNTESTED
    assert judge(Claim("1", "c", "e", at_most(largest("missing"), 1)), ROWS).verdict == UNTESTED
    assert judge(Claim("1", "c", "e", at_most(largest("load", "nothing > 1"), 1)), ROWS).verdict == UNTESTED
    assert judge(Claim("1", "c", "e", at_most(largest("load"), 99), caveat="mind"), ROWS).note == "mind"
