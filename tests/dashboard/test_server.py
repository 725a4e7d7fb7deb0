"""The dashboard's server: what it answers, what it refuses, what it never shows."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import evenflow as ef
from evenflow.cli import main
from evenflow.control.directory import Control
from evenflow.dashboard.page import saved_page
from evenflow.dashboard.queries import Queries
from evenflow.dashboard.server import Dashboard
from evenflow.testing import wait_for
from history.notes import batch_note, write_log

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@contextmanager
def served(*paths: Path, token: str | None = None) -> Iterator[Dashboard]:
    with Dashboard(Queries(list(paths)), port=0, token=token).running() as running:
        yield running


def ask(
    running: Dashboard, path: str, method: str = "GET", body: Any = None, **headers: str
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {name.replace("_", "-"): text for name, text in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


def test_the_page_its_parts_and_its_numbers(tmp_path: Path) -> None:
    write_log(tmp_path / "orders", [batch_note(3)])
    with served(tmp_path / "orders") as running:
        status, headers, page = ask(running, "/")
        assert status == 200
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        parts = re.findall(r'(?:src|href)="(static/[^"]+)"', page)
        assert len(parts) == 6
        for part in parts:
            assert ask(running, f"/{part}")[0] == 200
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)  # nothing from a network
        assert not re.findall(r"\sstyle=|<script>|onclick=", page)  # the policy would refuse them
        wait_for(lambda: json.loads(ask(running, "/queries.json")[2]), "the first poll")
        ((query),) = json.loads(ask(running, "/queries.json")[2])
        snapshot = json.loads(ask(running, f"/queries/{query['id']}.json")[2])
        assert snapshot["summary"]["max_over_mean"] == 1.6
        assert snapshot["workers"]["rows"] == [20, 10, 10, 10]
        assert ask(running, "/queries/none.json")[0] == 404
        assert ask(running, "/static/../page.py")[0] == 404
        status, headers, saved = ask(running, "/save")
        assert "attachment" in headers["content-disposition"]
        assert len(saved) < 500_000


def test_events_are_sent_when_a_batch_comes(tmp_path: Path) -> None:
    write_log(tmp_path, [batch_note(0)])
    with served(tmp_path) as running:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.getheader("content-type", "").startswith("text/event-stream")
        first = answer.readline()
        assert first.startswith(b"data: ")
        answer.readline()
        wait_for(lambda: running.queries.revision >= 1, "the first poll")
        write_log(tmp_path, [batch_note(1)])
        later = b""
        while not later.startswith(b"data: ") or later <= first:
            later = answer.readline()
        connection.close()


def test_another_host_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        assert ask(running, "/queries.json", Host="evil.example")[0] == 400
        assert ask(running, "/queries.json", Host="localhost")[0] == 200


def test_nothing_is_steered_without_being_allowed_and_the_token(tmp_path: Path) -> None:
    write_log(tmp_path, [batch_note(0)])
    with served(tmp_path) as running:
        status, _, text = ask(running, "/queries/x/rescale", "POST", {"workers": 5})
        assert (status, "--allow-actions" in text) == (403, True)
    with served(tmp_path, token="right") as running:
        wait_for(running.queries.all, "the first poll")
        (query,) = running.queries.all()
        path = f"/queries/{query.id}/rescale"
        for given in ("", "Bearer wrong", "right-but-longer"):
            status, _, text = ask(running, path, "POST", {"workers": 5}, Authorization=given)
            assert (status, "token is wrong" in text) == (403, True)
        status, _, text = ask(running, path, "POST", {"workers": 5}, Authorization="Bearer right")
        assert (status, "only a stateful query" in text) == (400, True)  # a control directory alone is none
        status, _, text = ask(running, path, "POST", "x" * 2000, Authorization="Bearer right")
        assert status == 400
        assert ask(running, path)[0] == 405
    assert not (tmp_path / "requests").exists()


def test_texts_are_data_and_paths_stay_at_home(tmp_path: Path) -> None:
    folder = tmp_path / "a<b>&"
    write_log(folder, [batch_note(0, operator=EVIL, hot=[["00ff", 20, [0], None, EVIL]])])
    Control(folder).note("fallback", operator=EVIL, why=f"{EVIL} at {tmp_path}/x")
    with served(folder) as running:
        wait_for(running.queries.all, "the first poll")
        (query,) = running.queries.all()
        assert re.fullmatch(r"[\w.-]+", query.id)
        for text in (
            ask(running, "/queries.json")[2],
            ask(running, f"/queries/{query.id}.json")[2],
            saved_page(running.queries),
        ):
            assert EVIL not in text
            assert "<img" not in text
            assert str(tmp_path) not in text
        shown = json.loads(ask(running, f"/queries/{query.id}.json")[2])
        assert shown["hot"][0]["key"] == EVIL[:119] + "…" if len(EVIL) > 120 else EVIL


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    with (
        served(tmp_path) as running,
        pytest.raises(ef.EvenflowError, match=f"port {running.port} .*use another --port"),
        Dashboard(Queries([]), port=running.port).running(),
    ):
        pass


def test_the_command_saves_one_file(tmp_path: Path) -> None:
    write_log(tmp_path / "orders", [batch_note(number) for number in range(30)])
    report = tmp_path / "report.html"
    done = CliRunner().invoke(main, ["dashboard", str(tmp_path / "orders"), "--save", str(report)])
    assert done.exit_code == 0, done.output
    page = report.read_text()
    assert "sha256-" in page
    assert "src=" not in page
    assert str(tmp_path) not in page
    assert len(page) < 500_000
    data = re.search(r'<script type="application/json" id="saved">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])[0]["summary"]["batch"] == 29
    done = CliRunner().invoke(main, ["dashboard", str(tmp_path / "nothing")])
    assert done.exit_code == 2
    assert "there is no folder" in done.output
    done = CliRunner().invoke(main, ["dashboard", str(tmp_path), "--save", str(tmp_path / "x.pdf")])
    assert "use .html" in done.output
