"""State and checkpoint belong together: what happens when one is lost, older, foreign or copied."""

from __future__ import annotations

import random
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.spark import read_state, rewind_state
from evenflow.spark.state.batch import REQUESTS
from evenflow.spark.state.checkpoint import Checkpoint, UnreadableCheckpoint
from evenflow.spark.state.table import history
from evenflow.storage import open_storage
from evenflow.testing import wait_for
from extent import in_make_faults, long
from spark.processors import Counting
from spark.stateful_runs import ROWS, Sunk, cut, finish, held, numbers, start, totals
from spark.stream_files import write_batches

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

WAYS_OUT = ("restore", "too", "accept_gap=True", "start afresh")


class Query:
    """A query over numbered rows whose state and checkpoint can be copied and put back."""

    def __init__(self, spark: Any, folder: Path, **options: Any) -> None:
        self.spark, self.folder = spark, folder
        self.table = numbers(8)
        self.source = folder / "in"
        self.state, self.checkpoint = folder / "state", folder / "checkpoint"
        self.options = {"checkpoint": self.checkpoint, "order_by": "number", **options}
        self.written = 0
        self.sunk = Sunk()

    def feed(self, files: int = 1) -> None:
        new = cut(self.table)[self.written : self.written + files]
        write_batches(self.source, new, first=self.written)
        self.written += files

    def moved(self, folder: Path) -> Query:
        """Return a copy of the query in another folder, copies included, that reads the same files."""
        moved = Query(self.spark, folder, **{**self.options, "checkpoint": folder / "checkpoint"})
        moved.source, moved.written = self.source, self.written
        moved.sunk.calls = list(self.sunk.calls)
        shutil.copytree(self.folder, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("in"))
        return moved

    def run(self, **options: Any) -> Any:
        query = start(self.spark, self.folder, self.sunk, **self.settings(options))
        finish(query)
        return query

    def settings(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"source": self.source, **self.options, **options}

    def refused(self, **options: Any) -> str:
        """Start, and return the sentence by which that was refused before Spark ran anything."""
        before = files_of(self.folder)
        with pytest.raises(EvenflowError) as refusal:
            start(self.spark, self.folder, Sunk(), **self.settings(options))
        assert files_of(self.folder) == before
        said = str(refusal.value)
        assert all(way in said for way in WAYS_OUT), said
        assert said.count(". ") == 0
        return said

    def copy(self, name: str, *sides: str) -> None:
        for side in sides or ("state", "checkpoint"):
            shutil.copytree(self.folder / side, self.folder / name / side)

    def restore(self, name: str, *sides: str) -> None:
        for side in sides or ("state", "checkpoint"):
            shutil.rmtree(self.folder / side, ignore_errors=True)
            shutil.copytree(self.folder / name / side, self.folder / side)

    def forget_commit(self) -> None:
        """Have Spark run the last batch again."""
        last = max(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))
        for name in (f"{last}", f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink()

    def held(self) -> dict[Any, Any]:
        return held(read_state(self.spark, self.state))

    def expected(self, *files: int) -> dict[Any, Any]:
        chosen = files or range(self.written)
        return totals(pa.concat_tables([cut(self.table)[number] for number in chosen]))


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files that matter: not the lease, the log or the copies."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for top in ("state", "checkpoint", "other")
        for path in (folder / top).rglob("*")
        if path.is_file() and not {"_evenflow", "_lease"} & {*path.parts}
    }


def lose_log_entry(query: Query) -> dict[str, Any]:
    max((query.state / "_delta_log").glob("*.json")).unlink()
    return {}


def restore_older_state(query: Query) -> dict[str, Any]:
    query.restore("first", "state")
    return {}


def delete_state(query: Query) -> dict[str, Any]:
    shutil.rmtree(query.state)
    return {}


def another_state(query: Query) -> dict[str, Any]:
    return {"state": query.folder / "other"}


def delete_checkpoint(query: Query) -> dict[str, Any]:
    shutil.rmtree(query.checkpoint)
    return {}


def restore_older_checkpoint(query: Query) -> dict[str, Any]:
    query.restore("first", "checkpoint")
    return {}


