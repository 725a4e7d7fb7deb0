"""Plans of two streams that change while a query runs: two rows that match meet in exactly one cell.

Rows are placed here as the SQL of :mod:`evenflow.spark.joining.streamed_side` does it, without Spark: batches
that run again, rows that come late, and any plan at any time. What Spark returns is tested in
``test_join_streams``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow import EvenflowError
from evenflow.plan import JoinPlan, make_join_plan
from evenflow.plan.counted import Counted
from evenflow.plan.join_build import unevenness
from evenflow.spark.joining import plan_versions
from evenflow.spark.joining.hot_keys import MicroBatch
from evenflow.spark.joining.join_keys import partition_of
from evenflow.spark.joining.join_replanner import StreamsReplanner
from evenflow.spark.joining.plan_versions import MAX_VERSIONS, PlanVersions, Reach
from evenflow.spark.joining.stream_plans import StreamPlans, empty_plan
from evenflow.spark.replanning.batch_stats import BatchStats
from evenflow.storage import Entry, Storage, open_storage
from extent import ALL
from storage.s3_server import S3Server

SECOND = 1_000_000
WORKERS = 4
KEYS = np.array([11, 2**63 + 5], np.uint64)


class Row(NamedTuple):
    key: int
    time: int
    draw: float
    cells: list[int]


def grids(rng: Any, divided: str | None) -> JoinPlan:
    """Return a plan in which each key may be hot, with any grid that fits."""
    keys = KEYS[rng.random(KEYS.size) < 0.7]
    shapes = [(1, 1), (2, 1), (4, 1), (1, 3), (2, 2)]
    chosen = [shapes[number] for number in rng.integers(0, len(shapes), keys.size)]
    homes = [rng.permutation(WORKERS)[: r * c] for r, c in chosen]
    rows, pieces = np.ones(keys.size), np.array(chosen, np.int32).reshape(-1, 2)
    plan = JoinPlan(
        WORKERS, keys, rows, rows, rows, pieces[:, 0].copy(), pieces[:, 1].copy(),
        np.concatenate([np.zeros(0), *homes]).astype(np.int32), np.full(WORKERS, 1 / WORKERS), (1.0, 1.0),
    )  # fmt: skip
    return plan.without_copies(left=divided == "left", right=divided == "right")


def cells_of(spans: dict[int, Any], key: int, draw: float, first: int, last: int) -> list[int]:
    """Return where a row goes whose plans are those that are valid from ``first`` to ``last``."""
    own = int(np.uint64(key).view(np.int64))
    found: dict[int, None] = {}
    for span in spans.get(key, []):
        if span.start <= last and first < span.stop:
            at = int(draw * span.pieces) * span.copies
            found |= dict.fromkeys(span.cells[at : at + span.copies])
    return list(found) if key in spans else [own]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@settings(max_examples=300 if ALL else 60)
@given(
    reach=st.tuples(st.integers(-60, 30), st.integers(0, 60)).map(lambda r: Reach(r[0], r[0] + r[1])),
    divided=st.sampled_from([None, "left", "right"]),
    seed=st.integers(0, 2**32),
    pace=st.integers(0, 40),
)
def test_rows_that_match_meet_once(reach: Reach, divided: str | None, seed: int, pace: int) -> None:
    rng = np.random.default_rng(seed)
    reach = Reach(reach.least * SECOND, reach.most * SECOND)
    with tempfile.TemporaryDirectory() as path:
        plans = StreamPlans(path, "join", WORKERS, divided)
        versions = PlanVersions(plans, grids(rng, divided), divided or "left", reach)
        kept: dict[str, list[Row]] = {"left": [], "right": []}
        watermark = latest = None
        for number in range(8):
            late, watermark = watermark, latest
            times = {
                side: (pace * number + rng.integers(-60, 60, 4)) * SECOND + rng.integers(0, SECOND, 4)
                for side in kept
            }
            for _ in range(1 + int(rng.random() < 0.2)):
                batch = MicroBatch("query", number)
                rows = arrived(versions, batch, times, reach, late, seed)
            for side in kept:
                kept[side] += rows[side]
            if rng.random() < 0.8:
                plans.write(number, grids(rng, divided), query="query", batch=number, watermark=watermark)
            latest = max(latest or -(10**18), min(int(own.max()) for own in times.values()) - 20 * SECOND)
    ours, others = (kept[versions.placed], kept["right" if versions.placed == "left" else "left"])
    for row in ours:
        for other in others:
            if row.key == other.key and reach.least <= row.time - other.time <= reach.most:
                assert len(set(row.cells) & set(other.cells)) == 1


def arrived(
    versions: PlanVersions, batch: MicroBatch, times: Any, reach: Reach, late: int | None, seed: int
) -> dict[str, list[Row]]:
    """Return the rows of a batch that are not late, with their cells."""
    found: dict[str, list[Row]] = {}
    rng = np.random.default_rng(seed + batch.batch)
    for side in rng.permutation(["left", "right"]).tolist():
        spans = plan_versions.spans_of(versions.of_batch(batch), side)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(MicroBatch, "current", staticmethod(lambda: batch))
            marked = versions.mark(side)(pa.array(times[side]))
        found[side] = []
        for time in marked.to_pylist():
            key, draw = int(rng.choice(KEYS)), float(rng.random())
            least, most = (0, 0) if side == versions.placed else reach
            row = Row(key, time, draw, cells_of(spans, key, draw, time + least, time + most))
            if late is None or time > late:
                found[side].append(row)
    return found


def test_cells_are_on_their_workers() -> None:
    """Also those of later plans, which are other cells on the same workers."""
    rng = np.random.default_rng(3)
    seen: set[int] = set()
    for number in range(1, 4):
        plan = grids(rng, None)
        content = plan_versions._claim([], number, 0, plan, None)
        for side in ("left", "right"):
            version = plan_versions.Version(number, 0, plan, np.array(content["generations"]))
            homes = (plan.left if side == "left" else plan.right).homes
            spans = plan_versions.spans_of([version], side)
            found = [cell for key in plan.keys.tolist() for cell in spans[key][0].cells]
            assert partition_of(np.array(found, np.int64), WORKERS).tolist() == homes.tolist()
        assert not seen & set(found)
        seen |= set(found)


def test_plans_wait_for_their_time_and_are_forgotten(folder: Path) -> None:
    """At most 16 are valid at a time; the watermark ends the first ones, and old claims are removed."""
    rng = np.random.default_rng(1)
    plans = StreamPlans(str(folder), "join", WORKERS)
    versions = PlanVersions(plans, empty_plan(WORKERS), "left", Reach(-SECOND, SECOND))
    lists = []
    for number in range(150):
        batch = MicroBatch("query", number)
        lists.append([version.serial for version in versions.of_batch(batch)])
        if number > 2:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(MicroBatch, "current", staticmethod(lambda batch=batch: batch))
                versions.mark("left")(pa.array([number * SECOND]))
        passed = (number - 5) * SECOND if number > 60 else None
        plans.write(number, grids(rng, None), query="query", batch=number, watermark=passed)
        versions.forget_claims("query", number)
    assert lists[3] == [0]  # no row was seen yet
    assert lists[4] == [0, 4]
    assert max(map(len, lists)) == MAX_VERSIONS == len(lists[60])
    assert 5 <= len(lists[-1]) <= 8
    assert lists[-1][0] > 140
    kept = sorted(int(path.stem) for path in (folder / "join" / "query").glob("*.claim"))
    assert kept[-100:] == list(range(50, 150))
    assert kept[:-100] == [number for number in lists[49] if number < 49] + [49]
    again = MicroBatch("query", 60)
    assert [version.serial for version in versions.of_batch(again)] == lists[60]
    seen = [path for path in (folder / "join" / "query" / "seen").iterdir() if path.name[0] != "."]
    assert len(seen) == 1


def test_a_listing_that_lags_hides_no_plan(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims and times are read by their names: an object store may show new ones late."""
    rng = np.random.default_rng(2)
    place = moto.bucket() / "control"
    plans = StreamPlans(place, "join", WORKERS)
    versions = PlanVersions(plans, empty_plan(WORKERS), "left", Reach(-SECOND, SECOND))
    listed, lists = list[str](), []

    def lagging(self: Storage, below: str = "") -> list[Entry]:
        listed.append(below)
        return []

    monkeypatch.setattr(type(open_storage(place)), "entries", lagging)
    for number in (0, 1, 2, 3, 7, 8, 16, 32):  # batches without rows make no claims
        batch = MicroBatch("query", number)
        lists.append([version.serial for version in versions.of_batch(batch)])
        monkeypatch.setattr(MicroBatch, "current", staticmethod(lambda batch=batch: batch))
        for side, time in (("left", 10 * number), ("right", 10 * number + 5), ("left", 10 * number - 5)):
            versions.mark(side)(pa.array([time * SECOND]))
        plans.write(number, grids(rng, None), query="query", batch=number, watermark=None)
    assert lists[-1][:2] == [0, 1]
    assert listed == []
    starts = [version.start for version in versions.of_batch(batch)]
    added = (0, 1, 2, 3, 7, 8, 16)
    assert starts[1:] == [(10 * number + 6) * SECOND + 1 for number in added][-len(starts) + 1 :]


