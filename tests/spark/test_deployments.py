"""Deployments: their pipeline on the session of all tests, and the real command on a standalone cluster.

The cluster takes minutes; ``make faults`` (EVENFLOW_FAULTS=all) starts it.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.papers import find
from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.papers.deployments.flow import Flow
from evenflow.papers.deployments.harness import Harness
from evenflow.papers.deployments.serving import SLICE
from evenflow.papers.deployments.streamed import streamed
from evenflow.papers.deployments.topics import TopicHarness
from evenflow.papers.experiment import RunConfig
from evenflow.papers.table import Table
from evenflow.simulator import simulate
from evenflow.testing import LocalCluster
from extent import in_make_faults

pytestmark = pytest.mark.spark


def test_the_pipeline_serves_every_message_where_the_scheme_sends_it(spark: Any, tmp_path: Path) -> None:
    """As in the test on a cluster below: 68 percent of the messages have one key."""
    messages = Messages.of("election:messages=3000,seed=18")
    cluster = Cluster(workers=10, sources=2, service=1e-6)
    harness = Harness(spark, tmp_path)
    found = {
        name: harness.run(ef.scheme(name), messages, cluster).numbers() for name in ("shuffle", "key", "fill")
    }
    assert found["key"]["memory"] == 1
    assert found["key"]["max_over_mean"] > 6
    assert found["shuffle"]["max_over_mean"] == pytest.approx(1, abs=0.01)
    assert found["fill"]["max_over_mean"] < 1.1
    assert 1 < found["fill"]["memory"] < found["shuffle"]["memory"]
    for numbers in found.values():
        assert numbers["latency_p50"] <= numbers["latency_p95"] <= numbers["latency_p99"]
        assert numbers["latency_mean"] <= numbers["latency_worker"]
    for name in ("key", "shuffle"):  # neither waits for reports, so the simulator sends every message alike
        loads = simulate(name, messages, workers=10, sources=2, marks=1).loads
        assert found[name]["max_over_mean"] == pytest.approx(loads.max() / loads.mean(), rel=1e-9)


def test_a_stream_is_paced_served_and_counted(spark: Any, tmp_path: Path) -> None:
    """Every message is created in its window and served once, where the scheme sends it."""
    messages = Messages.of("zipf:z=1.2,keys=50,messages=300,seed=2")
    flow = Flow(spark, tmp_path, messages.keys, ef.scheme("key"), workers=2, sources=2, interval=0.7)
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
    flow = Flow(spark, tmp_path, keys, ef.scheme("fill"), workers=2, sources=1, interval=0.7)
    try:
        flow.serve(np.array([0.0016, 0.0004]))
        batches = [batch for _ in range(6) for batch in flow.run(400)]
    finally:
        flow.stop()
    served = flow.served()
    slow = [(served.workers[served.batches == batch.number] == 0).mean() for batch in batches]
    assert abs(slow[0] - 0.5) < 0.1
    assert slow[-1] < 0.35
    assert batches[-1].seconds < 0.8 * max(batch.seconds for batch in batches)


@in_make_faults
def test_the_capacity_of_a_stream_is_found_before_and_after_a_worker_slows_down(spark: Any) -> None:
    """Three of four messages have one key, so two workers can serve 4/3 times what one can, by key."""
    phases = {"equal": [1.0, 1.0], "slow": [0.5, 0.5]}
    subjects: list[Any] = [("SG", "shuffle", {}), ("KG", "key", {})]
    rows = streamed("countries:skew=75,messages=4000,seed=1", 2, 2, 0.005, 1.5, subjects, phases=phases)
    table = Table.of_rows(rows)
    assert len(rows) == 2 * (4 + 2)
    for phase, speed in (("equal", 1.0), ("slow", 0.5)):
        same = table.only(phase=phase, load=0.95, of="KG")
        [key], [shuffle] = (same.only(label=label).to_dict("records") for label in ("KG", "SG"))
        assert 0.3 * 200 * speed < key["throughput"] < 200 * speed / 0.75
        assert 1.2 < shuffle["of_key"] < 1.9
        assert shuffle["predicted_of_key"] == pytest.approx(1.6, abs=0.25)
        assert shuffle["rate"] == pytest.approx(key["rate"])
        assert shuffle["latency_worker"] < key["latency_worker"]
    equal = table.only(phase="equal", of="own")
    assert sorted(equal["load"].unique().tolist()) == [0.5, 0.8, 0.95]
    assert equal["messages"].nunique() == 1
    assert equal.only(label="KG")["memory"].eq(1).all()
    assert (equal["latency_mean"] > equal["floor_mean"]).all()


def test_from_topic_to_topic_every_message_is_counted_where_the_scheme_sends_it(
    spark_kafka: Any, broker: Any, tmp_path: Path
) -> None:
    messages = Messages.of("election:messages=2000,seed=18")
    cluster = Cluster(workers=4, sources=2, service=1e-6)
    harness = TopicHarness(spark_kafka, tmp_path, servers=broker.servers)
    found = harness.run(ef.scheme("key"), messages, cluster)
    expected = simulate("key", messages, workers=4, sources=2, marks=1).loads
    assert found.loads.tolist() == expected.tolist()
    assert found.keys == found.pairs == messages.keys_upper_bound()
    topics = set(harness.created)
    assert topics <= set(broker.admin().list_topics(timeout=30).topics)
    harness.close()
    while topics & set(broker.admin().list_topics(timeout=30).topics):  # a broker deletes them soon
        time.sleep(0.05)


@pytest.mark.faults
@in_make_faults
def test_a_figure_is_deployed_on_a_standalone_cluster(tmp_path: Path) -> None:
    with LocalCluster(workers=2, cores=5) as cluster:
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
            [*command, *options, "--json"], capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stderr[-2000:]
    claims = json.loads(done.stdout)
    assert {claim["on"] for claim in claims} == {"spark"}
    assert claims == json.loads((tmp_path / "claims.json").read_text())
    with (tmp_path / "dynamic-table3.csv").open() as file:
        rows = {row["label"]: row for row in csv.DictReader(file)}
    [point] = find(["dynamic/table3"], "spark")[0].points(RunConfig(master=cluster.master))
    assert set(rows) == {label for label, _, _ in point["subjects"]}
    for label, row in rows.items():
        every = round(1 / float(row["share"]))
        assert int(row["messages"]) == math.ceil(point["messages"] / every), label
        assert float(row["latency_p50"]) <= float(row["latency_p95"]) <= float(row["latency_p99"])
        assert float(row["latency_mean"]) <= float(row["latency_worker"])
    assert float(rows["KG"]["memory"]) == 1
    assert float(rows["KG"]["share"]) < 1, "key grouping got a share of the messages"
    assert float(rows["SG"]["max_over_mean"]) == pytest.approx(1, abs=0.01)
    assert float(rows["KG"]["max_over_mean"]) > 6, "68 percent of the messages have one key"
    assert float(rows["SG"]["of_key"]) > 2, (
        "seven times without an engine; two thirds of it may be lost to load"
    )
    assert "## What must hold" in (tmp_path / "page.md").read_text()
