"""A scheme from outside is planned, owns state, is simulated and advised by what it declares.

What it does on Spark is in tests/spark/test_own_scheme.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import evenflow as ef
from evenflow.owners import Ownership
from evenflow.plan import bucket_of
from evenflow.plan.counted import Counted
from evenflow.schemes import registry
from evenflow.simulator import Rescale, simulate
from owners.simulated import Query
from schemes.own import Modular, Reserved

EXAMPLES = Path(__file__).parents[2] / "examples"
KEYS = np.random.default_rng(3).integers(0, 2**64, 5000, np.uint64)


def test_it_is_planned_as_its_router_decides() -> None:
    plan = Modular().plan(7, seed=2)
    where = plan.route(KEYS, np.zeros(KEYS.size))
    buckets = bucket_of(KEYS, plan.buckets.size).astype(np.uint64)
    assert where.tolist() == Modular().router(7, 2).route(buckets).tolist()
    assert plan.splits == 0
    assert plan.max_over_mean < 1.01


def test_it_plans_from_counts_if_it_says_so() -> None:
    counted = Counted(KEYS[:3], np.array([900.0, 50.0, 50.0]), 2000.0)
    plan = Reserved().plan(5, counted)
    assert plan.homes_of(int(KEYS[0])) == [4]
    assert plan.keys.tolist() == [int(KEYS[0])]
    assert plan.expected[4] == pytest.approx(0.45)
    assert 4 not in plan.buckets


def test_it_owns_state_and_its_owners_follow_the_number_of_workers() -> None:
    query = Query(Ownership.start(Modular(), 4, seed=1), distinct=2000)
    assert set(query.owners().tolist()) == {0, 1, 2, 3}
    decision = query.step()
    assert not decision.adopted
    assert decision.reason == "every resource is within its tolerance"  # it follows no load
    assert query.own.rescale(6).adopted
    assert set(query.owners().tolist()) == set(range(6))
    again = Ownership.from_json(query.own.to_json(), Modular())
    assert again.plan.to_json() == query.own.plan.to_json()
    assert again.plan.to_json() == Modular().plan(6, again.frequencies.counted(), seed=1).to_json()


def test_it_follows_the_load_if_its_plans_do() -> None:
    query = Query(Ownership.start(Reserved(), 4, seed=1), z=1.3, distinct=2000)
    before = query.measure()
    query.step()
    assert query.own.plan.keys.tolist() == [int(query.keys[0])]
    assert query.own.plan.homes_of(int(query.keys[0])) == [3]
    assert max(query.measure().rows) < max(before.rows)


@pytest.mark.parametrize("sources", [1, 3])
def test_it_is_simulated(sources: int) -> None:
    result = simulate(Modular(), "zipf:z=1,keys=1000,messages=20000", workers=5, sources=sources)
    assert result.loads.sum() == 20_000
    assert result.row()["memory"] == 1.0
    with pytest.raises(ef.EvenflowError, match="modular cannot change its number of workers"):
        simulate(Modular(), "zipf:z=1,keys=1000,messages=20000", workers=5, events=[Rescale(10_000, 6)])


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know the schemes of these tests during one of them."""
    ef.list_schemes()
    monkeypatch.setattr(registry, "_SCHEMES", dict(registry._SCHEMES))
    ef.register(Modular)


@pytest.mark.usefixtures("known")
def test_it_is_advised() -> None:
    advice = ef.advise("zipf:z=0.2,keys=20000,messages=40000", workers=6, work="one-owner")
    outcome = next(outcome for outcome in advice.outcomes if outcome.scheme == Modular())
    assert outcome.one_owner
    assert outcome.memory == 1.0
    assert outcome.joining_moves == pytest.approx(6 / 7, abs=0.03)  # modulo moves nearly every key
    assert {row["scheme"] for row in advice.to_dict()["schemes"]} == set(ef.list_schemes())


@pytest.mark.usefixtures("known")
def test_it_is_saved_and_resumed() -> None:
    router = ef.scheme("modular").router(5, 1)
    router.route(KEYS[:100])
    again = ef.Router.from_bytes(router.to_bytes())
    assert again.route(KEYS).tolist() == router.route(KEYS).tolist()
    assert again.loads.tolist() == router.loads.tolist()


def test_looking_up_leaves_a_router_as_it_was() -> None:
    router = Modular().router(5, 1)
    assert router.lookup(KEYS).tolist() == Modular().router(5, 1).route(KEYS).tolist()
    assert (router.routed, router.loads.sum()) == (0, 0)


def test_the_example_of_the_documents_is_planned_simulated_and_advised() -> None:
    # in a process of its own: a registered scheme stays registered
    script = """
import json, numpy as np, evenflow as ef
from evenflow.owners import Ownership
from jump_hash import Jump
moved = [(Jump().plan(n).buckets != Jump().plan(n + 1).buckets).mean() for n in (5, 20)]
own = Ownership.start(Jump(), 5)
own.rescale(6)
loads = ef.simulate("jump", "zipf:z=0.1,keys=1e5,messages=1e5", workers=9, sources=2).row()["max_over_mean"]
advice = ef.advise("zipf:z=0.1,keys=1e4,messages=1e4", workers=4)
told = [outcome.joining_moves for outcome in advice.outcomes if outcome.scheme.name == "jump"]
print(json.dumps([*moved, own.plan.max_over_mean, loads, *told]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=EXAMPLES, capture_output=True, text=True, check=True
    )
    few, many, planned, simulated, joining = json.loads(done.stdout)
    assert (few, many) == (pytest.approx(1 / 6, abs=0.02), pytest.approx(1 / 21, abs=0.02))
    assert planned < 1.15
    assert simulated < 1.1
    assert joining == pytest.approx(1 / 5, abs=0.03)


def test_a_scheme_that_cannot_own_state_says_why() -> None:
    class Blind(Modular):
        name = "blind"
        plannable = False

    with pytest.raises(ef.EvenflowError, match="blind decides row by row, but the owner of keyed state"):
        Ownership.start(Blind(), 3)
    with pytest.raises(ef.EvenflowError, match="blind decides row by row and cannot be planned"):
        Blind().plan(3)
