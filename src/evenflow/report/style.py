"""Figure style, and output to files or inline SVG.

Figures are created and drawn inside ``styled``: text is never parsed as mathematics (a key may be ``$x$``),
and SVG text stays text, so that browsers can search it, read it aloud and supply glyphs that matplotlib's
font lacks.
"""

from __future__ import annotations

import io
import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.style import context
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from evenflow.files import check_output, write_output

SUFFIXES = (".png", ".svg", ".pdf")
GREY = "#8a8f98"
INK = "#20242b"
_FIXED = {
    "key": "#c8442f",
    "fill": "#1f5fbf",
    "shuffle": "#4d535c",
    "partial-key": "#e0912f",
    "d-choices": "#2f9e6e",
    "w-choices": "#7a4fb5",
    "random-choices": "#0f9db0",
    "consistent": "#b0407f",
    "explicit": "#8a6d1d",
    "fish": "#5aa832",
    "dynamic-key": "#e58ab8",
    "two-choices": "#6b8fd6",
    "greedy-d": "#a3693b",
    "round-robin-head": "#b9a3e3",
    "consistent-hash": "#9aa636",
    "bounded-load": "#3f7d7a",
}
_OTHERS = ("#5f6fa8", "#d1a04a", "#7d8f69", "#d98b73", "#58b09c", "#94667e")
_STYLE = files("evenflow.report").joinpath("templates/figures.mplstyle")


@contextmanager
def styled(salt: str = "evenflow") -> Iterator[None]:
    """Draw in evenflow's style; figures of one page need different salts, or their clip paths collide."""
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    with as_file(_STYLE) as sheet, context([sheet, {"svg.hashsalt": salt}]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)


def save(draw: Callable[[], Figure], path: str | Path) -> None:
    """Draw a figure to a file, in the format of its suffix."""
    path = Path(path)
    check_output(path, SUFFIXES)
    with styled():
        kind = path.suffix[1:].lower()
        metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
        content = io.BytesIO()
        draw().savefig(content, format=kind, dpi=150, metadata=metadata[kind])
    write_output(path, content.getvalue())


def as_svg(draw: Callable[[], Figure], salt: str, description: str) -> str:
    """Draw a figure as an ``svg`` element that scales with the page width."""
    with styled(salt):
        text = io.StringIO()
        figure = draw()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", metadata=metadata, transparent=True)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # unused, and the same in every figure
    head, rest = svg.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{escape(description)}">{rest}'


def colour_of(scheme: str) -> str:
    """Return the colour of a scheme, the same in every figure."""
    if scheme in _FIXED:
        return _FIXED[scheme]
    return _OTHERS[sum(map(ord, scheme)) % len(_OTHERS)]


def log_axis(axes: Any, which: str, formatter: Callable[[float], str]) -> None:
    """Make the x or y axis logarithmic, with a few round tick labels."""
    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low)
    if decades < 0.8:
        axis.set_major_locator(MaxNLocator(6))
    else:
        axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades < 3 else (1.0,), numticks=12))
    axis.set_minor_locator(LogLocator(10, subs=tuple(range(2, 10)), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: formatter(value)))
    axis.set_minor_formatter(NullFormatter())


def plain_number(value: float) -> str:
    """Return a number as an axis label.

    >>> [plain_number(value) for value in (1.0, 0.25, 2e6, 0.0001, 1500)]
    ['1', '0.25', '2M', '1e-4', '1,500']
    """
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return re.sub(r"e-0*", "e-", f"{value:.3g}" if abs(value) < 1e-4 else f"{value:.0e}")
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            unit = 1e3 if letter == "k" else limit
            return f"{value / unit:g}{letter}"
    return f"{value:,.10g}"


def percent(value: float) -> str:
    """Return a share as an axis label.

    >>> percent(0.5), percent(0.002), percent(1.0)
    ('50%', '0.2%', '100%')
    """
    return f"{100 * value:.10g}%"
