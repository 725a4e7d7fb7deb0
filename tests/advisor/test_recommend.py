"""What is recommended for which stream and work, why, and what to paste."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.advisor import Advice, advise, compare, contenders
from evenflow.advisor.compare import shuffled
from evenflow.advisor.planned import makespan, plan_for
from evenflow.advisor.recommend import code_for, plain_label, suits
from evenflow.simulator import Rescale, simulate
from evenflow.streams import open_stream
from evenflow.streams.sample import take_sample

SKEWED = "zipf:z=1.4,keys=1e4,messages=1e5"


@cache
def advice_on(spec: str, workers: int = 20, work: str = "mergeable") -> Advice:
    return advise(spec, workers=workers, work=work)


def chosen(spec: str, workers: int = 20, work: str = "mergeable") -> str:
    return advice_on(spec, workers, work).recommendation.outcome.spelling


@pytest.mark.parametrize(
    "spec",
    [
        SKEWED,
        "zipf:z=2,keys=1000,messages=2e4",
        "drift:keys=1e4,messages=1e5",
        "uniform:keys=20,messages=1e5",
    ],
)
def test_skewed_mergeable_work_gets_fill(spec: str) -> None:
    assert chosen(spec) == "fill"


@pytest.mark.parametrize("workers", [4, 20, 100])
@pytest.mark.parametrize("work", ["mergeable", "one-owner"])
def test_keys_that_are_not_skewed_get_key(workers: int, work: str) -> None:
    assert chosen("uniform:keys=1e5,messages=1e5", workers, work) == "key"


def test_chance_alone_is_no_reason_to_leave_key_grouping() -> None:
    advice = advice_on("uniform:keys=1e4,messages=2e5", 64)
    assert advice.base.max_over_mean > 1.12
    assert advice.recommendation.outcome is advice.base
    assert "No key is hot" in advice.recommendation.reason


@pytest.mark.parametrize("spec", [SKEWED, "uniform:keys=1e5,messages=1e5"])
def test_stateless_work_gets_shuffle(spec: str) -> None:
    advice = advice_on(spec, 20, "stateless")
    assert advice.recommendation.outcome.spelling == "shuffle"
    assert advice.recommendation.code == "df = df.repartition(20)"


@pytest.mark.parametrize(
    "spec", [SKEWED, "zipf:z=0.8,keys=1e4,messages=2e5", "zipf:z=2,keys=100,messages=1e5"]
)
def test_one_owner_work_gets_a_scheme_with_one_owner(spec: str) -> None:
    recommended = advice_on(spec, 20, "one-owner").recommendation.outcome
    assert recommended.one_owner


def test_one_owner_work_that_gains_leaves_key_grouping() -> None:
    advice = advice_on("zipf:z=0.8,keys=1e4,messages=2e5", 20, "one-owner")
    recommended = advice.recommendation.outcome
    assert recommended.spelling != "key"
    assert recommended.speed_up >= 1.1
    assert "with one owner per key" in advice.recommendation.reason


def test_one_owner_work_is_told_its_limit() -> None:
    notes = " ".join(advice_on(SKEWED, 20, "one-owner").recommendation.notes)
    limit = advice_on(SKEWED, 20).profile.top[1] * 20
    assert f"no scheme can do better than {limit:.2f} times the mean" in notes


def test_one_worker_needs_nothing() -> None:
    recommendation = advice_on(SKEWED, 1).recommendation
    assert recommendation.outcome.spelling == "key"
    assert recommendation.reason == "With one worker, every scheme is the same."


def test_few_rows_do_not_lead_away_from_fill() -> None:
    advice = advice_on("uniform:keys=2,messages=200", 300)
    assert advice.recommendation.outcome.spelling == "fill"
    assert any("only 200 rows for 300 workers" in note for note in advice.recommendation.notes)


def test_change_over_time_is_noticed_and_said() -> None:
    notes = advice_on("drift:keys=1e4,messages=1e5").recommendation.notes
    assert any("hot keys change over time" in note for note in notes)
    assert not any("hot keys change over time" in note for note in advice_on(SKEWED).recommendation.notes)


def test_grouped_rows_are_routed_in_random_order() -> None:
    stream = open_stream("zipf:z=1.2,keys=100,messages=1e4")
    ids = np.sort(next(stream.chunks()).ids)
    sample = take_sample(stream, None)
    sample.ids[:] = ids
    advice = advise(sample, workers=8)
    assert advice.profile.grouped
    assert any("random order" in note for note in advice.recommendation.notes)
    mixed = shuffled(sample)
    assert np.sort(mixed.ids).tolist() == ids.tolist()
    same = simulate("d-choices", mixed, 8, 1).row()
    online = next(outcome for outcome in advice.outcomes if outcome.spelling == "d-choices")
    assert (online.replicas, online.max_over_mean) == (same["replicas"], same["max_over_mean"])


def test_the_reason_names_the_key_and_the_numbers() -> None:
    advice = advice_on(SKEWED)
    fill = advice.recommendation.outcome
    reason = advice.recommendation.reason
    assert "The hottest key, '1'," in reason
    assert f"key grouping the fullest worker has {advice.base.max_over_mean:.2f} times the mean" in reason
    assert f"fill reduces it to {fill.max_over_mean:.2f}" in reason


def test_every_scheme_is_compared_with_what_the_simulator_says() -> None:
    advice = advice_on(SKEWED)
    assert {outcome.scheme.name for outcome in advice.outcomes} == set(ef.list_schemes())
    base = simulate("key", SKEWED, 20, 1).loads.max()
    for name in ("partial-key", "d-choices", "shuffle"):
        outcome = next(found for found in advice.outcomes if found.spelling == name)
        result = simulate(name, SKEWED, 20, 1)
        assert outcome.loads.tolist() == result.loads.tolist()
        assert outcome.memory == result.row()["memory"]
        assert outcome.speed_up == base / result.loads.max()


@pytest.mark.parametrize("split", [True, False])
def test_what_is_planned_on_spark_is_predicted_by_its_plan(split: bool) -> None:
    """With the plan's shares taken by hand: each key's rows, divided over its homes."""
    outcome = next(
        found for found in advice_on(SKEWED).outcomes if found.scheme == ef.scheme("fill", split=split)
    )
    sample = take_sample(open_stream(SKEWED), None)
    plan = plan_for(outcome.scheme, sample, 20)
    shares = np.zeros(20)
    counts = np.bincount(sample.ids, minlength=sample.hashes.size)
    for hashed, rows in zip(sample.hashes, counts, strict=True):
        draws = np.linspace(0, 1, 1000, endpoint=False)
        homes = plan.route(np.full(1000, hashed, np.uint64), draws)
        shares += np.bincount(homes, minlength=20) / 1000 * rows
    assert outcome.mode == "planned"
    assert outcome.expected == pytest.approx(shares.max() / shares.mean(), rel=0.01)
    assert outcome.max_over_mean == pytest.approx(outcome.expected, rel=0.04)  # and the luck of the draws
    assert outcome.loads.sum() == sample.messages


def test_cores_bound_the_speed_up() -> None:
    """Tasks wait for a core, so that a hot worker matters less; never does it take less than the work."""
    every = advice_on(SKEWED, 40)
    few = advise(SKEWED, workers=40, cores=4, cost=1e-3)
    for all_cores, four in zip(every.outcomes, few.outcomes, strict=True):
        assert four.makespan >= max(all_cores.loads.max(), 100_000 / 4)
        assert all_cores.makespan == all_cores.loads.max()
    assert few.recommendation.outcome.speed_up < every.recommendation.outcome.speed_up
    assert "on 4 cores" in few.recommendation.reason
    assert "with one core per worker" in every.recommendation.reason
    assert few.seconds(few.base) == pytest.approx(few.base.makespan / 1000)
    assert every.seconds(every.base) is None


def test_makespan_is_that_of_tasks_taken_in_turn() -> None:
    """Beside a slow reference: every step, the core that is free first takes the next task."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        loads, cores = random.integers(0, 50, 1 + seed * 3), int(random.integers(1, 12))
        free = np.zeros(cores)
        for load in loads:
            free[free.argmin()] += load
        assert makespan(loads, cores) == free.max()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [({"cores": 0}, "cores is 0"), ({"cost": -1.0}, "cost is -1.0"), ({"cost": float("nan")}, "cost is nan")],
)
def test_wrong_cores_and_costs(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        advise(SKEWED, workers=8, **wrong)


def test_migration_is_told_where_keys_have_one_owner_and_nowhere_else() -> None:
    for outcome in advice_on(SKEWED).outcomes:
        told = (outcome.keys_moved, outcome.state_moved, outcome.joining_moves, outcome.joining_ideal)
        if outcome.one_owner:
            assert all(value is not None and value >= 0 for value in told)
            assert outcome.joining_ideal == pytest.approx(1 / 21)
        else:
            assert told == (None, None, None, None)


def test_what_moves_when_a_worker_joins_is_what_the_simulator_says() -> None:
    outcome = next(found for found in advice_on(SKEWED).outcomes if found.scheme.name == "consistent-hash")
    table = simulate("consistent-hash", SKEWED, 20, 1, events=[Rescale(50_000, 21)]).rescales
    assert outcome.joining_moves == table["state_moved"][0] / 50_000


def test_key_grouping_moves_nearly_half_when_a_worker_joins() -> None:
    assert advice_on("uniform:keys=1e5,messages=1e5").base.joining_moves == pytest.approx(0.5, abs=0.05)


def test_schemes_that_suit_stand_first_and_the_lighter_of_equals_before_the_heavier() -> None:
    advice = advice_on(SKEWED)
    ranked = advice.ranked()
    assert [suits(outcome, "mergeable") for outcome in ranked] == [True] * (len(ranked) - 1) + [False]
    assert ranked[0].spelling == "fill"
    even = [outcome for outcome in ranked[:-1] if outcome.max_over_mean <= 1.05]
    assert [outcome.memory for outcome in even] == sorted(outcome.memory for outcome in even)
    owned = advice_on(SKEWED, 20, "one-owner").ranked()
    assert {outcome.one_owner for outcome in owned[:3]} == {True}
    assert not owned[-1].one_owner


def test_the_same_data_gets_the_same_advice() -> None:
    assert advise(SKEWED, workers=20).to_dict() == advice_on(SKEWED).to_dict()


def test_compare_tells_how_far_it_is() -> None:
    said: list[tuple[int, int, str]] = []
    sample = take_sample(open_stream("zipf:keys=10,messages=100"), None)
    compare(sample, 2, contenders(10, 100)[:3], watch=lambda *far: said.append(far))
    assert [(done, total) for done, total, _ in said] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("work", ["mergeable", "one-owner"])
@pytest.mark.parametrize("key", [("user_id",), ("a", "b"), ('say "hi"\n', "\\")])
@pytest.mark.parametrize("name", ["fill", "w-choices", "explicit", "key", "shuffle"])
def test_the_lines_to_paste_are_python_that_names_workers_and_columns(
    work: str, key: tuple[str, ...], name: str
) -> None:
    outcome = next(found for found in advice_on(SKEWED).outcomes if found.scheme.name == name)
    tree = ast.parse(code_for(outcome, work, 64, key))
    calls = {_called(node): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    if name in {"key", "shuffle"}:
        values = [ast.literal_eval(argument) for argument in calls["repartition"].args]
        assert values == ([64, *key] if name == "key" else [64])
        return
    balance = calls["balance"]
    column = ast.literal_eval(balance.args[0])
    assert column == (key[0] if len(key) == 1 else list(key))
    options = {option.arg: ast.literal_eval(option.value) for option in balance.keywords}
    assert options.pop("workers") == 64
    assert options.pop("split", True) == (work != "one-owner")
    assert options == ({} if name == "fill" else {"scheme": name})


@pytest.mark.parametrize("work", ["mergeable", "one-owner"])
def test_the_lines_fit_the_spark_operators(work: str) -> None:
    import evenflow.spark

    fill = next(found for found in advice_on(SKEWED).outcomes if found.spelling == "fill")
    code = code_for(fill, work, 64, ["user_id"])
    commented = [line.removeprefix("# ") for line in code.splitlines() if line.startswith("# ")]
    lines = [code, *(line for line in commented if not line.endswith(":"))]
    for line in lines:
        for call in ast.walk(ast.parse(line)):
            if isinstance(call, ast.Call) and _called(call) in {"balance", "apply", "aggregate"}:
                operator = getattr(evenflow.spark, _called(call))
                options = {option.arg: None for option in call.keywords if option.arg}
                in_front = isinstance(call.args[0], ast.Name)  # df; else it is for df.transform
                inspect.signature(operator).bind(*call.args if in_front else (None, *call.args), **options)
    called = [
        name for name in ("balance(", "apply(", "aggregate(") if any(name in line for line in lines[1:])
    ]
    assert called == (["apply("] if work == "one-owner" else ["balance(", "apply(", "aggregate("])


def test_a_line_that_splits_keys_says_so_and_shows_the_swap_for_repartition() -> None:
    fill = next(found for found in advice_on(SKEWED).outcomes if found.spelling == "fill")
    [line] = [line for line in code_for(fill, "mergeable", 64, ["k"]).splitlines() if line.startswith("df =")]
    assert "several partitions" in line
    assert "repartition" not in line
    [line] = [line for line in code_for(fill, "one-owner", 64, ["k"]).splitlines() if line.startswith("df =")]
    assert 'split=False))  # instead of df.repartition(64, "k")' in line


def _called(call: Any) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id


def test_bad_arguments_are_answered_with_a_sentence() -> None:
    with pytest.raises(ef.EvenflowError, match="workers is 0; a router needs at least one worker"):
        advise(SKEWED, workers=0)
    with pytest.raises(
        ef.EvenflowError, match="work is 'hard'; it must be one of mergeable, one-owner, stateless"
    ):
        advise("zipf:keys=10,messages=10", workers=2, work="hard")


def test_labels_are_safe_to_show() -> None:
    assert plain_label("a\tb\x1b[31m\x00") == r"a\tb\x1b[31m\x00"
    assert plain_label("Zürich 東京 🙂") == "Zürich 東京 🙂"
    assert len(plain_label("x" * 1000)) == 40


def test_advice_prints_as_text() -> None:
    advice = advice_on(SKEWED)
    text = str(advice)
    assert text.startswith(f"Recommended: {advice.recommendation.outcome.spelling}\n")
    assert advice.recommendation.reason in text
    assert advice.recommendation.code.strip() in text
