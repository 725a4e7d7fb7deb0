"""From topic to topic exactly once: numbers 1 to N go in, the query and the broker are killed, N come out.

The test reads committed records only, as a consumer downstream would.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from evenflow.testing.kafka import Broker
from extent import in_make_faults
from faults.test_join_faults import ENVIRONMENT

pytestmark = [pytest.mark.spark, pytest.mark.faults]

JOB = Path(__file__).parent / "jobs" / "topics.py"
EVENFLOW = "from evenflow.cli import main; main(prog_name='evenflow')"
RECORDS = 6000
KILLS = 4


@in_make_faults
@pytest.mark.timeout(1800)
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, kafka_jars: Path) -> None:
    broker = Broker(tmp_path / "broker", kafka_jars / "broker")
    broker.start()
    try:
        broker.create("in", 3)
        broker.create("out", 4)
        keys = [b"hot" if number % 2 else f"k{number % 60}".encode() for number in range(RECORDS)]
        broker.produce("in", [(key, str(number).encode()) for number, key in enumerate(keys)])
        chance = Random(22)
        killed = 0
        while (status := run(broker, tmp_path, killed, chance)) != 0:
            assert status == -signal.SIGKILL or killed % 2, (tmp_path / "log").read_text()[-3000:]
            killed += 1
            assert killed <= KILLS, (tmp_path / "log").read_text()[-3000:]
        assert killed >= 3
        written = [json.loads(record.value()) for record in broker.consume("out")]
    finally:
        broker.kill()
    assert sorted(row["number"] for row in written) == list(range(RECORDS))
    for name in {row["name"] for row in written}:  # state went on as if nothing had happened
        counts = sorted(row["count"] for row in written if row["name"] == name)
        assert counts == list(range(1, len(counts) + 1))


@in_make_faults
def test_a_task_that_runs_again_reads_records_in_the_same_order(broker: Broker) -> None:
    topic = broker.create("retried", 3)
    keys = [b"hot" if number % 2 else f"k{number % 300}".encode() for number in range(5000)]
    broker.produce(topic, [(key, str(number).encode()) for number, key in enumerate(keys)])
    program = JOB.with_name("topic_retries.py")
    command = [sys.executable, str(program), broker.servers, topic, str(broker.jars.parent / "connector")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert sum(rows for rows, _ in found["without"].values()) == len(keys)
    assert found["task failed"] == found["without"]
    assert "deliberate failure of the first attempt" in done.stderr


@in_make_faults
def test_a_missing_connector_and_expired_records_are_one_sentence(broker: Broker, tmp_path: Path) -> None:
    """In a process of its own: an error of Kafka's classes reaches the driver only from ``spark.jars``."""
    from confluent_kafka import TopicPartition

    topic = broker.create("expired", 1)
    broker.produce(topic, [(b"a", b"x")] * 10)
    source = broker.address(topic, value="text")
    without, sentence = command(broker, source, tmp_path, connector=False)
    assert without == 2
    assert (
        "this Spark has no Kafka connector; start it with --packages org.apache.spark:spark-sql" in sentence
    )
    assert command(broker, source, tmp_path)[0] == 0
    broker.produce(topic, [(b"a", b"x")] * 10)
    admin = broker.admin()
    for deleted in admin.delete_records([TopicPartition(topic, 0, 15)]).values():
        deleted.result(30)
    status, sentence = command(broker, source, tmp_path)
    assert status == 2
    assert "records that it has not read yet are gone from the topic" in sentence
    status, printed = command(broker, f"{source}&failOnDataLoss=false", tmp_path)
    assert status == 0, printed
    assert json.loads(printed[printed.index("{") :])["rows"] == 5


@in_make_faults
def test_a_topic_that_was_made_anew_with_fewer_partitions_is_one_sentence(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.create("shrunk", 3)
    broker.produce(topic, [(str(number).encode(), b"x") for number in range(30)])
    source = broker.address(topic, value="text")
    assert command(broker, source, tmp_path)[0] == 0
    admin = broker.admin()
    admin.delete_topics([topic])[topic].result(30)
    while topic in broker.admin().list_topics(timeout=30).topics:
        time.sleep(0.1)
    broker.create(topic, 1)
    broker.produce(topic, [(b"a", b"x")] * 3)
    status, sentence = command(broker, source, tmp_path)
    assert status == 2
    assert "records that it has not read yet are gone from the topic" in sentence


def command(broker: Broker, source: str, folder: Path, *, connector: bool = True) -> tuple[int, str]:
    """Run `evenflow run` on a topic; return how it ended and what it said."""
    jars = ",".join(str(jar) for jar in sorted((broker.jars.parent / "connector").glob("*.jar")))
    words = ["run", "--source", source, "--key", "key", "--workers", "2", "--scheme", "key", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", EVENFLOW, *words, "--checkpoint", str(folder / "checkpoint")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **({"PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"} if connector else {})},
    )
    return done.returncode, done.stderr + done.stdout


def run(broker: Broker, folder: Path, turn: int, chance: Random) -> int:
    """Run the query; once it has written some more, kill it, in every second turn the broker before it."""
    command = [sys.executable, str(JOB), broker.servers, str(folder), str(broker.jars.parent / "connector")]
    with (folder / "log").open("ab") as log:
        job = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        if turn < KILLS:
            wait_for_more(broker, job)
            if turn % 2:  # the query outlives a broker that comes back soon, or fails with a sentence
                broker.kill()
                time.sleep(2 * chance.random())
                broker.start()
                wait_for_more(broker, job)
            time.sleep(chance.random())
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        return job.wait(600)
    finally:
        job.kill()


def wait_for_more(broker: Broker, job: subprocess.Popen[bytes]) -> None:
    """Wait until the query has written a hundred records more, or has ended."""
    before = end_of(broker)
    while job.poll() is None and end_of(broker) < before + 100:
        time.sleep(0.05)


def end_of(broker: Broker) -> int:
    """Return how many offsets topic ``out`` has, those of marks and of aborted transactions included."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer: Any = Consumer({"bootstrap.servers": broker.servers, "group.id": "ends", "log_level": 0})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition("out", at), timeout=30)[1] for at in range(4)
        )
    except KafkaException:  # it has just come back, and has yet to become the leader of the partitions
        time.sleep(0.2)
        return end_of(broker)
    finally:
        consumer.close()
