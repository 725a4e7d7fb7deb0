"""``evenflow simulate`` as a user runs it: its options, results as JSON, files and a plot, and mistakes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import evenflow as ef
from evenflow.cli import main
from evenflow.simulator import Aggregation, Capacities, Queueing, Rescale, simulate
from evenflow.simulator.result import plain

STREAM = "zipf:z=1.4,keys=100,messages=2000,seed=1"
FIELDS = {
    "scheme",
    "workers",
    "sources",
    "messages",
    "keys",
    "imbalance",
    "imbalance_mean",
    "max_over_mean",
    "replicas",
    "memory",
    "messages_per_second",
}
QUEUE_FIELDS = {
    "latency_mean",
    "latency_worst_mean",
    "latency_p50",
    "latency_p95",
    "latency_p99",
    "throughput",
    "makespan",
}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["simulate", *arguments])


def rows(*arguments: str) -> list[dict[str, Any]]:
    result = run("--stream", STREAM, *arguments, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, list)
    return found


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return str(result.stderr)


def without_speed(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "messages_per_second"}


def same(row: dict[str, Any], *arguments: Any, **options: Any) -> bool:
    return without_speed(row) == without_speed(plain(simulate(*arguments, **options).row()))


def test_json_is_one_object_per_scheme_and_number_of_workers() -> None:
    found = rows("--scheme", "key,pkg,fill", "--workers", "3,7", "--sources", "2", "--seed", "5")
    assert [(row["workers"], row["scheme"]) for row in found] == [
        (workers, scheme) for workers in (3, 7) for scheme in ("key", "partial-key", "fill")
    ]
    for row in found:
        assert set(row) >= FIELDS
        assert not set(row) & QUEUE_FIELDS
        assert (row["sources"], row["seed"], row["messages"], row["stream"]) == (2, 5, 2000, STREAM)
        assert same(row, row["scheme"], STREAM, row["workers"], 2, 5)


def test_parameters_are_spelled_after_the_scheme() -> None:
    found = rows("--scheme", "d-choices:epsilon=1e-3,distinct=no,fill:split=no", "--workers", "5")
    assert [row["parameters"] for row in found] == [
        "d-choices(distinct=False, epsilon=0.001)",
        "fill(split=False)",
    ]
    assert same(found[0], ef.scheme("d-choices", distinct=False, epsilon=1e-3), STREAM, 5, 5)


def test_queues_come_with_any_option_of_theirs() -> None:
    (row,) = rows(
        "--scheme", "fill", "--workers", "4", "--capacity", "1x5,3x1", "--rate", "500", "--load", "0.9"
    )
    assert set(row) >= FIELDS | QUEUE_FIELDS
    assert same(row, "fill", STREAM, 4, queueing=Queueing(rate=500, capacity="1x5,3x1", load=0.9))
    (row,) = rows("--scheme", "key", "--workers", "4", "--load", "none", "--rate", "5", "--cost", "0.1")
    assert same(row, "key", STREAM, 4, queueing=Queueing(rate=5, load=None, cost=0.1))
    (row,) = rows(
        *("--scheme", "cg", "--workers", "4", "--rate", "100", "--arrivals", "poisson"),
        *("--service", "exponential", "--warm-up", "1e2", "--feedback-delay", "0.5"),
    )
    queueing = Queueing(rate=100, arrivals="poisson", service="exponential", warm_up=100, feedback_delay=0.5)
    assert same(row, "consistent", STREAM, 4, queueing=queueing)


def test_events_are_given_by_message() -> None:
    (row,) = rows("--scheme", "fill", "--workers", "4", "--rescale", "500:6,1e3:5")
    assert same(row, "fill", STREAM, 4, events=[Rescale(500, 6), Rescale(1000, 5)])
    (row,) = rows(
        "--scheme", "fill", "--workers", "2", "--capacity-at", "500:1,5", "--capacity-at", "1e3:2x1"
    )
    events = [Capacities(500, "1,5"), Capacities(1000, "2x1")]
    assert same(row, "fill", STREAM, 2, queueing=Queueing(), events=events)


def test_the_other_options_reach_the_simulator() -> None:
    (row,) = rows(
        *("--scheme", "key", "--workers", "4", "--feed", "skewed:1.5", "--head", "0.05"),
        *("--aggregate-every", "500", "--aggregate-cost", "0.001"),
    )
    assert same(row, "key", STREAM, 4, feed="skewed:1.5", head=0.05, aggregation=Aggregation(500, 0.001))
    (row,) = rows("--scheme", "explicit", "--workers", "4", "--resources", "LCL")
    assert "balance" in row
    assert same(row, "explicit", STREAM, 4, resources="LCL")


def test_files_are_read_by_column(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,page,at\n" + "".join(f"u{i % 7},p{i % 3},{i}\n" for i in range(100)))
    result = run(
        *("--scheme", "key", "--stream", str(path), "--key", "user", "--key", "page", "--time", "at"),
        *("--workers", "2", "--json"),
    )
    (row,) = json.loads(result.stdout)
    assert (row["keys"], row["messages"], row["stream"]) == (21, 100, f"{path}#user+page@at")
    result = run("--scheme", "key", "--stream", f"{path}#page", "--workers", "2", "--json")
    assert json.loads(result.stdout)[0]["keys"] == 3


def test_people_see_a_table() -> None:
    result = run("--scheme", "key,fill:epsilon=0.1", "--stream", STREAM, "--workers", "4", "--load", "0.8")
    assert result.exit_code == 0
    assert "### 2,000 messages, " in result.stdout
    assert "| fill:epsilon=0.1 |" in result.stdout
    assert "### Queues" in result.stdout
    assert "nan" not in result.stdout


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_processes_give_the_same_in_the_same_order(jobs: str) -> None:
    found = rows("--scheme", "key,shuffle", "--workers", "2,3", "--jobs", jobs)
    assert [(row["scheme"], row["workers"]) for row in found] == [
        ("key", 2),
        ("shuffle", 2),
        ("key", 3),
        ("shuffle", 3),
    ]
    assert all(same(row, row["scheme"], STREAM, row["workers"]) for row in found)


def test_rows_go_to_a_file(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    found = rows("--scheme", "key,fill", "--workers", "2", "--csv", str(table))
    with table.open() as lines:
        written = list(csv.DictReader(lines))
    assert [row["scheme"] for row in written] == ["key", "fill"]
    assert float(written[0]["imbalance"]) == found[0]["imbalance"]
    parquet = tmp_path / "rows.parquet"
    rows("--scheme", "key", "--workers", "2", "--csv", str(parquet))
    assert pyarrow.parquet.read_table(parquet)["replicas"].to_pylist() == [found[0]["replicas"]]


@pytest.mark.parametrize("more", [(), ("--workers", "2,4"), ("--load", "0.8"), ("--rescale", "1000:3")])
def test_a_plot_is_drawn(tmp_path: Path, more: tuple[str, ...]) -> None:
    path = tmp_path / "plot.png"
    result = run(
        "--scheme", "consistent-hash,fill", "--stream", STREAM, "--workers", "2", "--plot", str(path), *more
    )
    assert result.exit_code == 0, result.output
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--scheme", "fil"), "there is no scheme 'fil'; did you mean 'fill'"),
        (("--scheme", "fill:epsilom=1"), "fill has no parameter 'epsilom'; did you mean 'epsilon'"),
        (("--workers", "0"), "workers is 0; a router needs at least one worker"),
        (("--workers", "4,x"), "--workers is '4,x'; it must be whole numbers such as 10,50,100"),
        (("--workers", "2.5"), "--workers is '2.5'; it must be whole numbers"),
        (("--sources", "0"), "sources is 0; a stream needs at least one source"),
        (("--capacity", "3x5,7x1"), "capacity has 10 values for 4 workers"),
        (("--capacity", "four"), "capacity is 'four'; write '3x5,7x1'"),
        (("--capacity", "3x1,0"), "capacities must be finite and above 0"),
        (("--load", "much"), "--load is 'much'; it must be a utilisation such as 0.8"),
        (("--load", "-1"), "load is -1.0; use a share"),
        (("--rate", "0"), "rate is 0.0; use messages per second"),
        (("--arrivals", "poisson"), "arrivals is 'poisson' without a rate"),
        (("--rescale", "100:5"), "key cannot change its number of workers; choose one of "),
        (
            ("--scheme", "fill", "--rescale", "100"),
            "--rescale is '100'; it must be message:workers, such as 5e5:12",
        ),
        (("--scheme", "fill", "--rescale", "5000:5"), "the stream has 2000 messages"),
        (("--scheme", "fill", "--rescale", "100:0"), "workers is 0"),
        (
            ("--capacity-at", "100"),
            "--capacity-at is '100'; it must be message:capacities, such as 6e6:7x1,3x5",
        ),
        (("--capacity-at", "100:1,2"), "capacities has 2 values for 4 workers"),
        (
            ("--scheme", "fill", "--resources", "LCL"),
            "fill splits keys; use a scheme with one owner per key, such as explicit",
        ),
        (("--aggregate-cost", "1"), "--aggregate-cost needs --aggregate-every"),
        (("--feed", "slow"), "feed is 'slow'; use 'shuffle', 'key', 'skewed'"),
        (("--head", "2"), "head is 2.0; use a share of the stream"),
        (("--jobs", "0"), "--jobs is 0; it must be at least 1"),
        (("--plot", "plot.bmp"), "use .png, .svg or .pdf"),
        (("--csv", "rows.xls"), "use .csv, .json, .parquet or .arrow"),
        (("--csv", "nowhere/rows.csv"), "there is no folder 'nowhere'"),
        (("--stream", "nothing.parquet"), "there is no file 'nothing.parquet'"),
        (("--stream", "zipf:exponent=2"), "zipf has no parameter 'exponent'"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in refusal("--scheme", "key", "--stream", STREAM, "--workers", "4", *arguments)


def test_what_one_scheme_cannot_do_is_said_before_the_first_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    import evenflow.simulator

    monkeypatch.setattr(evenflow.simulator, "simulate", lambda *_, **__: pytest.fail("it ran"))
    said = refusal("--scheme", "fill,key", "--stream", STREAM, "--workers", "4", "--rescale", "100:5")
    assert "key cannot change its number of workers" in said


def test_empty_data_and_null_keys_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("key\n")
    assert "has no rows" in refusal("--scheme", "key", "--stream", str(path), "--workers", "2")
    path.write_text("key,other\n,1\n,2\n")
    assert "is null" in refusal("--scheme", "key", "--stream", f"{path}#key", "--workers", "2")


def test_an_interrupt_shows_what_is_done_and_ends_with_130(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from evenflow.cli import main; main(prog_name='evenflow')", "simulate"]
    table = tmp_path / "rows.csv"
    options = ["--scheme", "key,fill", "--stream", "zipf:messages=3e10", "--workers", "4", "--jobs", "1"]
    with subprocess.Popen(
        [*command, *options, "--csv", str(table)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    ) as process:
        assert process.stderr is not None
        while "simulate: " not in process.stderr.readline():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "interrupted after 0 of 2 simulations" in said
    assert "Traceback" not in said
    assert output == ""
