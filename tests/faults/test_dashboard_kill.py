"""A run is killed in the middle and started again: its dashboard goes on where it was, and misses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dashboard.in_browser import emulate, errors, open_page, shown, table_of
from dashboard.test_server import served
from evenflow.testing import wait_for
from extent import in_make_faults

pytestmark = [pytest.mark.spark, pytest.mark.faults]
BATCHES = 10
ROWS = 3000
STARTED = "[...document.querySelectorAll('#events strong')].filter(one => /^Started/.test(one.textContent))"


@in_make_faults
@pytest.mark.timeout(900)
def test_the_dashboard_of_a_killed_run_goes_on(browser: Any, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    with served(checkpoint) as running:
        job = start(checkpoint, tmp_path / "first.log")
        try:
            wait_for(lambda: batch_of(running) >= 2, "the third batch", 300)
            emulate(browser)
            open_page(browser, running.url)
            wait_for(lambda: shown(browser, "document.body.dataset.batch"), "a batch on the page")
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        killed_at = batch_of(running)
        assert killed_at < BATCHES - 1, "it was over before it was killed"
        again = start(checkpoint, tmp_path / "second.log")
        assert again.wait(400) == 0, (tmp_path / "second.log").read_text()[-2000:]
        wait_for(lambda: shown(browser, "document.body.dataset.batch") == str(BATCHES - 1), "the last batch")
        table = table_of(browser, "balance-chart")
        batches = [int(row[0].rpartition(" ")[2]) for row in table]
        assert sorted(set(batches)) == list(range(BATCHES))  # the one that was killed may be there twice
        assert shown(browser, f"{STARTED}.length") == 2
        (query,) = running.queries.all()
        assert query.history.totals["rows"] == ROWS * len(batches)
        assert errors(browser) == []


def batch_of(running: Any) -> int:
    """The last batch that the dashboard has seen."""
    numbers = [query.history.summary().get("batch") for query in running.queries.all()]
    return max((number for number in numbers if number is not None), default=-1)


def start(checkpoint: Path, log: Path) -> subprocess.Popen[bytes]:
    source = f"zipf:z=1.2,keys=500,messages={ROWS * BATCHES}"
    options = ["--source", source, "--batch", str(ROWS), "--workers", "4", "--checkpoint", str(checkpoint)]
    command = [sys.executable, "-c", "from evenflow.cli import main; main()", "run", *options]
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
