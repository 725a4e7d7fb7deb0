"""A join with streams that is killed between the offsets and the commit of a batch loses and repeats nothing.

Part of ``make faults`` only: every start of the program is a JVM.
"""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evenflow import hash_keys
from evenflow.plan import make_join_plan
from evenflow.plan.counted import Counted
from extent import in_make_faults
from faults.test_kills import JOB, damage, run
from spark.stream_files import write_batches

pytestmark = [
    pytest.mark.spark, pytest.mark.faults, in_make_faults,
]  # fmt: skip

KILLS = {0: "during", 1: "before", 2: "after"}
FILES = 5
NEAR = timedelta(seconds=30)
ROWS, START = 60, datetime(2024, 1, 1, tzinfo=UTC)


def batch(seed: int, number: int) -> pa.Table:
    """Return rows within 20 seconds, half of which have one key and a few none; the batches are 20 apart."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(ROWS) < 0.5, 7, rng.integers(0, 20, ROWS))
    times = [START + timedelta(seconds=20 * number + int(second)) for second in rng.integers(0, 20, ROWS)]
    return pa.table(
        {
            "k": pa.array(keys, mask=rng.random(ROWS) < 0.05),
            "number": np.arange(ROWS) + number * ROWS,
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


@pytest.mark.parametrize("kind", ["table", "streams"])
@pytest.mark.timeout(1800)
def test_a_killed_join_ends_as_if_nothing_had_happened(tmp_path: Path, kind: str) -> None:
    left = [batch(number, number) for number in range(FILES)]
    right = [batch(100 + number, number) for number in range(FILES)]
    write_batches(tmp_path / "left", left)
    write_batches(tmp_path / "right", right if kind == "streams" else [pa.concat_tables(right)])
    hot = Counted(hash_keys(pa.array([7], pa.int64())), np.array([1000.0]), 2000.0)
    plan = make_join_plan(4, hot, Counted(hot.keys, np.ones(1), 100.0), "left")
    (tmp_path / "plan.json").write_text(plan.to_json())
    (tmp_path / "out").mkdir()
    killed = 0
    while (status := run(tmp_path, kind, KILLS, JOB.with_name("joined.py"))) == -signal.SIGKILL:
        killed += 1
        if kind == "table":  # of two streams, the plan is part of the state
            damage(tmp_path / "control", killed)
        assert killed <= len(KILLS)
    assert status == 0, (tmp_path / "log").read_text()[-3000:]
    assert killed == len(KILLS)
    found = [tuple(row) for path in (tmp_path / "out").glob("*.json") for row in json.loads(path.read_text())]
    matched, alone = expected(pa.concat_tables(left), pa.concat_tables(right), kind)
    assert sorted(row for row in found if row[1] is not None) == matched
    unmatched = sorted(row[0] for row in found if row[1] is None)
    assert len(set(unmatched)) == len(unmatched)
    if kind == "table":
        assert unmatched == alone
    else:  # the last ones still wait
        assert set(unmatched) <= set(alone)
        assert {number for number in alone if number < 2 * ROWS} <= set(unmatched)


def expected(left: pa.Table, right: pa.Table, kind: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the pairs of rows that match, and the rows of the left that have no match."""
    by_key = defaultdict(list)
    for row in right.to_pylist():
        by_key[row["k"]].append(row)
    pairs, alone = [], []
    for row in left.to_pylist():
        others = [] if row["k"] is None else by_key[row["k"]]
        matches = [other for other in others if kind == "table" or abs(other["ts"] - row["ts"]) <= NEAR]
        pairs += [(row["number"], other["number"]) for other in matches]
        if not matches:
            alone.append(row["number"])
    return sorted(pairs), alone
