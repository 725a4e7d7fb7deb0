"""Deployments: their pipeline on the session of all tests, and the real command on a standalone cluster.

The cluster takes minutes; ``make faults`` (EVENFLOW_FAULTS=all) starts it.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.papers import find
from evenflow.papers.deployments.applications import application
from evenflow.papers.deployments.cluster import Messages
from evenflow.papers.deployments.flow import Flow, Timing
from evenflow.papers.deployments.lanes import BROKER
from evenflow.papers.deployments.owned import owned
from evenflow.papers.deployments.serving import SLICE
from evenflow.papers.deployments.steadiness import steadiness
from evenflow.papers.deployments.streamed import streamed
from evenflow.papers.deployments.topics import TopicFlow
from evenflow.papers.experiment import RunConfig
from evenflow.papers.table import Table
from evenflow.simulator import simulate
from evenflow.testing import LocalCluster
from extent import in_make_faults

pytestmark = pytest.mark.spark


def test_the_pipeline_serves_every_message_where_the_scheme_sends_it(spark: Any, tmp_path: Path) -> None:
    """As in the test on a cluster below: 68 percent of the messages have one key."""
    messages = Messages.of("election:messages=3000,seed=18")
    loads, memory = {}, {}
    for name in ("shuffle", "key", "fill"):
        folder = tmp_path / name
        folder.mkdir()
        flow = Flow(spark, folder, messages.keys, ef.scheme(name), 10, 2, Timing(0.5))
        try:
            [batch] = flow.run(3000)
            served = flow.served()
        finally:
            flow.stop()
        assert sorted(served.numbers.tolist()) == list(range(3000))
        loads[name] = np.bincount(served.workers, minlength=10)
        memory[name] = batch.pairs / np.unique(served.keys).size
    assert memory["key"] == 1
    assert loads["key"].max() / 300 > 6
    assert loads["shuffle"].max() / 300 == pytest.approx(1, abs=0.01)
    assert loads["fill"].max() / 300 < 1.1
    assert 1 < memory["fill"] < memory["shuffle"]
    for name in ("key", "shuffle"):  # neither waits for reports, so the simulator sends every message alike
        assert loads[name].tolist() == simulate(name, messages, workers=10, sources=2, marks=1).loads.tolist()


def test_a_stream_is_paced_served_and_counted(spark: Any, tmp_path: Path) -> None:
    """Every message is created in its window and served once, where the scheme sends it."""
    messages = Messages.of("zipf:z=1.2,keys=50,messages=300,seed=2")
    flow = Flow(spark, tmp_path, messages.keys, ef.scheme("key"), workers=2, sources=2, timing=Timing(0.7))
    try:
        first = flow.run(100, 0, 60)
        flow.serve(np.array([0.002, 0.001]))
        [last] = flow.run(140)
    finally:
        flow.stop()
    served = flow.served()
    assert sorted(served.numbers.tolist()) == list(range(300))
    assert (served.keys == messages.keys[served.numbers]).all()
    windows = np.floor((served.created - flow.pace.start) / 0.7).astype(int)
    counted = np.bincount(windows)
    assert counted[counted > 0].tolist() == [100, 60, 140]
    assert sum(batch.messages for batch in first) == 160
    ends = flow.pace.start + (windows + 1) * 0.7
    assert (served.finished > ends).all(), "a micro-batch begins when its window is over"
    loads = simulate("key", messages, workers=2, sources=2, marks=1).loads
    assert np.bincount(served.workers).tolist() == loads.tolist()
    assert last.pairs == np.unique(served.keys[served.batches == last.number]).size
    for worker, seconds in enumerate((0.002, 0.001)):
        own = served.where((served.batches == last.number) & (served.workers == worker))
        assert np.ptp(own.finished) >= 0.8 * seconds * (own.numbers.size - SLICE / seconds)
        assert last.seconds > seconds * own.numbers.size


@in_make_faults
def test_routers_of_a_stream_learn_and_hear(spark: Any, tmp_path: Path) -> None:
    """A worker at a quarter of the speed gets fewer messages once its reports were heard."""
    keys = Messages.of("uniform:keys=400,messages=5000,seed=2").keys
    flow = Flow(spark, tmp_path, keys, ef.scheme("fill"), workers=2, sources=1, timing=Timing(0.7))
    try:
        flow.serve(np.array([0.0016, 0.0004]))
        batches = [batch for _ in range(6) for batch in flow.run(400)]
    finally:
        flow.stop()
    served = flow.served()
    slow = [(served.workers[served.batches == batch.number] == 0).mean() for batch in batches]
    assert abs(slow[0] - 0.5) < 0.1
    assert slow[-1] < 0.35


@in_make_faults
def test_the_capacity_of_a_stream_is_found_before_and_after_a_worker_slows_down(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of four messages have one key, so two workers can serve at most 4/3 times what one can.

    Intervals are shorter, relative to an empty micro-batch, than in a figure.
    """
    for name, value in (("lanes.EMPTY", 0.4), ("lanes.LITTLE", 0.6), ("streamed.LOADS", (0.8, 0.95)),
                        ("streamed.WINDOWS", (1, 2)), ("streamed.ADAPTING", 2)):  # fmt: skip
        monkeypatch.setattr(f"evenflow.papers.deployments.{name}", value)
    phases = {"equal": [1.0, 1.0], "slow": [0.5, 0.5]}
    stream = "countries:skew=75,messages=4000,seed=1"
    rows = streamed(stream, 2, 2, 0.005, 0.8, [("KG", "key", {})], phases=phases)
    assert [(row["phase"], row["load"], row["of"]) for row in rows] == [
        ("equal", 0.8, "own"), ("equal", 0.95, "own"), ("equal", 0.95, "KG"),
        ("slow", 0.95, "own"), ("slow", 0.95, "KG"),
    ]  # fmt: skip
    hottest = np.bincount(Messages.of(stream).ids).max() / 4000
    for row in rows:
        speed = 1.0 if row["phase"] == "equal" else 0.5
        assert row["rate"] == pytest.approx(row["load"] * row["throughput"])
        assert 0.3 * 200 * speed < row["throughput"] < 200 * speed / hottest
        assert row["predicted_throughput"] == pytest.approx(200 * speed / 0.86, rel=0.1)
        assert row["latency_p50"] <= row["latency_p95"] <= row["latency_p99"]
        assert row["latency_mean"] > row["interval"] / 2, "a message waits until its window is over"
        assert row["latency_worker"] >= row["latency_mean"]
    equal, slow = (row["throughput"] for row in (rows[0], rows[-1]))
    assert 0.3 < slow / equal < 0.7
    assert {row["memory"] for row in rows[:3]} == {1}


