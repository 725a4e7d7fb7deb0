"""table.py: what numpy looks up is what a plain reading of the plan gives, key by key."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.plan import Plan, bucket_of, make_plan
from evenflow.plan.table import alias_cells, perfect_slots
from plan.plans import EDGES, LARGEST_DRAW, plans, rows_for


def slow_route(plan: Plan, hashes: list[int], draws: list[float]) -> list[int]:
    """Return the worker of every row, as the docstring of the table describes it."""
    cells = {}
    for number, key in enumerate(plan.keys.tolist()):
        homes = plan.homes[plan.starts[number] : plan.starts[number + 1]].tolist()
        parts = plan.parts[plan.starts[number] : plan.starts[number + 1]]
        cells[key] = slow_cells(homes, (parts / parts.sum() * parts.size).tolist())
    workers = []
    for key, draw in zip(hashes, draws, strict=True):
        if key in cells:
            wide = draw * len(cells[key])
            below, cut, above = cells[key][int(wide)]
            workers.append(below if wide - int(wide) < cut else above)
        else:
            workers.append(int(plan.buckets[(key >> 32) * plan.buckets.size >> 32]))
    return workers


def slow_cells(homes: list[int], full: list[float]) -> list[tuple[int, float, int]]:
    cells = [(home, 1.0, home) for home in homes]
    poor = [cell for cell, level in enumerate(full) if level < 1]
    rich = [cell for cell, level in enumerate(full) if level >= 1]
    while poor and rich:
        taker, giver = poor.pop(), rich[-1]
        cells[taker] = (homes[taker], full[taker], homes[giver])
        full[giver] -= 1 - full[taker]
        if full[giver] < 1:
            poor.append(rich.pop())
    return cells


@given(plan=plans(), seed=st.integers(0, 2**32))
def test_numpy_routes_as_a_plain_reading_of_the_plan(plan: Plan, seed: int) -> None:
    hashes, draws = rows_for(plan, 150, seed)
    expected = slow_route(plan, hashes.tolist(), draws.tolist())
    assert plan.route(hashes, draws).tolist() == expected
    if not plan.splits:
        assert plan.table.route(hashes.view(np.int64)).tolist() == expected
    for key, worker in zip(hashes[:40].tolist(), expected[:40], strict=True):
        assert worker in plan.homes_of(key)


@given(plan=plans())
def test_homes_get_exactly_their_parts(plan: Plan) -> None:
    below, cut, above = alias_cells(plan)
    for key in range(plan.keys.size):
        cells = slice(plan.starts[key], plan.starts[key + 1])
        count = plan.starts[key + 1] - plan.starts[key]
        got = np.bincount(below[cells], cut[cells] / count, plan.workers)
        got += np.bincount(above[cells], (1 - cut[cells]) / count, plan.workers)
        wanted = np.bincount(plan.homes[cells], plan.parts[cells], plan.workers)
        assert np.abs(got - wanted).max() < 1e-9


@given(plan=plans())
def test_every_hot_key_is_found_and_no_other(plan: Plan) -> None:
    table = plan.table
    assert table.find(plan.keys).tolist() == list(range(plan.keys.size))
    beside = np.setdiff1d(np.concatenate([EDGES, plan.keys ^ np.uint64(1 << 40)]), plan.keys)
    assert (table.find(beside) == -1).all()
    slotted = table.slots[table.slots >= 0]
    assert sorted([*slotted.tolist(), *table.unslotted.tolist()]) == list(range(plan.keys.size))
    assert table.slots.size <= max(2, 4 * plan.keys.size)


@pytest.mark.parametrize("count", [1, 2, 3, 64, 65, 1000, 65_536, 100_000])
def test_random_hashes_all_have_slots(count: int) -> None:
    found = perfect_slots(np.random.default_rng(count).integers(0, 2**64, count, np.uint64))
    assert found.unslotted.size <= 2  # equal in 34 or more bits: a tenth of such a pair is to be expected
    assert np.unique(found.slots[found.slots >= 0]).size == count - found.unslotted.size


def test_keys_that_no_shift_separates_are_listed() -> None:
    clashing = np.arange(40, dtype=np.uint64) << np.uint64(20)  # equal lower bits, many equal upper bits
    plan = make_plan(4, np.concatenate([clashing, EDGES]), np.full(48, 10.0))
    assert plan.table.unslotted.size > 10
    for key in clashing.tolist():
        at = plan.keys.tolist().index(key)
        assert plan.homes_of(key) == plan.homes[plan.starts[at] : plan.starts[at + 1]].tolist()


def test_buckets_are_scaled_upper_halves() -> None:
    for size in (1, 77, 4096, 640_000):
        got = bucket_of(EDGES, size).tolist()
        assert got == [int(Fraction(int(edge) >> 32, 2**32) * size) for edge in EDGES]


@pytest.mark.parametrize("homes", [1, 2, 3, 7, 64, 9999, 10_000, 2**20])
def test_the_largest_draw_is_in_the_last_cell(homes: int) -> None:
    assert int(LARGEST_DRAW * homes) == homes - 1


def test_draws_that_are_none_get_a_sentence() -> None:
    plan = make_plan(2, np.array([7], np.uint64), [60], total=100)
    hashes = np.array([7, 7], np.uint64)
    for draws, sentence in [
        ([0.5], "2 hashes but 1 draws"),
        ([0.5, 1.0], r"a draw is 1\.0; draws must be at least 0 and below 1"),
        ([-0.1, 0.5], r"a draw is -0\.1"),
        ([0.5, float("nan")], "a draw is nan"),
    ]:
        with pytest.raises(ef.EvenflowError, match=sentence):
            plan.route(hashes, np.array(draws))


@pytest.mark.parametrize(
    "modules",
    [
        "evenflow.plan.table, evenflow.plan.plan, evenflow.spark.state.owner_lookup",
        "evenflow.spark.joining.plan_versions, evenflow.spark.routing.turns",
    ],
)
def test_python_workers_import_plans_without_numba_and_spark(modules: str) -> None:
    program = (
        f"import sys, {modules}\n"
        "print([name for name in ('numba', 'pyspark', 'pandas') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
