"""Charts of pages: they hold what the figures draw, in one file that loads nothing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from dashboard.in_browser import cells_of, emulate, errors, open_page, shown
from evenflow.papers.figures import Bars, Lines
from evenflow.report.demo import write_demo
from evenflow.report.figures import draw_loads
from evenflow.report.interactive import Colours, charts_of
from evenflow.report.page import render, write_page
from evenflow.report.simulation_page import simulation_page
from evenflow.simulator import simulate
from evenflow.testing import wait_for

ROWS: list[dict[str, Any]] = [
    {"scheme": scheme, "workers": workers, "value": factor * workers}
    for scheme, factor in (("key", 3), ("fill", 1), ("own", 2))
    for workers in (5, 10, 50)
]


def drawn(figure: Any, rows: Any = ROWS) -> list[dict[str, Any]]:
    def draw() -> Figure:
        picture = Figure()
        figure(picture, rows)
        return picture

    return charts_of(draw, "Figure", Colours())


def test_lines_have_their_points_and_colours() -> None:
    (chart,) = drawn(Lines(x="workers", y="value", logx=True, level=1.0))
    assert chart["x"]["values"] == [5, 10, 50]
    assert chart["x"]["log"]
    assert chart["x"]["label"] == "workers, log scale"
    assert chart["y"]["label"] == "value"  # from zero
    found = {series["label"]: series for series in chart["series"]}
    assert found["key"]["values"] == [15, 30, 150]
    assert (found["key"]["colour"], found["fill"]["colour"]) == (1, 0)
    assert found["own"]["colour"] not in (0, 1)
    assert chart["reference"]["value"] == 1.0


def test_bars_stand_beside_each_other_under_their_names() -> None:
    rows = [{**row, "workers": f"w{row['workers']}"} for row in ROWS]
    (chart,) = drawn(Bars(x="workers", y="value"), rows)
    assert len(chart["x"]["values"]) == 9
    assert all(sum(value is not None for value in series["values"]) == 3 for series in chart["series"])
    assert chart["x"]["names"][:3] == ["w5"] * 3
    assert all(series["bars"] for series in chart["series"])


def test_panels_become_charts_and_what_cannot_be_one_stays_a_picture() -> None:
    assert len(drawn(Lines(x="workers", y="value", panels="scheme"))) == 3

    def area(figure: Figure, rows: Any) -> None:
        figure.subplots().fill_between([1, 2], [3, 4])

    assert drawn(area) == []


def test_horizontal_bars_stand_upright() -> None:
    def sideways(figure: Figure, rows: Any) -> None:
        axes = figure.subplots()
        axes.barh(range(2), [30.0, 4.0], label="p99")
        axes.plot([20.0, 2.0], range(2), marker="|", linestyle="", label="mean")
        axes.axvline(5.0, label="limit")
        axes.set_yticks(range(2), ["key", "fill"])
        axes.set(xlabel="seconds", xscale="log")

    (chart,) = drawn(sideways)
    assert chart["x"]["names"] == ["key", "fill"]
    assert (chart["x"]["log"], chart["y"]["log"]) == (False, True)
    assert chart["y"]["label"] == "seconds, log scale"
    found = {series["label"]: series for series in chart["series"]}
    assert (found["p99"]["values"], found["mean"]["values"]) == ([30.0, 4.0], [20.0, 2.0])
    assert found["p99"]["bars"]
    assert found["mean"]["points"]


def test_loads_are_steps_by_worker() -> None:
    loads = {"key": np.array([1, 5, 3]), "fill": np.array([3, 3, 3])}
    (chart,) = charts_of(lambda: draw_loads(loads), "Loads", Colours())
    values = {series["label"]: series["values"] for series in chart["series"]}
    assert values == {"key: 1.67": [1.66667, 1, 0.333333], "fill: 1.00": [1, 1, 1]}


def test_a_page_without_charts_has_no_scripts() -> None:
    page = render("page.html", title="Title", lead="lead", footer="footer")
    assert "<script" not in page
    assert "script-src 'none'" in page


def run_of(rows: list[int]) -> Any:
    return SimpleNamespace(seen=SimpleNamespace(rows=rows, busy=[1.0], total=sum(rows)), seconds=1.0)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_pages_work_in_a_browser(browser: Any, tmp_path: Path, dark: bool) -> None:
    names = ("key", "partial-key", "fill")
    results = [simulate(name, "zipf:z=1.4,keys=100,messages=5000", 8, 1) for name in names]
    write_page(simulation_page(results, names), tmp_path / "simulation.html")
    stream = SimpleNamespace(name="<i>words", runs={"key": run_of([9, 1, 2]), "fill": run_of([4, 4, 4])})
    write_demo([stream], 400.0, tmp_path / "demo.html")
    emulate(browser, 800, 900, dark)
    for page, series, first in (("simulation.html", 3, "key"), ("demo.html", 2, "hashing")):
        path = tmp_path / page
        assert path.stat().st_size < 2_000_000
        assert "://" not in path.read_text()  # it works offline
        open_page(browser, path.as_uri())
        wait_for(lambda: shown(browser, "document.querySelectorAll('canvas').length"), "the charts")
        legend = "[...document.querySelector('.legend').querySelectorAll('button')]"
        assert shown(browser, f"{legend}.length") == series
        assert shown(browser, f"{legend}[0].textContent") == first
        browser.execute_script(f"{legend}[0].click()")
        assert shown(browser, "[...evenflowCharts.live][0].plot.series[1].show") is False
        browser.execute_script("document.querySelector('.chart details').open = true")
        wait_for(lambda: cells_of(browser, "document.querySelectorAll('.chart tbody tr')"), "the table")
        assert errors(browser) == []
    assert cells_of(browser, "document.querySelectorAll('.chart tbody tr')")[0] == ["worker 0", "2.25", "1"]


LABELS = """
const plot = [...evenflowCharts.live][0].plot, draw = document.createElement("canvas").getContext("2d");
draw.font = "12px system-ui";
return plot.axes.map((axis, at) => axis._splits.map((split, index) => [axis._values[index], split])
  .filter(([text]) => text).map(([text, split]) => [plot.valToPos(split, at ? "y" : "x"),
    at ? 15 : draw.measureText(text).width, text]));
"""


@pytest.mark.parametrize(("width", "decades"), [(360, 14), (800, 14), (800, 3), (360, 1)])
def test_labels_of_a_log_axis_never_overlap(browser: Any, tmp_path: Path, width: int, decades: int) -> None:
    values = [10.0**power for power in range(-decades, 1)]
    chart = {
        "title": "Log",
        "x": {"label": "keys, log scale", "values": values, "log": True},
        "y": {"label": "imbalance, log scale", "log": True},
        "series": [{"label": "fill", "values": values}],
    }
    texts: dict[str, Any] = {"title": "Log", "lead": "", "footer": "", "names": ["log"], "tables": []}
    write_page(render("simulation.html", charts={"log": chart}, **texts), tmp_path / "log.html")
    emulate(browser, width, 900)
    open_page(browser, (tmp_path / "log.html").as_uri())
    wait_for(lambda: shown(browser, "document.querySelectorAll('canvas').length"), "the chart")
    for labels in browser.execute_script(LABELS):
        assert len(labels) >= 2
        ordered = sorted(labels)
        for (before, wide, text), (after, wider, other) in pairwise(ordered):
            assert after - before > (wide + wider) / 2 + 1, f"{text} and {other} overlap"
    assert errors(browser) == []