@in_make_faults
def test_two_streams_at_once_get_their_messages_a_part_of_an_interval_apart(
    spark: Any, tmp_path: Path
) -> None:
    keys = Messages.of("uniform:keys=400,messages=2000,seed=2").keys
    flows = []
    for lane in range(2):
        (tmp_path / str(lane)).mkdir()
        flows.append(Flow(spark, tmp_path / str(lane), keys, ef.scheme("key"), 2, 1, Timing(1.6, lane, 2)))
    try:
        with ThreadPoolExecutor(2) as pool:
            batches = list(pool.map(lambda flow: flow.run(100, 200, 300), flows))
    finally:
        for flow in flows:
            flow.stop()
    for flow, own in zip(flows, batches, strict=True):
        assert sum(batch.messages for batch in own) == 600
        assert sorted(flow.served().numbers.tolist()) == list(range(600))
    first, second = (flow.pace.start % 1.6 for flow in flows)
    assert (second - first) % 1.6 == pytest.approx(0.8)


@in_make_faults
def test_every_worker_computes_batches_of_the_same_size(spark: Any) -> None:
    rows = steadiness(workers=2, sources=2, batches=3, size=5000)
    assert [(row["batch"], row["worker"]) for row in rows] == [(b, w) for b in range(3) for w in range(2)]
    assert {row["messages"] for row in rows} == {5000}
    seconds = np.array([row["seconds"] for row in rows])
    assert (seconds > 0).all()
    assert seconds.max() < 10 * seconds.min(), "of processor time, whatever else runs here"


@in_make_faults
def test_a_query_with_owners_is_measured_while_workers_join(spark: Any) -> None:
    """Half of all keys move when the hash range is split anew, a third when a ring gets a third worker."""
    approaches = [("key", "key"), ("redist", "explicit:algorithm=redist,resources=LLL,domain=300")]
    rows = owned(approaches, 0.5, domain=300, rows=1500, workers=[2, 3], batches=3)
    assert [(row["approach"], row["workers"]) for row in rows] == [
        (label, workers) for label, _ in approaches for workers in (2, 3)
    ]
    table = Table.of_rows(rows)
    assert (table[["state", "computation", "communication"]] >= 1).all().all()
    assert table.only(workers=2)["migration"].isna().all()
    assert table.value("migration", approach="key", workers=3) == pytest.approx(1.5, abs=0.3)
    assert table.value("migration", approach="redist", workers=3) == pytest.approx(1, abs=0.5)
    assert table.value("communication", approach="redist", workers=3) < 1.6
    assert (table["missed"] >= table["paid"]).all()


