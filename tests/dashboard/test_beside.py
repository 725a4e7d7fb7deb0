"""The dashboard and the metrics beside a run: there while it lasts, and gone afterwards."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from evenflow.commands.dashboard import beside
from evenflow.commands.run import _measured
from evenflow.testing import wait_for
from history.notes import batch_note, write_log
from metrics.test_metrics import free_port


def test_the_dashboard_beside_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "control").mkdir()
    with beside(True, 0, "evenflow run --dashboard") as show:
        found = re.search(r"http://127\.0\.0\.1:\d+/", capsys.readouterr().err)
        assert found is not None
        address = f"{found[0]}queries.json"
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert json.load(answer) == []
        for _ in range(2):  # the same name twice, as of two runs
            show(tmp_path / "control", "count")
        write_log(tmp_path / "control", [batch_note(4)])

        def names() -> list[str]:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return [one["summary"]["name"] for one in json.load(answer)]

        wait_for(lambda: names() == ["count: fill-1", "count 2: fill-1"], "the runs")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)
    with beside(False, 0, "nothing") as show:
        show(tmp_path, "ignored")
    assert capsys.readouterr().err == ""


def test_metrics_beside_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    write_log(tmp_path, [batch_note(4)])
    with _measured(port, "127.0.0.1") as measure:
        measure(tmp_path, "count")
        address = f"http://127.0.0.1:{port}/metrics"
        assert address in capsys.readouterr().err
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert 'evenflow_last_batch_rows{query="count: fill-1"} 50.0' in answer.read().decode()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)
