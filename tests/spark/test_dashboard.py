"""The dashboard over real queries, in a real browser: what it shows is what is there."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from dashboard.in_browser import cells_of, emulate, errors, fact, open_page, shown, table_of, wait_for_batch
from dashboard.test_server import served
from evenflow.control.directory import Control
from evenflow.control.notes import LOG
from evenflow.history.watch import Watched
from evenflow.spark import balance, loads
from evenflow.spark.monitoring.switches import COMPARED, KEY_VALUES
from evenflow.testing import wait_for
from spark.stateful_runs import Sunk, cut, numbers, start
from spark.stream_files import read_batches, write_batches

pytestmark = pytest.mark.spark
WORKERS, ROWS = 8, 4000
STATUS = "document.getElementById('status').textContent"
EVENTS = "[...document.querySelectorAll('#events strong')].map(one => one.textContent)"


def batch(number: int) -> pa.Table:
    """A third of the rows are of one key, the rest of 500."""
    draws = np.random.default_rng(number)
    hot, others = draws.random(ROWS) < 1 / 3, draws.integers(0, 500, ROWS)
    keys = [f"hot{number // 3}" if is_hot else f"k{key}" for is_hot, key in zip(hot, others, strict=True)]
    return pa.table({"k": keys})


def give(folder: Path, number: int) -> None:
    write_batches(folder / "source", [batch(number)], number)


def started(spark: Any, folder: Path, **options: Any) -> Any:
    stream = read_batches(spark, folder / "source", "k string")
    even = stream.transform(balance("k", WORKERS, control=str(folder / "orders"), **options))
    writer = even.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.start()


def compare(browser: Any, query: Any, number: int) -> None:
    """Compare the page with `loads` of the query."""
    wait_for_batch(browser, number)
    found = loads(query)
    assert found.batch == number
    table = table_of(browser, "rows-chart")
    assert [int(row[2].replace(",", "")) for row in table] == found.rows
    assert fact(browser, "rows") == f"{sum(found.rows):,}"
    assert fact(browser, "max-over-mean") == f"{found.max_over_mean:.3f}"
    assert fact(browser, "keys") == f"{found.keys:,}"
    assert fact(browser, "memory") == f"{found.memory:.3f}"
    assert fact(browser, "fallbacks") == str(found.fallbacks)
    (hottest, *_) = cells_of(browser, "document.querySelectorAll('#hot tbody tr')")
    assert hottest[0] == found.hot[0].key == f"hot{number // 3}"
    assert hottest[1] == f"{found.hot[0].rows:,}"
    assert hottest[4] == (", ".join(map(str, found.hot[0].homes)) or "home of its bucket")


def compare_hashing(browser: Any, spark: Any, folder: Path, number: int) -> None:
    """Compare what the page says of hashing with what Spark's own does with the same rows."""
    file = spark.read.parquet(str(folder / "source" / f"{number:04}.parquet"))
    hashed = loads(file.repartition(WORKERS, "k"), "k", workers=WORKERS)
    table = table_of(browser, "rows-chart")
    assert [int(row[1].replace(",", "")) for row in table] == hashed.rows
    assert fact(browser, "hashed") == f"{hashed.max_over_mean:.3f}"


def test_the_page_shows_what_loads_says_and_a_restarted_query_goes_on(
    spark: Any, browser: Any, tmp_path: Path
) -> None:
    give(tmp_path, 0)
    query = started(spark, tmp_path)
    try:
        query.processAllAvailable()
        with served(tmp_path / "orders") as running:
            emulate(browser)
            open_page(browser, running.url, 0)
            compare(browser, query, 0)
            compare_hashing(browser, spark, tmp_path, 0)
            for number in (1, 2):
                give(tmp_path, number)
                compare(browser, query, number)
            assert shown(browser, EVENTS).count("New plan") >= 1
            since = cells_of(browser, "document.querySelectorAll('#hot tbody tr')")[0][5]
            query.stop()
            wait_for(lambda: "ended" in shown(browser, STATUS), "the end of the query")
            query = started(spark, tmp_path)
            give(tmp_path, 3)
            compare(browser, query, 3)
            assert len(table_of(browser, "balance-chart")) == 4
            assert shown(browser, EVENTS).count(f"Started on {WORKERS} workers") == 2
            assert "Ended" in shown(browser, EVENTS)
            hot = cells_of(browser, "document.querySelectorAll('#hot tbody tr')")
            assert hot[0][5] >= since  # another key is hot now
            assert "hot keys with" in shown(browser, "document.getElementById('plan').textContent")
            assert "running" in shown(browser, STATUS)
            assert errors(browser) == []
    finally:
        query.stop()
    control = Control(tmp_path / "orders")  # one end for each run, although both are the same query
    wait_for(lambda: len(list(control.notes("ended"))) == 2, "the second end")
    assert all(note["numbers"] and note["reason"] for note in control.notes("plan"))


