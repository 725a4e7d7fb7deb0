"""The page in a real browser: what it shows, in all sizes and colours, by keyboard, and saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.in_browser import emulate, errors, fact, open_page, shown, table_of, wait_for_batch
from dashboard.test_server import EVIL, served
from evenflow.dashboard.page import save
from evenflow.dashboard.queries import Queries
from evenflow.testing import wait_for
from extent import in_make_faults
from history.notes import batch_note, write_log

WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def test_the_page_follows_the_log(browser: Any, tmp_path: Path) -> None:
    write_log(tmp_path, [batch_note(number) for number in range(5)])
    with served(tmp_path) as running:
        emulate(browser)
        open_page(browser, running.url, 4)
        assert fact(browser, "rows") == "50"
        assert fact(browser, "max-over-mean") == "1.600"
        assert [row[:3] for row in table_of(browser, "rows-chart")] == [
            ["worker 0", "10", "20"], ["worker 1", "10", "10"], ["worker 2", "10", "10"],
            ["worker 3", "20", "10"],
        ]  # fmt: skip
        write_log(tmp_path, [batch_note(5, rows=[1000, 1000, 1000, 1000], busy=[1, 2, 3, 4])])
        wait_for_batch(browser, 5)
        assert fact(browser, "max-over-mean") == "1.000"
        assert [row[1:] for row in table_of(browser, "busy-chart")] == [["1"], ["2"], ["3"], ["4"]]
        lowest = shown(browser, "[...evenflowCharts.live].map(chart => chart.plot.scales.y.min)")
        assert lowest == [0] * 5  # every axis starts at zero
        assert errors(browser) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desk"])
def test_every_size_and_colour(browser: Any, tmp_path: Path, width: int, dark: bool) -> None:
    write_log(tmp_path, [batch_note(number, workers=64) for number in range(30)])
    with served(tmp_path) as running:
        emulate(browser, width, 1000, dark)
        open_page(browser, running.url, 29)
        assert not shown(browser, WIDE)  # nothing sticks out
        page = shown(browser, "getComputedStyle(document.body).backgroundColor")
        ink = shown(browser, "getComputedStyle(document.body).color")
        assert (brightness(page) < brightness(ink)) == dark
        browser.execute_script("document.getElementById('theme').click()")
        assert (brightness(shown(browser, "getComputedStyle(document.body).backgroundColor")) > 128) == dark
        assert errors(browser) == []


def brightness(colour: str) -> float:
    parts = colour[colour.index("(") + 1 : colour.index(")")].split(",")[:3]
    return sum(map(float, parts)) / 3


def test_charts_are_read_by_keyboard_and_by_screen_readers(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    write_log(tmp_path, [batch_note(number) for number in range(3)])
    with served(tmp_path) as running:
        emulate(browser)
        open_page(browser, running.url, 2)
        plot = browser.find_element(By.CSS_SELECTOR, "#rows-chart .plot")
        label = plot.get_attribute("aria-label")
        assert "now from 10 to 20" in label
        plot.send_keys(Keys.ARROW_RIGHT)
        readout = browser.find_element(By.CSS_SELECTOR, "#rows-chart output")
        wait_for(lambda: readout.text == "worker 0: with hashing 10, now 20", "the values of worker 0")
        plot.send_keys(Keys.END)
        wait_for(lambda: readout.text == "worker 3: with hashing 20, now 10", "the values of worker 3")
        button = browser.find_element(By.CSS_SELECTOR, "#rows-chart .legend button")
        button.send_keys(Keys.ENTER)
        assert button.get_attribute("aria-pressed") == "false"
        plot.send_keys(Keys.HOME)
        wait_for(lambda: readout.text == "worker 0: now 20", "the values without hashing")
        assert shown(browser, "document.querySelectorAll('section:not([aria-labelledby])').length") == 0
        assert errors(browser) == []


def test_evil_texts_are_shown_and_not_run(browser: Any, tmp_path: Path) -> None:
    write_log(tmp_path, [batch_note(0, operator=EVIL, hot=[["00ff", 20, [0], None, EVIL]])])
    with served(tmp_path) as running:
        emulate(browser)
        open_page(browser, running.url, 0)
        assert EVIL in shown(browser, "document.querySelector('#hot td').textContent")
        assert shown(browser, "document.querySelectorAll('img').length") == 0
        assert errors(browser) == []
        saved = tmp_path / "saved.html"
        save(running.queries, saved)
    open_page(browser, saved.as_uri(), 0)
    assert EVIL in shown(browser, "document.querySelector('#hot td').textContent")
    assert shown(browser, "document.querySelectorAll('img').length") == 0
    assert errors(browser) == []


def test_the_saved_file_shows_the_same_without_a_server(browser: Any, tmp_path: Path) -> None:
    for name in ("first", "second"):
        workers = 4 if name == "first" else 9
        write_log(tmp_path / name, [batch_note(number, workers=workers) for number in range(40)])
    queries = Queries([tmp_path / "first", tmp_path / "second"])
    queries.poll()
    save(queries, tmp_path / "report.html")
    emulate(browser)
    open_page(browser, (tmp_path / "report.html").as_uri(), 39)
    assert fact(browser, "workers") == "4"
    assert len(table_of(browser, "balance-chart")) == 40
    choice = "const choice = document.getElementById('query'); choice.selectedIndex = 1; "
    browser.execute_script(choice + "choice.dispatchEvent(new Event('change'))")
    assert fact(browser, "workers") == "9"
    assert errors(browser) == []


@pytest.mark.faults
@in_make_faults
def test_ten_thousand_workers_and_a_hundred_thousand_batches(browser: Any, tmp_path: Path) -> None:
    """The page of a large query costs the browser about as much as that of a small one."""
    before, after = json.dumps(batch_note(777_777)).split('"batch": 777777')
    lines = [f'{before}"batch": {number}{after}' for number in range(100_000)]
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "log.jsonl").write_text("\n".join(lines) + "\n")
    write_log(tmp_path / "large", [batch_note(100_000, workers=10_000)])
    write_log(tmp_path / "small", [batch_note(number, workers=200) for number in range(1000)])
    assert (tmp_path / "large" / "log.jsonl").stat().st_size > 10_000_000
    seconds = {}
    for name, batch in (("small", 999), ("large", 100_000)):
        with served(tmp_path / name) as running:
            wait_for(running.queries.all, "the log", 120)
            emulate(browser)
            open_page(browser, running.url, batch)
            script = "const at = performance.now(); evenflowCharts.redraw(); return performance.now() - at"
            seconds[name] = min(browser.execute_script(script) for _ in range(3))
            cells = shown(browser, "document.querySelectorAll('td').length")
            assert cells < 400
            assert errors(browser) == []
    assert seconds["large"] < 4 * seconds["small"] + 50


def test_the_page_goes_on_with_the_newest_run_and_says_when_the_server_has_ended(
    browser: Any, tmp_path: Path
) -> None:
    for name in ("first", "second", "third"):
        write_log(tmp_path / name, [])
    chosen = "document.getElementById('query').value"
    emulate(browser)
    with served(tmp_path / "first", tmp_path / "second", tmp_path / "third") as running:
        write_log(tmp_path / "first", [batch_note(1)])
        open_page(browser, running.url, 1)
        write_log(tmp_path / "second", [batch_note(2)])
        wait_for(lambda: shown(browser, "document.getElementById('query').options.length") == 2, "both")
        assert shown(browser, chosen).startswith("first")  # it still runs
        write_log(tmp_path / "first", [{"time": 1.0, "event": "ended", "operator": "fill-1", "failed": None}])
        wait_for_batch(browser, 2)
        assert shown(browser, chosen).startswith("second")
        browser.execute_script(
            "const query = document.getElementById('query'); query.value = query.options[0].value;"
            "query.dispatchEvent(new Event('change'))"
        )
        wait_for_batch(browser, 1)
        write_log(tmp_path / "third", [batch_note(3)])
        wait_for(lambda: shown(browser, "document.getElementById('query').options.length") == 3, "all")
        assert shown(browser, chosen).startswith("first")  # as picked
        assert errors(browser) == []
    status = "document.getElementById('status').textContent"
    wait_for(lambda: "these are its last numbers" in shown(browser, status), "the end of the server")
