"""Figures: what they draw, that they come out in every format, and that text in them is only text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from evenflow.advisor.profile import Trace
from evenflow.errors import EvenflowError
from evenflow.report.demo import draw_before_and_after
from evenflow.report.figures import (
    Point,
    draw_balance_and_memory,
    draw_hot_keys,
    draw_loads,
    draw_simulation,
    moments,
)
from evenflow.report.style import as_svg, colour_of, plain_number, save, styled
from evenflow.schemes import list_schemes
from evenflow.simulator import Queueing, Rescale, simulate

STREAM = "zipf:z=1.4,keys=100,messages=2000"


def drawn(draw: Callable[[], Figure]) -> Any:
    with styled():
        figure = draw()
        figure.draw_without_rendering()
    return figure


def words(svg: str) -> list[str]:
    return [text.strip() for text in ElementTree.fromstring(svg).itertext() if text.strip()]


def trace(*labels: str) -> Trace:
    return Trace(labels, np.full((len(labels), 5), 0.1), None)


def test_loads_are_drawn_relative_to_the_mean_fullest_first() -> None:
    figure = drawn(lambda: draw_loads({"key": np.array([1, 7, 4]), "fill": np.array([4, 4, 4])}))
    lines = [patch for patch in figure.axes[0].patches if not patch.get_fill()]
    assert [patch.get_data().values.tolist() for patch in lines] == [[1.75, 1.0, 0.25], [1.0, 1.0, 1.0]]
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["key: 1.75", "fill: 1.00"]
    assert figure.axes[0].get_xlabel()
    assert figure.axes[0].get_ylabel()


def test_keys_in_figures_are_only_text() -> None:
    labels = ("<script>alert(1)</script>", "$\\frac{a}$", "$x$", "a & b", "東京", "tab\there", "--><b>")
    svg = as_svg(lambda: draw_hot_keys(trace(*labels), 4), "hot", 'quote " and <tag>')
    assert "<script" not in svg
    shown = words(svg)
    for label in (*labels[1:5], "--><b>"):
        assert label in shown
    assert "tab\\there" in shown
    assert ElementTree.fromstring(svg).attrib["aria-label"] == 'quote " and <tag>'


def test_a_worker_s_fair_share_is_in_the_figure_of_hot_keys() -> None:
    figure = drawn(lambda: draw_hot_keys(trace("a"), 4))
    heights = {line.get_label(): line.get_ydata()[0] for line in figure.axes[0].get_lines()}
    assert heights == {"a": 0.1, "a worker's fair share": 0.25}
    assert figure.axes[0].get_ylim()[1] > 0.25


def test_times_are_dates_or_seconds() -> None:
    assert moments([1.5e9, 1.6e9]) == ["2017-07-14", "2020-09-13"]
    assert moments([0.0, 30.0]) == ["0 s", "30 s"]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_figure_is_written_as_its_name_says(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"figure.{kind}"
    save(lambda: draw_loads({"key": np.array([1, 2])}), path)
    begin = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert path.read_bytes().startswith(begin[kind])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("figure.bmp", "use .png"),
        ("figure", "use .png"),
        ("none/figure.png", "there is no folder"),
    ],
)
def test_a_figure_that_cannot_be_written_is_refused(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(EvenflowError, match=sentence):
        save(lambda: draw_loads({"key": np.array([1, 2])}), tmp_path / name)


def test_a_figure_is_drawn_alike_every_time() -> None:
    first, second = (as_svg(lambda: draw_hot_keys(trace("a", "b"), 4), "x", "y") for _ in range(2))
    assert first == second


def test_figures_of_one_page_share_no_names() -> None:
    names: list[str] = []
    for salt in ("one", "two"):
        svg = as_svg(lambda: draw_loads({"key": np.array([1, 2])}), salt, "")
        names += set(re.findall(r'\bid="([^"]*)"', svg))
        for used in re.findall(r"url\(#([^)]*)\)", svg):
            assert used in names
    assert len(names) == len(set(names)) > 4


def test_every_point_has_its_name_inside_the_figure_and_on_no_other_name() -> None:
    places = [
        (1.0, 18.0),
        (1.0, 18.0),
        (1.0, 18.6),
        (1.4, 9.0),
        (2.3, 1.0),
        (4.6, 1.0),
        (4.7, 1.0),
        (19.0, 1.0),
    ]
    points = [Point(f"scheme-{i}", "key", x, y, chosen=i == 4) for i, (x, y) in enumerate(places)]
    figure = drawn(lambda: draw_balance_and_memory(points))
    texts: list[Any] = [text for text in figure.axes[0].texts if text.get_text()]
    shown = ", ".join(text.get_text().replace(",\n", ", ") for text in texts)
    assert sorted(shown.split(", ")) == [point.label for point in points]
    boxes = [text.get_window_extent() for text in texts]
    whole = figure.bbox
    for number, box in enumerate(boxes):
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_points_of_one_place_share_a_name_but_the_chosen_stands_alone() -> None:
    points = [Point("a", "key", 1, 2), Point("b", "key", 1, 2), Point("best", "fill", 1, 2, chosen=True)]
    figure = drawn(lambda: draw_balance_and_memory(points))
    assert {text.get_text() for text in figure.axes[0].texts if text.get_text()} == {"best", "a, b"}


def test_a_label_away_from_its_point_is_connected_to_it() -> None:
    crowd = [Point(f"scheme-{i}", "key", 1 + 0.05 * i, 2.0) for i in range(12)]
    figure = drawn(lambda: draw_balance_and_memory(crowd))
    axes = figure.axes[0]
    labels = [text for text in axes.texts if text.get_text()]
    lines = [text.xy for text in axes.texts if not text.get_text()]
    for label in labels:
        box, (_, y) = label.get_window_extent(), axes.transData.transform(label.xy)
        assert (label.xy in lines) == (not box.y0 <= y <= box.y1)
    assert 0 < len(lines) < len(labels)


def test_an_axis_starts_at_zero_or_says_that_it_is_logarithmic() -> None:
    several = [simulate(name, STREAM, workers) for workers in (2, 4) for name in ("key", "fill")]
    queues = [simulate(name, STREAM, 4, queueing=Queueing(capacity="1x5,3x1")) for name in ("key", "fill")]
    figures = [
        drawn(lambda: draw_simulation(several, ["key", "fill"] * 2)),
        drawn(lambda: draw_simulation(queues, ["key", "fill"])),
        drawn(lambda: draw_balance_and_memory([Point("a", "key", 1, 2), Point("b", "fill", 3, 1)])),
        drawn(lambda: draw_loads({"key": np.array([1, 7, 4])})),
    ]
    for axes in (axes for figure in figures for axes in figure.axes):
        for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
            low = min(axis.get_view_interval())
            assert (scale == "log") == ("log scale" in axis.label.get_text())
            assert scale == "log" or low <= 0.5  # workers are numbered from 1, and their bars centred


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 16, 17, 64, 100])
def test_only_workers_that_exist_have_a_tick(workers: int) -> None:
    loads = np.arange(1, workers + 1)
    first, last = (
        drawn(lambda: draw_loads({"key": loads})).axes[0],
        drawn(lambda: before_and_after(loads)).axes,
    )
    for axes, numbers in ((first, range(1, workers + 1)), *((axes, range(workers)) for axes in last)):
        low, high = axes.get_xlim()
        assert {tick for tick in axes.get_xticks() if low <= tick <= high} <= set(numbers)


def before_and_after(rows: Any, streams: int = 1) -> Figure:
    seen = SimpleNamespace(rows=rows.tolist(), busy=[2.5, 7.3], max_over_mean=rows.max() / rows.mean())
    runs = {scheme: SimpleNamespace(scheme=scheme, seen=seen, seconds=12.34) for scheme in ("key", "fill")}
    stream = SimpleNamespace(name="a stream", runs=runs)
    return draw_before_and_after([stream] * streams)


def test_seconds_are_in_the_titles_of_before_and_after() -> None:
    titles = [axes.get_title(loc="left") for axes in drawn(lambda: before_and_after(np.array([3, 1]))).axes]
    assert titles == ["hashing: 12.3 s, busiest worker 7.3 s", "evenflow: 12.3 s, busiest worker 7.3 s"]


def test_every_stream_has_a_row_of_before_and_after() -> None:
    axes = drawn(lambda: before_and_after(np.array([3, 1]), streams=2)).axes
    assert [of.get_ylabel() for of in axes] == ["a stream\nrows / mean", ""] * 2
    assert [bar.get_height() for bar in axes[2].patches] == [1.5, 0.5]


def test_known_schemes_have_colours_of_their_own() -> None:
    colours = [colour_of(name) for name in list_schemes()]
    assert len(set(colours)) == len(colours)


def test_a_simulation_shows_imbalance_over_time_and_loads() -> None:
    results = [simulate(name, STREAM, 4) for name in ("key", "shuffle")]
    figure = drawn(lambda: draw_simulation(results, ["key", "shuffle"]))
    over_time, loads = figure.axes
    assert over_time.get_yscale() == "log"
    line = over_time.get_lines()[0]
    assert line.get_xdata().tolist() == results[0].over_time["messages"].tolist()
    assert line.get_ydata().tolist() == results[0].over_time["imbalance"].tolist()
    assert (over_time.get_lines()[1].get_ydata() > 0).all()  # a logarithm has no 0
    assert loads.get_title(loc="left") == "Load of 4 workers"


def test_several_numbers_of_workers_are_the_axis() -> None:
    results = [simulate(name, STREAM, workers) for workers in (2, 4) for name in ("key", "fill")]
    figure = drawn(lambda: draw_simulation(results, ["key", "fill"] * 2))
    assert [axes.get_xlabel() for axes in figure.axes] == ["workers, log scale"] * 2
    memory = figure.axes[1].get_lines()[1]
    assert memory.get_xdata().tolist() == [2, 4]
    assert memory.get_ydata().tolist() == [results[1].numbers["memory"], results[3].numbers["memory"]]


def test_queues_have_a_panel_of_latencies() -> None:
    results = [simulate(name, STREAM, 4, queueing=Queueing(capacity="1x5,3x1")) for name in ("key", "fill")]
    figure = drawn(lambda: draw_simulation(results, ["key", "fill"]))
    assert [axes.get_title(loc="left") for axes in figure.axes][:2] == [
        "Utilisation imbalance over time",
        "Utilisation of 4 workers",
    ]
    bars = sorted(bar.get_width() for bar in figure.axes[2].patches)
    wanted = sorted(result.numbers[f"latency_{q}"] for result in results for q in ("p50", "p95", "p99"))
    assert bars == wanted


def test_a_rescaled_run_shows_the_workers_of_its_end() -> None:
    result = simulate("fill", STREAM, 4, events=[Rescale(1000, 6)])
    figure = drawn(lambda: draw_simulation([result], ["fill"]))
    assert figure.axes[1].get_title(loc="left") == "Load of 6 workers over the whole run"


def test_numbers_at_axes_are_short() -> None:
    assert [plain_number(value) for value in (0, 1e-5, 2e-4, 0.001, 0.5, 20, 1e4, 2.5e6, 3e9)] == [
        "0",
        "1e-5",
        "2e-4",
        "0.001",
        "0.5",
        "20",
        "10k",
        "2.5M",
        "3G",
    ]