LOST = r"is at batch 1, but the checkpoint .* continues with batch 3, so batch 2 would be missing"
OLDER = r"is at batch 0, but the checkpoint .* continues with batch 3, so batches 1 to 2 would be missing"
NO_STATE = r"there is no state at .* continues with batch 3, so batches 0 to 2 would be missing"
NEW = (
    r"is at batch 2 of query [0-9a-f-]{36}, but the checkpoint .* (is new|belongs to query \S+) and \w+s with"
)
AHEAD = r"is at batch 2, but the checkpoint .* continues with batch 1, which the state already includes"
# what is done, the sentence, the files in the state after accept_gap=True, what it records, the next batch
CASES: list[tuple[Callable[[Query], dict[str, Any]], str, list[int], Any, int]] = [
    (lose_log_entry, LOST, [0, 1, 3], [2, 2], 3),
    (restore_older_state, OLDER, [0, 3], [1, 2], 3),
    (delete_state, NO_STATE, [3], [0, 2], 3),
    (another_state, NO_STATE, [3], [0, 2], 3),
    (delete_checkpoint, NEW, [0, 1, 2, 0, 1, 2, 3], None, 3),
    (restore_older_checkpoint, AHEAD, [0, 1, 2, 1, 2, 3], None, 3),
]


@pytest.fixture(scope="module")
def three_batches(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Query:
    """A query after three batches, copied after the first and the last, with a fourth file to read."""
    query = Query(spark, tmp_path_factory.mktemp("query"), using=Counting())
    query.feed()
    query.run()
    query.copy("first")
    query.feed(2)
    query.run()
    query.copy("last")
    query.feed()
    return query


@pytest.mark.parametrize(
    ("spoil", "sentence", "left", "skipped", "batch"),
    [*CASES[:2], *(long(*case) for case in CASES[2:])],
    ids=[case[0].__name__ for case in CASES],
)
def test_what_does_not_belong_together_is_refused(
    spark: Any,
    three_batches: Query,
    tmp_path: Path,
    spoil: Callable[[Query], dict[str, Any]],
    sentence: str,
    left: list[int],
    skipped: Any,
    batch: int,
) -> None:
    query = three_batches.moved(tmp_path)
    if spoil is delete_checkpoint:
        query.options["checkpoint"] = f"file://{query.checkpoint}"
    changed = spoil(query)
    assert re.search(sentence, query.refused(**changed))
    shutil.rmtree(tmp_path / "other", ignore_errors=True)

    # with accept_gap=True it goes on, and says so in the commit and in the log
    accepted = query.run(accept_gap=True, **changed)
    root = changed.get("state", query.state)
    assert held(read_state(spark, root)) == query.expected(*left)
    gap = accepted.gaps()[0]
    assert (gap["batch"], gap["skipped"]) == (batch, skipped)
    assert re.search(sentence, gap["why"])
    assert [note["why"] for note in Control(root / "_evenflow").notes("gap")] == [gap["why"]]
    recorded = [committed.gap for _, committed in history(open_storage(root)) if committed.gap is not None]
    assert [(known["asked"], known["skipped"]) for known in recorded] == [(gap["asked"], skipped)]
    given = [number for number, _ in query.sunk.calls]
    assert given == sorted(given)  # a sink that skips what it has sees no number twice
    assert len(given) == len(set(given))
    query.run(**changed)  # from now on the two belong together
    assert len(accepted.gaps()) == 1
    if spoil is delete_checkpoint:
        restarted = [(known.batch, known.spark_batch) for _, known in history(open_storage(root))]
        assert restarted == [(6, 3), (5, 2), (4, 1), (3, 0), (2, 2), (1, 1), (0, 0)]

    # with the other one restored, too, nothing is lost and nothing doubled
    query.restore("last")
    query.run()
    assert query.held() == query.expected()


@pytest.mark.faults
@in_make_faults
def test_the_state_of_another_query(spark: Any, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.feed(2)
    query.run()
    query.run(state=tmp_path / "state2", checkpoint=tmp_path / "checkpoint2")
    said = query.refused(checkpoint=tmp_path / "checkpoint2")
    assert re.search(r"at batch 1 of query \S+, but the checkpoint \S+ belongs to query \S+ and", said)
    ids = re.findall("query ([0-9a-f-]{36})", said)
    assert len(ids) == len(set(ids)) == 2
    query.run()
    assert query.held() == query.expected()


@pytest.mark.faults
@in_make_faults
def test_the_same_number_with_other_rows(spark: Any, tmp_path: Path) -> None:
    """A copy was put back and went on with other batches: numbers fit, rows do not."""
    query = Query(spark, tmp_path)
    query.feed()
    query.run()
    query.copy("first")
    query.feed(4)
    query.run()
    query.copy("one by one")  # batch 4 is file 4
    query.restore("first")
    query.run(files=2)
    query.copy("two by two")  # batch 2 is files 3 and 4
    query.restore("one by one", "state")
    said = query.refused()
    assert "is at batch 4" in said
    assert "continues with batch 3" in said
    query.restore("two by two")
    query.feed()
    query.run()
    query.copy("four batches")
    query.feed()
    query.run()  # batch 4 is file 6
    query.restore("one by one", "state")
    assert "batch 4 of the checkpoint" in query.refused()
    assert "rewind_state" not in query.refused()  # the state never was where the checkpoint goes on
    query.restore("four batches", "checkpoint")  # Spark would make batch 4 anew
    assert "is at batch 4" in query.refused()


@pytest.mark.faults
@in_make_faults
def test_backups_of_either_side_mixed(spark: Any, tmp_path: Path) -> None:
    """Whatever is put together is refused, or its result is exact."""
    chance, query = random.Random(11), Query(spark, tmp_path)
    copies: list[str] = []

    def backed_up(name: str) -> None:
        query.copy(name)
        copies.append(name)

    query.feed()
    query.run()
    backed_up("a0")
    for number in range(1, 4):
        query.feed()
        query.run()
        backed_up(f"a{number}")
    query.restore("a0")
    query.run(files=2)
    backed_up("b2")  # files 0, 1+2, 3
    query.restore("a1")
    query.run(files=2)
    backed_up("c2")  # files 0, 1, 2+3
    query.feed(2)
    together = [(name, name) for name in copies]
    apart = [(one, other) for one in copies for other in copies if one != other]
    exact = 0
    for state, checkpoint in [*together, *chance.sample(apart, 14)]:
        query.restore(state, "state")
        query.restore(checkpoint, "checkpoint")
        forget_commit = chance.random() < 0.4 and state == checkpoint
        if forget_commit:  # killed before Spark wrote it down: the last batch comes again
            query.forget_commit()
        said = outcome(query, chance.choice([1, 2]))
        if said is None:
            exact += 1
            assert query.held() == query.expected(), (state, checkpoint)
        else:
            assert state != checkpoint, said
            assert all(way in said for way in WAYS_OUT), said
    assert exact >= len(together)


def outcome(query: Query, files: int) -> str | None:
    """Run; return why that was refused, if it was."""
    try:
        query.run(files=files)
    except EvenflowError as refusal:
        return str(refusal)
    return None


def vanishing(source: str, target: str) -> None:
    """Copy a file unless it has been removed meanwhile."""
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        return


def copy_running(source: Path, target: Path) -> None:
    ignored = shutil.ignore_patterns("_last_checkpoint")
    shutil.copytree(source, target, copy_function=vanishing, ignore=ignored)


STATE = ("state/_delta_log", "state/data", "state/_outputs")


@pytest.mark.parametrize(
    "order",
    [long(("checkpoint", *STATE), id="safe"), long((*STATE, "checkpoint"), id="unsafe")],
)
def test_a_backup_of_a_running_query(spark: Any, tmp_path: Path, order: tuple[str, ...]) -> None:
    """Checkpoint first: the state has what the checkpoint needs and can go back to it. Else it never has."""
    query, stopping = Query(spark, tmp_path), threading.Event()
    query.table = numbers(60)
    query.feed()
    running = start(spark, tmp_path, query.sunk, **query.options)

    def feeding() -> None:
        while not stopping.wait(0.05) and query.written < 59:  # one is left for the copy
            if query.written <= last_batch(query.state) + 2:  # a file ahead: the query never waits, nor lags
                query.feed()

    feeder = threading.Thread(target=feeding)
    feeder.start()
    try:
        for part in order:
            wait_for(batches_more(query.state, 2), "two more batches")
            copy_running(tmp_path / part, tmp_path / "copy" / part)
        wait_for(batches_more(query.state, 1), "another batch")
    finally:
        stopping.set()
        feeder.join()
    finish(running)
    assert query.held() == query.expected()  # the query that was copied takes no notice

    copy = tmp_path / "copy"
    there = {"state": copy / "state", "checkpoint": copy / "checkpoint", "source": tmp_path / "in"}
    said = query.refused(**there)
    if order[0] != "checkpoint":
        assert "would be missing" in said
        assert "rewind_state" not in said
        return
    found = re.search(r"call rewind_state\('(.*)', batch=(\d+)\)", said)
    assert found is not None, said
    batch = int(found[2])
    rewind_state(found[1], batch)
    assert held(read_state(spark, copy / "state", batch)) == query.expected(*range(batch + 1))
    with pytest.raises(EvenflowError, match=f"batch is {batch + 1}, .* 0 to {batch}"):
        read_state(spark, copy / "state", batch + 1)
    query.feed()
    query.run(**there)
    assert held(read_state(spark, copy / "state")) == query.expected()


def last_batch(root: Path) -> int:
    return next((committed.batch for _, committed in history(open_storage(root))), -1)


def batches_more(root: Path, more: int) -> Callable[[], bool]:
    before = last_batch(root)
    return lambda: last_batch(root) >= before + more


def test_rewinding(spark: Any, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    with pytest.raises(EvenflowError, match="there is no state"):
        rewind_state(query.state, 0)
    query.feed()
    query.run()
    query.copy("first")
    query.feed(2)
    query.run()
    with pytest.raises(EvenflowError, match=r"batch is 7, .* 0, 1, 2"):
        rewind_state(query.state, 7)
    rewind_state(query.state, 2)  # is there already
    rewind_state(query.state, 0)
    assert "so batches 1 to 2 would be missing" in query.refused()
    query.restore("first", "checkpoint")
    query.feed()
    query.run(files=3)
    assert query.held() == query.expected()
    assert [(known.batch, known.spark_batch) for _, known in history(open_storage(query.state))][:2] == [
        (1, 1),
        (0, 0),
    ]
    assert [note["undone"] for note in Control(query.state / "_evenflow").notes("rewound")] == [2]


@pytest.mark.faults
@in_make_faults
def test_a_checkpoint_on_another_file_system(spark: Any, tmp_path: Path) -> None:
    """It is read through Spark, which alone knows where it is."""
    spark.conf.set("fs.viewfs.mounttable.evenflow.link./data", f"file://{tmp_path}")
    query = Query(spark, tmp_path, checkpoint="viewfs://evenflow/data/checkpoint")
    query.feed(2)
    query.run()
    query.copy("first")
    query.feed()
    query.run()
    committed = next(history(open_storage(query.state)))[1]
    assert f'"id":"{committed.query}"' in (query.checkpoint / "metadata").read_text()
    local = Checkpoint(str(query.checkpoint), spark)
    assert committed.offsets == local.digest(2)
    query.restore("first", "state")
    assert "is at batch 1, but the checkpoint viewfs://evenflow/data/checkpoint" in query.refused()
    query.restore("first")
    query.forget_commit()
    query.run()
    assert query.held() == query.expected()
    shutil.rmtree(query.checkpoint)
    assert "is new and starts with batch 0" in query.refused()


def test_a_checkpoint_that_cannot_be_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the batches' numbers are compared, and the log says that no more was."""

    def unreadable(*_: Any) -> Iterator[Any]:
        raise UnreadableCheckpoint("no permission")

    query = Query(spark, tmp_path, control=tmp_path / "control")
    query.feed()
    query.run()
    query.copy("first")
    query.feed(2)
    query.run()
    for method in ("query", "digest", "next_batch"):
        monkeypatch.setattr(Checkpoint, method, unreadable)
    query.feed()
    query.run()
    assert query.held() == query.expected()
    assert {note["why"] for note in Control(tmp_path / "control").notes("unchecked")} == {"no permission"}
    query.restore("first", "state")
    query.feed()
    with pytest.raises(
        Exception, match=r"is at batch 0, but .* continues with batch 4, so batches 1 to 3 would"
    ):
        query.run()


def test_a_log_entry_lost_while_the_query_runs(spark: Any, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.feed()
    running = start(spark, tmp_path, query.sunk, **query.options)
    try:
        running.processAllAvailable()
        lose_log_entry(query)
        query.feed()
        with pytest.raises(Exception, match=r"version 1 of the state at .* has disappeared"):
            running.processAllAvailable()
    finally:
        running.stop()


def test_a_state_without_a_batch_fits_a_checkpoint_without_one(spark: Any, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    (tmp_path / "in").mkdir()
    query.run()
    assert list(history(open_storage(query.state))) == []
    query.run()  # a checkpoint with an id and no batch
    shutil.rmtree(query.checkpoint)
    query.feed()
    query.run(trigger={"availableNow": True})
    assert query.held() == query.expected()


def test_damaged_logs_are_named(spark: Any, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.feed(2)
    query.run()
    (query.state / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(EvenflowError, match=r"_delta_log directory of the state at .* missing or damaged"):
        start(spark, tmp_path, Sunk(), **query.options)


@pytest.mark.parametrize("running", [False, True], ids=["at the start", "before the first batch"])
def test_nothing_is_swept_before_the_two_are_compared(spark: Any, tmp_path: Path, running: bool) -> None:
    """An old log put over newer data is refused, and the newer log can be put back."""
    query = Query(spark, tmp_path, keep="0 seconds")
    query.feed()
    query.run()
    query.copy("first")
    query.feed()
    query.run()
    query.copy("last")
    if running:
        waiting = start(spark, tmp_path, query.sunk, **query.options)
        waiting.processAllAvailable()  # compared at the start, and no batch yet
    put_log_back(query, "first")
    before = {name for name in files_of(tmp_path) if name.startswith("state/data")}
    assert before
    if running:
        query.feed()
        with pytest.raises(Exception, match=r"version 2 of the state at .* has disappeared"):
            waiting.processAllAvailable()
        waiting.stop()
    else:
        query.refused()
    assert {name for name in files_of(tmp_path) if name.startswith("state/data")} == before
    put_log_back(query, "last")
    query.feed()
    query.run()
    assert query.held() == query.expected()


def put_log_back(query: Query, name: str) -> None:
    shutil.rmtree(query.state / "_delta_log")
    shutil.copytree(query.folder / name / "state" / "_delta_log", query.state / "_delta_log")


def test_staged_outputs_that_are_gone(spark: Any, tmp_path: Path) -> None:
    """A batch that is emitted again without its outputs would lose them in silence."""
    query = Query(spark, tmp_path)
    query.feed(2)
    query.run()
    for path in (query.state / "_outputs").glob(f"{1:010}-*"):
        path.unlink()
    query.forget_commit()
    with pytest.raises(Exception, match=r"staged output .* is missing; .* rewind_state\('.*', batch=0\)"):
        query.run()
    rewind_state(query.state, 0)
    query.run()
    assert query.held() == query.expected()
    assert query.sunk.calls[-1] == query.sunk.calls[1]


@pytest.mark.faults
@in_make_faults
def test_requests_for_workers_of_other_clocks_and_states(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request counts although the clock went back; one for a state that is gone does not."""
    query = Query(spark, tmp_path, control=tmp_path / "control")
    query.feed()
    query.run().rescale(4)
    older = tmp_path / "older"
    shutil.copy(tmp_path / "control" / REQUESTS, older)
    query.feed()
    running = query.run()
    assert running.loads().workers == 4
    with monkeypatch.context() as clock:
        clock.setattr("evenflow.spark.state.requests.time.time_ns", lambda: 1_000)
        running.rescale(2)
    query.feed()
    assert query.run().loads().workers == 2
    older.rename(tmp_path / "control" / REQUESTS)  # an older control directory was restored
    query.feed()
    assert query.run().loads().workers == 2
    assert Control(tmp_path / "control").read(REQUESTS, REQUESTS) is not None
    shutil.rmtree(query.state)
    shutil.rmtree(query.checkpoint)
    again = query.run(workers=5)
    assert again.loads().workers == 5
    assert sum(1 for note in Control(tmp_path / "control").notes("batch") if note["batch"] == 0) == 2
    assert sum(again.loads().rows) == ROWS