@pytest.mark.parametrize("last", [0, 3, 31, 32, 60, 95])
def test_claims_are_found_by_name_after_many_batches_without_rows(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """Nothing is listed, and what is looked for does not grow with the batches that had no rows."""
    rng = np.random.default_rng(2)
    place = moto.bucket() / "control"
    plans = StreamPlans(place, "join", WORKERS)
    versions = PlanVersions(plans, empty_plan(WORKERS), "left", Reach(-SECOND, SECOND))
    with_rows = sorted({0, 2, last // 2, last})
    for number in with_rows:
        batch = MicroBatch("query", number)
        before = [version.serial for version in versions.of_batch(batch)]
        monkeypatch.setattr(MicroBatch, "current", staticmethod(lambda batch=batch: batch))
        versions.mark("left")(pa.array([10 * number * SECOND]))
        plans.write(number, grids(rng, None), query="query", batch=number, watermark=None)
    plans.control.storage.delete([plans.file])  # so that no plan is added
    if last > 32:  # a batch failed between its file and its claim
        versions._note_block("join/query", 70 + 32 * (last // 32), last)
    for later in (last + 33, last + 500, 10**6):
        moto.requests.clear()
        found = versions.of_batch(MicroBatch("query", later))
        assert [version.serial for version in found] == before
        assert not [path for _, path in moto.requests if "list-type" in path]
        assert len(moto.requests) < 3 * 32 + 20
        plans.control.storage.delete([f"join/query/{later}.claim"])
    plans.control.storage.put("join/query/last", b"damaged")
    with pytest.raises(EvenflowError, match="query/last is missing or damaged"):
        versions.of_batch(MicroBatch("query", 10**6))


def test_lost_or_damaged_claims_are_a_sentence(folder: Path) -> None:
    versions = PlanVersions(
        StreamPlans(str(folder), "join", WORKERS), empty_plan(WORKERS), "left", Reach(0, SECOND)
    )
    batches = [MicroBatch("query", number) for number in range(3)]
    for batch in batches[:2]:
        versions.of_batch(batch)
    (folder / "join" / "query" / "1.claim").write_bytes(b"half")
    for batch in batches[1:]:
        with pytest.raises(EvenflowError, match="put it back, or start with a new checkpoint"):
            versions.of_batch(batch)
    with pytest.raises(EvenflowError, match="which query they belong to"):
        versions.of_batch(MicroBatch("", 0))
    seen = folder / "join" / "query" / "seen"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MicroBatch, "current", staticmethod(lambda: batches[0]))
        versions.mark("left")(pa.array([5]))
        (seen / "left").write_bytes((seen / "left").read_bytes()[:-3])
        with pytest.raises(EvenflowError, match=r"seen/left is damaged, .*; put it back"):
            versions.mark("left")(pa.array([5]))
        shutil.rmtree(seen)
        seen.write_text("in the way")
        with pytest.raises(EvenflowError, match="could not be changed safely; make room there"):
            versions.mark("left")(pa.array([5]))


def test_a_claim_that_another_task_makes_meanwhile_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task finds no claim, and another one makes it before the first looks again."""
    versions = PlanVersions(
        StreamPlans(str(folder), "join", WORKERS), empty_plan(WORKERS), "left", Reach(0, SECOND)
    )
    batches = [MicroBatch("query", number) for number in range(2)]
    expected = [[version.serial for version in versions.of_batch(batch)] for batch in batches]
    read, reads = PlanVersions._read, []

    def late(self: PlanVersions, folder: str, number: int) -> Any:
        reads.append(number)
        return None if len(reads) == 1 else read(self, folder, number)

    monkeypatch.setattr(PlanVersions, "_read", late)
    assert [version.serial for version in versions.of_batch(batches[1])] == expected[1]


def test_a_new_hot_key_gets_a_plan_and_a_cooled_one_loses_it(folder: Path) -> None:
    """Small changes do not replace the plan, since rows that wait would have to be copied for it."""
    plans = StreamPlans(str(folder), "join", WORKERS)
    replanner = StreamsReplanner(plans, "inner", empty_plan(WORKERS))
    keys, written = KEYS.tolist(), []
    for number, hot in enumerate([0, 0, 0, 1, 1]):
        for side, rows in (("left", 4000 + 10 * number), ("right", 2000)):
            stats = BatchStats(
                number, float(rows), np.array([keys[hot]], np.uint64), np.array([rows * 0.4]),
                np.zeros(WORKERS, np.int64), np.zeros(WORKERS, np.int64), 500, 500, None, None, "query", 5,
            )  # fmt: skip
            replanner.side(side).learn(stats)
        learned = plans.learned()
        assert learned is not None
        assert (learned.query, learned.batch, learned.watermark) == ("query", number, 5)
        written.append((replanner.serial, learned.plan.keys.tolist()))
    first, second = [keys[0]], [keys[1]]
    assert [keys for _, keys in written] == [first, first, first, second, second]
    assert written[0] == written[2]
    assert written[3] == written[4]


def test_unevenness_of_a_plan_is_what_it_expects() -> None:
    left, right = (Counted(KEYS, np.array([rows, 50.0]), 3000.0, None, 300) for rows in (1500.0, 400.0))

    def hashed(keys: Any) -> Any:
        return np.zeros(keys.size, np.int32)

    plan = make_join_plan(WORKERS, left, right)
    assert unevenness(plan, left, right, "inner", hashed) == pytest.approx(plan.max_over_mean, abs=0.01)
    assert unevenness(empty_plan(WORKERS), left, right, "inner", hashed) > 3.5
