"""Metrics for Prometheus: names, values, bounds, the Grafana dashboard, and a real scrape."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import evenflow as ef
from evenflow.control.directory import Control
from evenflow.history.watch import Watched
from evenflow.metrics.collector import MAX_WORKERS, PREFIX, RANKS, Metrics, serve
from evenflow.testing import wait_for
from history.notes import batch_note, write_log

GRAFANA = Path(__file__).parents[2] / "docs" / "spark" / "grafana.json"
UNITS = ("_seconds", "_bytes", "_ratio", "_total", "_rows", "_keys", "_homes", "keys", "workers")


def scraped(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """What Prometheus would get, by name and labels."""
    registry = CollectorRegistry()
    registry.register(metrics)
    text = generate_latest(registry).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def filled(folder: Path, workers: int = 4) -> Watched:
    control = Control(folder)
    for number in range(3):
        for worker in range(workers):
            control.note("busy", run="r", batch=number, worker=worker, rows=1, seconds=0.5)
        note = batch_note(number, workers=workers, late=2, state_bytes=700, state_keys=9, waiting=12)
        control.note(**{name: value for name, value in note.items() if name != "time"})
    control.note("plan", operator="fill-1", batch=2, changed=True, reason="why", serial=3)
    control.note("fallback", operator="fill-1", why="gone")
    decisions = Control(folder / "decisions")
    decisions.note(
        "migration", operator="fill-1", **{"batch": 2, "from": 3, "to": 4, "keys": 40, "bytes": 9},
        state_keys=100, part=0.4, ideal=0.25,
    )  # fmt: skip
    return Watched(folder, "orders")


def test_the_numbers_of_a_query(tmp_path: Path) -> None:
    found = scraped(Metrics([filled(tmp_path)]))
    name = "orders: fill-1"
    expected = {
        "rows_total": 150, "batches_total": 3, "batch_seconds_total": 1.5, "late_rows_total": 6,
        "fallbacks_total": 1, "plan_changes_total": 1, "migrations_total": 1, "migrated_keys_total": 40,
        "workers": 4, "last_batch_rows": 50, "last_batch_duration_seconds": 0.5, "max_over_mean_ratio": 1.6,
        "hashed_max_over_mean_ratio": 1.6, "busy_over_mean_ratio": 1.0, "keys": 5, "key_homes_ratio": 1.2,
        "state_bytes": 700, "state_keys": 9, "hot_keys": 1, "source_backlog_rows": 12,
    }  # fmt: skip
    assert {key: found[PREFIX + key, name] for key in expected} == expected
    assert found[f"{PREFIX}worker_rows_total", name, "0"] == 60
    assert found[f"{PREFIX}worker_busy_seconds_total", name, "3"] == 1.5
    assert found[f"{PREFIX}worker_queue_rows", name, "1"] == 10
    assert found[f"{PREFIX}hot_key_share_ratio", name, "1"] == 0.4
    assert found[f"{PREFIX}hot_key_homes", name, "1"] == 2
    assert 0 <= found[f"{PREFIX}plan_age_seconds", name] < 600


def test_names_follow_the_conventions(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    registry.register(Metrics([filled(tmp_path)]))
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        assert re.fullmatch(r"evenflow_[a-z_]+", family.name)
        assert family.documentation.endswith(".")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
            assert sample.name.endswith(UNITS), sample.name


def test_series_are_bounded(tmp_path: Path) -> None:
    watched = filled(tmp_path, workers=300)
    hot = [[f"{key:016x}", 30, [0, 1], None] for key in range(40)]
    write_log(tmp_path, [batch_note(3, workers=300, hot=hot)])
    few = scraped(Metrics([watched]))  # more workers than have series of their own by default
    assert len(few) < 50
    assert sum(name == f"{PREFIX}hot_key_share_ratio" for name, *_ in few) == RANKS
    assert MAX_WORKERS < 300
    many = scraped(Metrics([Watched(tmp_path)], per_worker=True))
    assert sum(name == f"{PREFIX}worker_rows_total" for name, *_ in many) == 300
    small = scraped(Metrics([filled(tmp_path / "small")], per_worker=False))
    assert not any("worker_rows" in name for name, *_ in small)


def test_counters_only_grow_while_the_log_is_rotated(tmp_path: Path) -> None:
    control, metrics = Control(tmp_path), Metrics([Watched(tmp_path, "q")])
    before: dict[tuple[str, ...], float] = {}
    for number in range(600):
        note = batch_note(number, workers=200)
        control.note(**{name: value for name, value in note.items() if name != "time"})
        if number % 40 == 0:
            now = scraped(metrics)
            assert all(now[key] >= value for key, value in before.items() if key[0].endswith("_total"))
            before = now
    assert (tmp_path / "history.jsonl").exists()
    assert scraped(metrics)[f"{PREFIX}batches_total", "q: fill-1"] == 600


def test_the_grafana_dashboard_uses_what_is_there(tmp_path: Path) -> None:
    known = {name for name, *_ in scraped(Metrics([filled(tmp_path)]))}
    board = json.loads(GRAFANA.read_text())
    used: set[str] = set()
    for panel in board["panels"]:
        assert panel["fieldConfig"]["defaults"]["min"] == 0
        for target in panel["targets"]:
            used |= set(re.findall(r"evenflow_\w+", target["expr"]))
    assert used == known  # each of ours is on it, and no other
    assert "evenflow_batches_total" in board["templating"]["list"][1]["query"]["query"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    port = free_port()
    stop = serve(Metrics([]), port)
    try:
        with pytest.raises(ef.EvenflowError, match=f"port {port} .*--metrics-port"):
            serve(Metrics([]), port)
    finally:
        stop()
    serve(Metrics([]), port)()  # free again


def test_a_real_prometheus_scrapes_it(tmp_path: Path) -> None:
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("there is no Prometheus here; apt-get install prometheus to run this test")
    port, own = free_port(), free_port()
    jobs = [{"job_name": "evenflow", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]
    config = json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs})  # JSON is YAML
    (tmp_path / "prometheus.yml").write_text(config)
    stop = serve(Metrics([filled(tmp_path / "control")]), port)
    command = [
        binary, f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{own}",
    ]  # fmt: skip
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        found: Any = wait_for(lambda: asked(own, "evenflow_rows_total"), "a scrape")
        assert found[0]["metric"]["query"] == "orders: fill-1"
        assert float(found[0]["value"][1]) == 150
        board = json.loads(GRAFANA.read_text())
        for panel in board["panels"]:  # Prometheus understands each of them
            for target in panel["targets"]:
                asked(own, target["expr"].replace("$query", ".*"))
        assert len(asked(own, 'evenflow_worker_queue_rows{query=~".*"}')) == 4
    finally:
        server.terminate()
        server.wait(30)
        stop()


def asked(port: int, query: str) -> list[dict[str, Any]]:
    """The result of a query; an error of Prometheus is raised, and one of the connection is none yet."""
    address = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return []
        raise AssertionError(f"{query}: {error.read().decode()}") from error
    except OSError:
        return []
