"""The pipeline of `evenflow run`: sources, apps, sink, going on from a checkpoint, and a clean stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.apps import parse_app
from evenflow.runner.pipeline import Job, Progress, run
from evenflow.runner.sources import open_input
from evenflow.spark.replanning.batch_stats import BatchStats
from evenflow.storage import open_storage
from evenflow.streams import Zipf
from evenflow.testing import wait_for
from extent import long
from spark.stream_files import read_batches, write_batches
from storage.s3_server import S3Server

pytestmark = pytest.mark.spark


class StopAfter:
    """Watches a run and stops it when enough batches are done, as Ctrl-C would."""

    def __init__(self, batches: int):
        self.batches = batches

    def __call__(self, seen: Progress) -> None:
        if seen.batches >= self.batches:
            raise KeyboardInterrupt


def silent(seen: Progress) -> None:
    """Watch without a word."""


def opened(spark: Any, source: str, *key: str) -> Any:
    return open_input(spark, source, list(key), rate=100, rows_per_batch=500)


def test_words_of_a_text_are_counted(spark: Any, tmp_path: Path) -> None:
    text = "To be, or not to be: that's the question.\n"
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text(text * (number + 1))
    source = opened(spark, str(tmp_path / "in"))
    job = Job(source, parse_app("count"), 3, ef.scheme("fill"), sink=str(tmp_path / "out"))
    seen = run(job, silent)
    assert seen.batches == 3
    assert seen.total == 9 * 6
    assert seen.view["top"][:2] == [{"key": "be", "rows": 12}, {"key": "to", "rows": 12}]
    written = spark.read.parquet(str(tmp_path / "out")).groupBy("word").max("rows").collect()
    expected = Counter(["to", "be", "or", "not", "to", "be", "that's", "the", "question"])
    assert {row[0]: row[1] for row in written} == {word: 6 * count for word, count in expected.items()}


def test_a_generator_comes_in_ten_batches_unless_told_otherwise(spark: Any) -> None:
    source = "zipf:z=1,keys=100,messages={}"
    assert open_input(spark, source.format(995), []).batches == 10
    assert open_input(spark, source.format(3), []).batches == 3
    assert open_input(spark, source.format("2e6"), []).batches == 20
    assert open_input(spark, source.format(995), [], rows_per_batch=995).batches == 1


def test_the_line_says_how_even_the_last_batch_was_and_all() -> None:
    nothing = np.zeros(0)
    last = BatchStats(
        7, 40.0, nothing.astype(np.uint64), nothing, np.array([30, 10]), np.array([40, 0]), 4, 5, None
    )
    seen = Progress(2, batches=2, rows=[60, 40], last=last, seconds=2.0)
    assert seen.line() == (
        "batch 7: 40 rows at 20 rows/s, max/mean load 1.500; total 100 rows, max/mean load 1.200"
    )


def test_a_stopped_run_goes_on(spark: Any, tmp_path: Path) -> None:
    """Every row of a generator is counted once, over three runs, with online routers."""
    source = "zipf:z=1.4,keys=50,messages=2000,seed=3"
    for stop in (1, 2, 99):
        job = Job(
            opened(spark, source), parse_app("top-k"), 4, ef.scheme("w-choices"), "online", 5,
            str(tmp_path / "checkpoint"), str(tmp_path / "out"),
        )  # fmt: skip
        try:
            seen = run(job, StopAfter(stop))
        except KeyboardInterrupt:
            continue
    ids = Zipf(z=1.4, keys=50, messages=2000, seed=3).generate(0, 2000).ids
    counts = np.bincount(ids)
    best = sorted(((-int(count), key + 1) for key, count in enumerate(counts)))[:5]
    assert seen.view["top"] == [{"key": key, "rows": -rows} for rows, key in best]
    last = max((tmp_path / "out").glob("batch-*.json"), key=lambda path: int(path.stem[6:]))
    assert json.loads(last.read_text())["top"][0] == {"key": best[0][1], "rows": -best[0][0]}
    other = Job(
        opened(spark, source),
        parse_app("count"),
        4,
        ef.scheme("key"),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    with pytest.raises(ef.EvenflowError, match="use another folder"):
        run(other, silent)


def test_one_file_is_even_in_its_first_batch(spark: Any, tmp_path: Path) -> None:
    """A single micro-batch has none before it to learn from: its plan comes from a sample of the source."""
    ids = Zipf(z=1.6, keys=100, messages=40_000, seed=3).generate(0, 40_000).ids
    (tmp_path / "words.csv").write_text(
        "\n".join(["key,row", *(f"{key},{row}" for row, key in enumerate(ids))])
    )
    for workers in (6, 6):  # and when it goes on, with nothing new to read
        job = Job(
            opened(spark, str(tmp_path / "words.csv"), "key"), parse_app("count"), workers, ef.scheme("fill"),
            checkpoint=str(tmp_path / "checkpoint"),
        )  # fmt: skip
        seen = run(job, silent)
    assert seen.batches == 0
    assert seen.view["top"][0]["rows"] == np.bincount(ids).max()
    plain = Job(opened(spark, str(tmp_path / "words.csv"), "key"), parse_app("count"), 6, ef.scheme("key"))
    assert run(plain, silent).max_over_mean > 2
    first = Job(opened(spark, str(tmp_path / "words.csv"), "key"), parse_app("count"), 6, ef.scheme("fill"))
    seen = run(first, silent)
    assert seen.batches == 1
    assert seen.max_over_mean == seen.last_max_over_mean
    assert seen.max_over_mean < 1.05


@pytest.mark.parametrize("lost", ["query", long("view.json")])
def test_half_of_a_checkpoint_is_refused(spark: Any, tmp_path: Path, lost: str) -> None:
    """Spark would begin again at batch 0, which the view has, or the view would begin in the middle."""
    folder = tmp_path / "checkpoint"
    source = "zipf:z=1.4,keys=50,messages=50000,seed=3"

    def job() -> Job:
        return Job(opened(spark, source), parse_app("top-k"), 4, ef.scheme("key"), checkpoint=str(folder))

    with pytest.raises(KeyboardInterrupt):
        run(job(), StopAfter(2))
    (folder / lost).rename(tmp_path / "lost")
    with pytest.raises(ef.EvenflowError, match=r"restore the folder as a whole"):
        run(job(), silent)


def test_columns_of_files(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("day,shop,price\nmon,a,1\nmon,b,2\ntue,a,3\n")
    job = Job(opened(spark, str(path), "day", "shop"), parse_app("count"), 2, ef.scheme("key"), at_once=True)
    seen = run(job, silent)
    assert [one["key"] for one in seen.view["top"]] == [["mon", "a"], ["mon", "b"], ["tue", "a"]]
    assert (sum(seen.rows), seen.batches) == (3, 1)
    assert opened(spark, f"{path}#shop").key == ["shop"]


@pytest.mark.parametrize(
    ("source", "key", "sentence"),
    [
        ("nowhere.csv", (), "there is no file 'nowhere.csv'"),
        ("zpif:z=2", (), "did you mean 'zipf'"),
        ("zipf:q=2", (), "zipf has no parameter 'q'"),
        ("zipf", ("word",), "has no column 'word'"),
        ("FOLDER/two.csv", (), "has the columns a, b; name the key column with --key"),
        ("FOLDER/two.csv#a", ("b",), "the key is given twice"),
    ],
)
def test_bad_sources(spark: Any, tmp_path: Path, source: str, key: tuple[str, ...], sentence: str) -> None:
    (tmp_path / "two.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ef.EvenflowError, match=sentence.replace("(", r"\(")):
        opened(spark, source.replace("FOLDER", str(tmp_path)), *key)


def test_bad_jobs(spark: Any, tmp_path: Path) -> None:
    endless = opened(spark, "rate")
    with pytest.raises(ef.EvenflowError, match="unbounded"):
        Job(endless, parse_app("count"), 2, ef.scheme("key"), at_once=True)
    with pytest.raises(ef.EvenflowError, match="--at-once and --checkpoint are mutually exclusive"):
        Job(opened(spark, "zipf"), parse_app("count"), 2, ef.scheme("key"), checkpoint="c", at_once=True)
    with pytest.raises(ef.EvenflowError, match="top is 0"):
        Job(endless, parse_app("count"), 2, ef.scheme("key"), top=0)
    with pytest.raises(ef.EvenflowError, match=r"--checkpoint is 's3://b/c', but Spark's own checkpoint is"):
        Job(endless, parse_app("count"), 2, ef.scheme("key"), checkpoint="s3://b/c")
    with pytest.raises(ef.EvenflowError, match=r"--sink is 'hdfs://a/b'; hdfs is not supported; mount it"):
        Job(endless, parse_app("heavy-hitters"), 2, ef.scheme("key"), sink="hdfs://a/b")


def test_answers_go_to_an_object_store(spark: Any, moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    place = moto.bucket() / "answers"
    source = open_input(spark, "zipf:z=2,keys=10,messages=300", [], rows_per_batch=100)
    run(Job(source, parse_app("heavy-hitters"), 2, ef.scheme("key"), sink=str(place)), silent)
    storage = open_storage(place)
    names = [entry.name for entry in storage.entries()]  # on a busy machine, of a batch without rows as well
    assert names[:3] == [f"batch-{number}.json" for number in range(3)]
    answers = [json.loads(storage.read(f"batch-{number}.json")) for number in range(3)]
    assert [answer["rows"] for answer in answers] == [100, 200, 300]


def test_reading_at_once_can_be_interrupted(spark: Any) -> None:
    """What watches a run may end it while Spark works; the job of Spark's ends too."""

    def impatient(seen: Progress) -> None:
        assert seen.batches == 0
        if tracker.getActiveJobsIds():
            raise KeyboardInterrupt

    tracker = spark.sparkContext.statusTracker()
    source = opened(spark, "zipf:messages=2e6")
    with pytest.raises(KeyboardInterrupt):
        run(Job(source, parse_app("count"), 2, ef.scheme("key"), at_once=True), impatient)
    wait_for(lambda: not tracker.getActiveJobsIds(), "Spark to end the job")


