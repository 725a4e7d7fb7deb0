"""State files without Spark: the newest row of a key is found, whatever shares its hash or its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.plan import Plan, bucket_of, make_plan
from evenflow.spark import KeyedProcessor
from evenflow.spark.grouped.runs import Layout
from evenflow.spark.state import files as state_files
from evenflow.spark.state.batch_time import BatchTime
from evenflow.spark.state.compaction import needed_by, runs_to_merge
from evenflow.spark.state.files import (
    Cache,
    DamagedFile,
    StateFile,
    StateReader,
    newest_rows,
    read_footer,
    write_state,
)
from evenflow.spark.state.owner_lookup import STATE_BUCKETS, Owners
from evenflow.spark.state.schema import EXPIRES, StateLayout
from evenflow.spark.state.worker_task import Task, TaskSpec
from evenflow.storage import locate, open_storage

LAYOUT = StateLayout(pa.schema([("k", pa.int64())]), pa.schema([("v", pa.int64())]))


def rows(batch: int, entries: list[tuple[int, int, int | None]]) -> pa.Table:
    """Return rows of (hash, key, value); None: forgotten."""
    ordered = sorted(entries)
    return pa.table(
        [
            pa.array([key for _, key, _ in ordered], pa.int64()),
            pa.array([value for _, _, value in ordered], pa.int64()),
            pa.array([hashed for hashed, _, _ in ordered], pa.int64()),
            pa.array([batch] * len(ordered), pa.int64()),
            pa.nulls(len(ordered), pa.timestamp("us", "UTC")),
            pa.array([value is None for _, _, value in ordered]),
        ],
        schema=LAYOUT.schema,
    )


# few hashes, so that keys share them, at both ends of their range
HASHES = st.sampled_from([-(2**63), -5, -4, 0, 1, 2**62, 2**63 - 1])
KEYS = st.tuples(HASHES, st.integers(0, 3))
BATCHES = st.lists(st.dictionaries(KEYS, st.none() | st.integers(0, 99), min_size=1), min_size=1, max_size=4)


@given(BATCHES, st.integers(1, 4))
def test_the_newest_row_of_a_key_is_found(batches: list[dict[Any, Any]], piece: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_files, "GROUP_ROWS", piece)
        root, files = open_storage(folder), []
        expected: dict[Any, Any] = {}
        for number, batch in enumerate(batches):
            table = rows(number, [(hashed, key, value) for (hashed, key), value in batch.items()])
            files.append(write_state(root, table, number, number, 0))
            expected |= batch
        asked = sorted({*expected, (7, 7), (0, 9)})
        hashes = np.array([hashed for hashed, _ in asked], np.int64)
        keys = [pa.array([key for _, key in asked], pa.int64())]
        for limit in (0, 1 << 20):
            found = StateReader(root, files, ["k"], Cache(limit)).find(hashes, keys).states(["v"])
            assert found == [None if expected.get(one) is None else (expected[one],) for one in asked]
        every = StateReader(root, files, ["k"], Cache(0)).newest(None, lambda some: np.ones(some.size, bool))
        assert every is not None
        got = zip(*(every.column(name).to_pylist() for name in ("__evenflow_hash", "k", "v")), strict=True)
        assert sorted(got, key=str) == sorted(((*one, value) for one, value in expected.items()), key=str)


def test_what_the_footer_says(tmp_path: Path) -> None:
    table = rows(3, [(-1, 1, 10), (5, 2, None)])
    times = pa.array([None, 77], pa.int64()).cast(pa.timestamp("us", "UTC"))
    written = write_state(open_storage(tmp_path), table.set_column(4, "__evenflow_until", times), 2, 3, 1)
    assert read_footer(open_storage(tmp_path), written.name, written.bytes) == written
    assert (written.rows, written.first, written.last, written.worker, written.earliest) == (2, 2, 3, 1, 77)
    assert np.flatnonzero(written.buckets).tolist() == [0, STATE_BUCKETS - 1]


def test_damage_is_seen(tmp_path: Path) -> None:
    written = write_state(
        open_storage(tmp_path), rows(0, [(hashed, hashed, 1) for hashed in range(5000)]), 0, 0, 0
    )
    path = tmp_path / written.name
    content = path.read_bytes()

    def look() -> None:
        reader = StateReader(open_storage(tmp_path), [written], ["k"], Cache())
        reader.find(np.arange(5000), [pa.array(range(5000))]).states(["v"])

    look()
    path.write_bytes(content[:2000] + b"\x00\xff" * 8 + content[2016:])
    with pytest.raises(DamagedFile):
        look()
    path.write_bytes(content[:-10])
    with pytest.raises(DamagedFile, match="bytes"):
        look()
    path.unlink()
    with pytest.raises(DamagedFile, match="missing"):
        look()


@given(st.integers(1, 9), st.integers(0, 2**32), st.integers(1, 9))
def test_owners_are_those_of_the_plan(workers: int, seed: int, others: int) -> None:
    random = np.random.default_rng(seed)
    hashes = random.integers(0, 2**64, 300, np.uint64, endpoint=False)
    plans = [
        make_plan(number, hashes[:40], random.integers(1, 1000, 40), total=40_000, split=False)
        for number in (workers, others)
    ]
    assert (bucket_of(hashes.view(np.int64), 77) == bucket_of(hashes, 77)).all()
    one, other = map(Owners.of, plans)
    homes = one.of_hashes(hashes.view(np.int64))
    assert (homes == plans[0].route(hashes, np.zeros(300))).all()
    moved = homes != other.of_hashes(hashes.view(np.int64))
    buckets = bucket_of(hashes.view(np.int64), STATE_BUCKETS)
    assert one.moved_buckets(other)[buckets[moved]].all()
    for worker in range(workers):
        assert one.state_buckets(worker)[buckets[homes == worker]].all()


def fake(first: int, last: int, count: int, buckets: Any = ()) -> StateFile:
    import base64

    bits = np.zeros(STATE_BUCKETS, bool)
    bits[list(buckets)] = True
    packed = base64.b85encode(np.packbits(bits).tobytes()).decode()
    return StateFile(f"{first}-{last}", 1, count, first, last, 0, None, packed)


def test_rows_are_written_again_seldom() -> None:
    """Thousand batches of a hundred rows: few runs at any time, each row written again a few times."""
    files: list[StateFile] = []
    again = 0
    for batch in range(1000):
        files.append(fake(batch, batch, 100))
        if chosen := runs_to_merge(files):
            size = sum(file.rows for file in chosen)
            first, last = min(file.first for file in chosen), max(file.last for file in chosen)
            assert sum(file.last - file.first + 1 for file in chosen) == last - first + 1  # no gap in time
            again += size
            files = [file for file in files if file not in chosen] + [fake(first, last, size)]
        assert len(files) <= 16
    assert again <= 8 * 100_000


def test_a_worker_needs_the_files_of_its_buckets() -> None:
    plan = Plan(
        workers=2,
        buckets=(np.arange(4096) >= 2048).astype(np.int32),
        keys=np.array([1 << 52], np.uint64),  # in bucket 1, with its home on worker 1
        weights=np.array([0.5]),
        starts=np.array([0, 1]),
        homes=np.array([1], np.int32),
        parts=np.ones(1),
        expected=np.array([0.5, 0.5]),
    )
    owners = Owners.of(plan)
    files = [fake(0, 0, 1, [1]), fake(1, 1, 1, [2]), fake(2, 2, 1, [4000]), fake(3, 3, 1, [2, 4000])]
    assert needed_by(files, owners) == ((0, 1, 3), (0, 2, 3))
    assert needed_by([], owners) == ((), ())


def test_newest_rows_of_keys_that_share_a_hash() -> None:
    table = pa.concat_tables([rows(0, [(1, 1, 10), (1, 2, 20)]), rows(1, [(1, 1, 11)])])
    assert newest_rows(table, ["k"]).column("v").to_pylist() in ([11, 20], [20, 11])


def test_merged_files_leave_the_memory(tmp_path: Path) -> None:
    files = [
        write_state(open_storage(tmp_path / name), rows(0, [(1, 1, 1)]), 0, 0, 0) for name in ("a", "b", "b")
    ]
    cache = Cache()
    for name, file in zip(("a", "b", "b"), files, strict=True):
        cache.row_group(open_storage(tmp_path / name), file, 0)
    size = cache.bytes
    cache.retain(open_storage(tmp_path / "b"), files[2:])
    assert [Path(where).name for where, _ in cache.row_groups] == [Path(files[n].name).name for n in (0, 2)]
    assert cache.bytes == size * 2 // 3


class Silent(KeyedProcessor):
    """Adds up; a key that expires is forgotten."""

    state = "v long"

    def start(self, key: Any) -> Any:
        return {"v": 0}

    def process(self, key: Any, state: Any, rows: Any) -> Any:
        return {"v": state["v"] + rows.num_rows}, []

    def expire(self, key: Any, state: Any) -> Any:
        return None, [(key,)]


def test_a_key_expires_although_another_with_its_hash_had_rows(tmp_path: Path) -> None:
    table = rows(0, [(5, 1, 10), (5, 2, 20), (6, 3, 30)])
    due = pa.array([1, 1, 1], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.schema.get_field_index(EXPIRES), EXPIRES, due)
    file = write_state(open_storage(tmp_path), table, 0, 0, 0)
    work = TaskSpec(
        processor=Silent(),
        name="Silent",
        root=locate(tmp_path),
        epoch=1,
        batch=1,
        layout=Layout(keys=(0, 1), key_names=("hash", "k"), rows=(1,), row_names=("k",)),
        state=LAYOUT,
        output=pa.schema([("k", pa.int64())]),
        owners=Owners.of(make_plan(1, np.zeros(0, np.uint64), [], total=1, split=False)),
        before=None,
        files=(file,),
        needed=((0,),),
        time=BatchTime("processing", 100),
    )
    arrived = pa.record_batch({"h": pa.array([5, 5], pa.int64()), "k": pa.array([1, 1], pa.int64())})
    done = Task(work, 0).run([arrived])
    assert (done.touched, done.expired, done.forgotten) == (3, 2, 2)
    assert done.state is not None
    kept = StateReader(open_storage(tmp_path), [done.state, file], ["k"])
    found = kept.find(np.array([5, 5, 6]), [pa.array([1, 2, 3], pa.int64())]).states(["v"])
    assert found == [(12,), None, None]