def test_a_stateful_query_is_steered_from_the_page(spark: Any, browser: Any, tmp_path: Path) -> None:
    tables = cut(numbers(4))
    write_batches(tmp_path / "in", tables[:1])
    query = start(spark, tmp_path, Sunk())
    try:
        query.processAllAvailable()
        with served(tmp_path / "state", token="secret") as running:
            emulate(browser)
            open_page(browser, f"{running.url}#token=secret", 0)
            assert "secret" not in shown(browser, "location.href")
            found = query.loads()
            assert [int(row[2]) for row in table_of(browser, "rows-chart")] == found.rows
            assert [float(row[1]) for row in table_of(browser, "busy-chart")] == pytest.approx(
                found.seconds, rel=1e-3
            )
            assert fact(browser, "state-keys") == f"{found.state_keys:,}"
            browser.execute_script(
                "document.getElementById('rescale-workers').value = 5;"
                "document.querySelector('#rescale-form button').click()"
            )
            answer = "document.getElementById('action-result').textContent"
            wait_for(lambda: shown(browser, answer) == "5 workers from the next batch on", "the answer")
            write_batches(tmp_path / "in", tables[1:2], 1)
            wait_for_batch(browser, 1)
            assert fact(browser, "workers") == "5"
            assert "2 workers joining: 3 → 5" in shown(browser, EVENTS)
            assert "Migration: 3 → 5 workers" in shown(browser, EVENTS)
            assert len(query.migrations()) == 1
            browser.execute_script("document.getElementById('rebalance').click()")
            wait_for(lambda: "balanced anew" in shown(browser, answer), "the answer")
            write_batches(tmp_path / "in", tables[2:3], 2)
            wait_for_batch(browser, 2)
            reasons = [decision["reason"] for decision in query.decisions() if decision["batch"] == 2]
            assert any(reason.startswith("rebalancing was requested") for reason in reasons)
            assert "5 workers" in shown(browser, "document.getElementById('plan').textContent")
            write_batches(tmp_path / "in", tables[3:], 3)
            wait_for_batch(browser, 3)
            again = [decision["reason"] for decision in query.decisions() if decision["batch"] == 3]
            assert not any(reason.startswith("rebalancing") for reason in again)  # a request counts once
            (hottest, *_) = cells_of(browser, "document.querySelectorAll('#hot tbody tr')")
            ((key, rows),) = Counter(tables[3]["key"].to_pylist()).most_common(1)
            assert hottest[:2] == [key, str(rows)]  # the value, not its hash
            query.stop()
            wait_for(lambda: "ended" in shown(browser, STATUS), "the end of the query")
            assert shown(browser, EVENTS)[0] == "Ended"
            assert errors(browser) == []
    finally:
        query.stop()


def test_values_and_the_comparison_can_be_switched_off(spark: Any, tmp_path: Path) -> None:
    give(tmp_path, 0)
    compared = spark.conf.get(COMPARED)
    spark.conf.set(KEY_VALUES, "false")
    spark.conf.set(COMPARED, "0")
    try:
        query = started(spark, tmp_path)
        spark.conf.set(COMPARED, "often")
        with pytest.raises(
            ef.EvenflowError, match="compareWithHashing is 'often'; set it to 1 to compare ev"
        ):
            started(spark, tmp_path)
    finally:
        spark.conf.unset(KEY_VALUES)
        spark.conf.set(COMPARED, compared)
    try:
        query.processAllAvailable()
        (hottest, *_) = loads(query).hot
        wait_for(lambda: list(Control(tmp_path / "orders").notes("batch")), "the log")
    finally:
        query.stop()
    assert hottest.key == hottest.hash == f"{int(ef.hash_keys(['hot0'])[0]):016x}"
    (note,) = Control(tmp_path / "orders").notes("batch")
    assert note["hashed"] is None
    assert "hot0" not in (tmp_path / "orders" / LOG).read_text()
    assert "hot0" not in str(query.recentProgress)


@pytest.mark.parametrize("mode", ["planned", "online"])
def test_one_batch_in_some_is_compared_with_hashing(spark: Any, tmp_path: Path, mode: str) -> None:
    """Chosen by the number of the plan, which every batch raises, or, without plans, by the batch's time."""
    for number in range(6):
        give(tmp_path, number)
    compared = spark.conf.get(COMPARED)
    spark.conf.set(COMPARED, "2")
    try:
        order = "content" if mode == "planned" else "auto"  # all rows of a key are one to its draw
        query = started(spark, tmp_path, mode=mode, order=order)
        query.processAllAvailable()
        assert loads(query).hot[0].key == "hot1"
        wait_for(lambda: len(list(Control(tmp_path / "orders").notes("batch"))) == 6, "the log")
        query.stop()
    finally:
        spark.conf.set(COMPARED, compared)
    watched = Watched(tmp_path / "orders")
    watched.poll()
    (history,) = watched.histories()
    notes = list(Control(tmp_path / "orders").notes("batch"))
    assert [note["batch"] for note in notes] == list(range(6))
    if mode == "planned":
        chosen = [note["plan"] % 2 == 0 for note in notes]
        assert set(chosen) == {False, True}
    else:
        times = [json.loads(offsets(tmp_path, note["batch"])[1])["batchTimestampMs"] for note in notes]
        chosen = [
            spark.sql(f"select pmod(xxhash64(timestamp_millis({time})), 2)").head()[0] == 0 for time in times
        ]
    assert [note["hashed"] is not None for note in notes] == chosen
    known = [note for note in notes if note["hashed"] is not None]
    assert all(sum(note["hashed"]) == ROWS for note in known)
    assert history.summary().get("hashed_batch") == (known[-1]["batch"] if known else None)


def offsets(folder: Path, batch: int) -> list[str]:
    """The lines that Spark wrote of a batch before it began."""
    return (folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