@in_make_faults
@pytest.mark.parametrize(
    ("app", "source"),
    [
        ("naive-bayes", "documents:messages=3000,classes=2,length=5,seed=1"),
        ("decision-tree:depth=2,bins=16", "points:messages=3000,classes=2,dimensions=3,seed=1"),
        ("heavy-hitters:capacity=50", "zipf:z=1.1,keys=2000,messages=3000,seed=1"),
    ],
)
def test_an_app_is_deployed_with_what_it_holds_and_how_right_it_is(
    spark: Any, app: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows reach the streams with the keys of the app; how these run is tested elsewhere."""
    streams = list[Messages]()

    def deployed(messages: Messages, *rest: Any) -> list[dict[str, Any]]:
        streams.append(messages)
        return [{"label": label, "pairs": 7} for label in ("SG", "KG")]

    monkeypatch.setattr("evenflow.papers.deployments.applications.deployed", deployed)
    subjects: list[Any] = [("SG", "shuffle", {}), ("KG", "key", {})]
    shuffled, keyed = application(app, source, 4, 2, 0.001, 1.0, subjects, messages=2500)
    assert {shuffled["app"], keyed["app"]} == {app.partition(":")[0]}
    [messages] = streams
    assert messages.messages == 2500
    if app == "naive-bayes":
        assert keyed["right"] == shuffled["right"] > 0.6
        assert keyed["held"] == 7, "the pairs of the streams"
        counts = np.sort(np.bincount(messages.ids))[::-1]
        assert 150 < counts[0] < 400, "the null word of about half of the documents, or the first word"
    elif app.startswith("decision-tree"):
        assert min(keyed["right"], shuffled["right"]) > 0.6
        assert keyed["held"] < shuffled["held"]
        assert 3 < messages.keys_upper_bound() <= 3 * 4, "a key for each leaf and feature"
    else:
        assert keyed["held"] <= shuffled["held"] <= 4 * 50
        assert 0 < keyed["error"] <= shuffled["error"]


@in_make_faults
def test_from_topic_to_topic_every_message_is_counted_where_the_scheme_sends_it(
    spark_kafka: Any, broker: Any, tmp_path: Path
) -> None:
    messages = Messages.of("election:messages=2000,seed=18")
    spark_kafka.conf.set(BROKER, broker.servers)
    flow = TopicFlow(spark_kafka, tmp_path, messages.keys, ef.scheme("key"), 4, 2, Timing(1.0))
    topics = {flow.topic, flow.results}
    try:
        batches = flow.run(1200, 800)
        assert topics <= set(broker.admin().list_topics(timeout=30).topics)
        served = flow.served()  # checks what the results in their topic count
    finally:
        spark_kafka.conf.unset(BROKER)
        flow.stop()
    assert sum(batch.messages for batch in batches) == 2000
    assert sorted(served.numbers.tolist()) == list(range(2000))
    assert (served.keys == messages.keys[served.numbers]).all()
    assert (served.finished > served.created).all()
    expected = simulate("key", messages, workers=4, sources=2, marks=1).loads
    assert np.bincount(served.workers, minlength=4).tolist() == expected.tolist()
    while topics & set(broker.admin().list_topics(timeout=30).topics):  # a broker deletes them soon
        time.sleep(0.05)


@pytest.mark.faults
@in_make_faults
def test_a_figure_is_deployed_on_a_standalone_cluster(tmp_path: Path) -> None:
    with LocalCluster(workers=2, cores=15) as cluster:  # three queries of ten workers at once
        command = [
            sys.executable,
            "-c",
            "from evenflow.cli import main; main()",
            "reproduce",
            "dynamic/table3",
        ]
        options = [
            "--on",
            "spark",
            "--master",
            cluster.master,
            "--out",
            str(tmp_path),
            "--page",
            str(tmp_path / "page.md"),
        ]
        done = subprocess.run(
            [*command, *options, "--json"], capture_output=True, text=True, timeout=600, check=False
        )
    assert done.returncode == 0, done.stderr[-2000:]
    claims = json.loads(done.stdout)
    assert {claim["on"] for claim in claims} == {"spark"}
    assert claims == json.loads((tmp_path / "claims.json").read_text())
    with (tmp_path / "dynamic-table3.csv").open() as file:
        found = list(csv.DictReader(file))
    [point] = find(["dynamic/table3"], "spark")[0].points(RunConfig(master=cluster.master))
    assert {row["label"] for row in found} == {label for label, _, _ in point["subjects"]}
    for row in found:
        assert float(row["latency_p50"]) <= float(row["latency_p95"]) <= float(row["latency_p99"])
        assert float(row["floor_mean"]) < float(row["latency_mean"]) <= float(row["latency_worker"])
    assert len({row["messages"] for row in found}) == 1, "pairs are those of the same messages"
    rows = {row["label"]: row for row in found if (row["load"], row["of"]) == ("0.95", "own")}
    assert float(rows["KG"]["memory"]) == 1
    assert float(rows["SG"]["max_over_mean"]) == pytest.approx(1, abs=0.01)
    assert float(rows["KG"]["max_over_mean"]) > 6, "68 percent of the messages have one key"
    assert float(rows["SG"]["of_key"]) > 2, (
        "seven times without an engine; two thirds of it may be lost to load"
    )
    assert "## What must hold" in (tmp_path / "page.md").read_text()
