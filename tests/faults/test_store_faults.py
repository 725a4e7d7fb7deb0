"""A stateful query whose store fails: nothing is lost or doubled, and a store that stays away stops it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from evenflow.errors import EvenflowError
from evenflow.spark import balance, join, read_state
from evenflow.storage import Location, open_storage
from extent import in_make_faults
from spark.processors import STREAM
from spark.stateful_runs import Sunk, cut, finish, held, numbers, start, totals
from spark.stream_files import read_batches, run_to_end, write_batches
from spark.test_join_streams import near_streams, plain, run_on, write_streams
from storage.proxy import Fault, Passing, Proxy, at_random, proxy_before
from storage.s3_server import SECRET, S3Server, versity_server, versitygw

pytestmark = [pytest.mark.spark, pytest.mark.faults]

LIMITS = {"timeout": "2s", "max_retries": "6", "retry_timeout": "30s"}
SHORT_LIMITS = {"timeout": "1s", "max_retries": "1", "retry_timeout": "3s"}
BATCHES = 8
FAULTS: dict[str, Fault] = {
    "throttled": at_random("503", 0.25),
    "hanging": at_random("hang", 0.04),
    "cut uploads": at_random("cut", 0.3, where=lambda passing: passing.method == "PUT"),
    "lost answers": at_random("lose", 0.2),
    "lost commits": lambda passing: "lose" if _is_commit(passing) and _is_first(passing) else None,
    "lagging listings": at_random("lag", 0.5, where=lambda passing: passing.is_listing),
}


def _is_commit(passing: Passing) -> bool:
    return passing.method == "PUT" and "_delta_log" in passing.path and passing.path.endswith(".json")


def _is_first(passing: Passing, seen: set[str] = set()) -> bool:  # noqa: B006 - it remembers
    return passing.path not in seen and not seen.add(passing.path)  # type: ignore[func-returns-value]


@pytest.fixture(scope="module")
def proxy(moto: S3Server) -> Iterator[Proxy]:
    """A proxy before versitygw where it is installed, otherwise before moto."""
    command = versitygw()
    if command is None:
        with proxy_before(moto) as running:
            yield running
        return
    with versity_server(command) as server, proxy_before(server) as running:
        yield running


@in_make_faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_query_on_a_store_that_fails(spark: Any, tmp_path: Path, proxy: Proxy, fault: str) -> None:
    """Half of the batches in one run, the others in the next, with other workers."""
    table, sunk = numbers(BATCHES), Sunk()
    proxy.decide, proxy.done = None, {}
    options: dict[str, Any] = {
        "state": Location(proxy.bucket(), LIMITS) / "state", "checkpoint": tmp_path / "checkpoint",
    }  # fmt: skip
    batches = cut(table)
    proxy.decide = FAULTS[fault]
    try:
        write_batches(tmp_path / "in", batches[: BATCHES // 2])
        finish(start(spark, tmp_path, sunk, **options))
        write_batches(tmp_path / "in", batches[BATCHES // 2 :], first=BATCHES // 2)
        finish(start(spark, tmp_path, sunk, workers=4, **options))
        assert totals(table) == sunk.last()
    finally:
        proxy.decide = None
    assert sum(proxy.done.values()) >= 3, proxy.done
    assert [batch for batch, _ in sunk.calls] == list(range(BATCHES))
    assert held(read_state(spark, options["state"])) == totals(table)


@in_make_faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "lost commits"])
def test_plans_that_follow_streams_on_a_store_that_fails(
    spark: Any, tmp_path: Path, proxy: Proxy, no_broadcast: None, fault: str
) -> None:
    """Of one stream, whose plan costs balance at most, and of two, whose rows wait where the plans say."""
    table = numbers(6)
    write_batches(tmp_path / "in", cut(table))
    write_streams(tmp_path, range(6))
    left, right, near = near_streams(spark, tmp_path)
    wanted = run_on(plain(left, right, near, "left"), tmp_path, "plain")
    place = Location(proxy.bucket(), LIMITS)
    proxy.decide, proxy.done = FAULTS[fault], {}
    try:
        rows = read_batches(spark, tmp_path / "in", STREAM, 1)
        even = rows.transform(balance("key", workers=3, control=place / "balance"))
        found = run_to_end(even, "append", f"on_a_failing_store_{uuid4().hex}", tmp_path / "checkpoint")
        joined = join(left, right, "k", "left", condition=near, control=place / "join")
        assert run_on(joined, tmp_path, "ours") == wanted
    finally:
        proxy.decide = None
    assert sorted(row["number"] for row in found) == list(range(table.num_rows))
    assert sum(proxy.done.values()) >= (1 if fault == "lagging listings" else 3), proxy.done
    claims = [entry for entry in open_storage(place).entries("join") if entry.name.endswith(".claim")]
    assert len(claims) == 7  # the last batch has no rows, and moves the watermark


@in_make_faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["503", "hang", "cut"])
def test_a_store_that_stays_away_stops_the_query(
    spark: Any, tmp_path: Path, proxy: Proxy, fault: str
) -> None:
    """It stops with a sentence that names the store, and goes on from there when it is started again."""
    table, sunk = numbers(4), Sunk()
    proxy.decide, proxy.done = None, {}
    root = Location(proxy.bucket(), SHORT_LIMITS) / "state"
    options: dict[str, Any] = {"state": root, "checkpoint": tmp_path / "checkpoint"}
    batches = cut(table)
    write_batches(tmp_path / "in", batches[:2])
    query = start(spark, tmp_path, sunk, **options)
    query.processAllAvailable()
    proxy.decide = at_random(fault, 1.0)
    try:
        write_batches(tmp_path / "in", batches[2:], first=2)
        with pytest.raises(EvenflowError) as stopped:
            query.processAllAvailable()
        sentence = str(stopped.value).splitlines()[0]
        assert str(root) in sentence
        assert sentence.startswith("cannot ")
        assert SECRET not in str(stopped.value)
        with pytest.raises(EvenflowError, match=r"cannot "):
            start(spark, tmp_path, sunk, **options)
    finally:
        proxy.decide = None
        query.stop()
    assert [batch for batch, _ in sunk.calls] == [0, 1]
    finish(start(spark, tmp_path, sunk, **options))
    assert [batch for batch, _ in sunk.calls] == [0, 1, 2, 3]
    assert held(read_state(spark, root)) == totals(table) == sunk.last()


@in_make_faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["503", "hang", "cut"])
def test_plans_of_a_store_that_stays_away(
    spark: Any, tmp_path: Path, proxy: Proxy, no_broadcast: None, fault: str
) -> None:
    """One stream goes on by hash. Two stop with a sentence, since their rows wait where plans say, and go on
    when they are started again."""
    place, table = Location(proxy.bucket(), SHORT_LIMITS), numbers(6)
    batches = cut(table)
    proxy.decide = None
    write_batches(tmp_path / "in", batches[:2])
    write_streams(tmp_path, range(2))
    left, right, near = near_streams(spark, tmp_path)
    rows = read_batches(spark, tmp_path / "in", STREAM, 1)
    even = rows.transform(balance("key", workers=3, control=place / "balance"))
    joined = join(left, right, "k", "left", condition=near, control=place / "join")
    run_on(even, tmp_path, "even")
    run_on(joined, tmp_path, "ours")
    proxy.decide = at_random(fault, 1.0)
    try:
        write_batches(tmp_path / "in", batches[2:4], first=2)
        write_streams(tmp_path, range(2, 4))
        run_on(even, tmp_path, "even")
        assert written(spark, tmp_path / "even") == list(range(4 * batches[0].num_rows))
        with pytest.raises(Exception, match=r"cannot (read|write) s3://") as stopped:
            run_on(joined, tmp_path, "ours")
        assert str(place) in str(stopped.value)
        assert SECRET not in str(stopped.value)
    finally:
        proxy.decide = None
    write_batches(tmp_path / "in", batches[4:], first=4)
    write_streams(tmp_path, range(4, 6))
    run_on(even, tmp_path, "even")
    assert written(spark, tmp_path / "even") == list(range(table.num_rows))
    assert run_on(joined, tmp_path, "ours") == run_on(plain(left, right, near, "left"), tmp_path, "plain")


def written(spark: Any, folder: Path) -> list[int]:
    return sorted(row["number"] for row in spark.read.parquet(str(folder)).collect())