def test_a_run_ends_when_all_bad_records_are_kept(spark: Any, tmp_path: Path) -> None:
    """The query that keeps them may be slower than the one that does the work."""

    def slow(batches: Any) -> Any:
        for batch in batches:
            time.sleep(1.0)
            yield batch

    write_batches(tmp_path / "in", [pa.table({"key": [1, 2, 2]})])
    write_batches(tmp_path / "bad", [pa.table({"key": [number]}) for number in range(6)])
    bad = read_batches(spark, tmp_path / "bad", "key long").mapInArrow(slow, "key long")
    kept = str(tmp_path / "kept")
    source = replace(opened(spark, str(tmp_path / "in"), "key"), bad=bad)
    assert run(Job(source, parse_app("count"), 2, ef.scheme("key"), bad_records=kept), silent).total == 3
    assert spark.read.parquet(kept).count() == 6


def test_the_command_stops_cleanly(tmp_path: Path) -> None:
    """Ctrl-C: the query and Spark end, what was done is shown, the status is 130."""
    program = "from evenflow.cli import main; main()"
    command = [sys.executable, "-c", program, "run", "--source", "rate", "--rate", "500"]
    command += ["--workers", "2", "--master", "local[2]", "--checkpoint", str(tmp_path / "c"), "--json"]
    with (tmp_path / "log").open("wb") as log, (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=log, stdin=subprocess.DEVNULL)
    try:
        said = (tmp_path / "log").read_text
        wait_for(lambda: "max/mean load" in said() or process.poll() is not None, "the first batch")
        process.send_signal(signal.SIGINT)
        status = process.wait(120)
    finally:
        process.kill()
    assert status == 130, said()[-2000:]
    assert "run the same command again" in said()
    assert "Traceback" not in said()
    result = json.loads((tmp_path / "out").read_text())
    assert result["rows"] == sum(result["rows_per_worker"]) > 0
    assert result["top"][0]["key"] == 1
