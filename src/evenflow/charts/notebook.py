"""Objects in a notebook: tables and bars as HTML and SVG without scripts, and progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_MOST_BARS = 64
_WIDTH, _HEIGHT = 640, 120
_BAR, _OVER, _RULE = "#0072b2", "#d55e00", "#8a8f98"  # told apart by people who are colour-blind


def card(title: str, *parts: str) -> str:
    """Return a heading and what belongs to it as one element.

    >>> card("2 < 3", paragraph("yes"))
    '<div class="evenflow"><p><b>2 &lt; 3</b></p><p>yes</p></div>'
    """
    return f'<div class="evenflow"><p><b>{escape(title)}</b></p>{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    """Return a text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def code(text: str) -> str:
    """Return a text as it is spaced."""
    return f"<pre>{escape(text)}</pre>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers are aligned on the right.

    >>> table(["key"], [["<b>"]])
    '<table><thead><tr><th>key</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        text = "" if value is None else "yes" if value is True else "no" if value is False else value
        return f"<td>{escape(text)}</td>"
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    return f'<td style="text-align: right">{text}</td>'


def bars(values: Sequence[float], label: str) -> str:
    """Return the loads of workers as bars from zero, with a line at the mean; of many, the highest of a few.

    >>> picture = bars([3, 1], "rows per worker")
    >>> picture.count("<rect"), "worker 0: 3, 1.5 of the mean" in picture
    (2, True)
    """
    values = [float(value) for value in values]
    if not values or max(values) <= 0:
        return ""
    mean = sum(values) / len(values)
    group = -(-len(values) // _MOST_BARS)
    shown = [max(values[at : at + group]) for at in range(0, len(values), group)]
    top, step = max(*shown, mean) * 1.08, _WIDTH / len(shown)
    parts = []
    for number, value in enumerate(shown):
        height = _HEIGHT * value / top
        first = number * group
        workers = (
            f"worker {number}" if group == 1 else f"the highest of workers {first} to {first + group - 1}"
        )
        parts.append(
            f'<rect x="{number * step + 0.1 * step:.1f}" y="{_HEIGHT - height:.1f}" width="{0.8 * step:.1f}" '
            f'height="{height:.1f}" fill="{_OVER if value > 1.5 * mean else _BAR}">'
            f"<title>{workers}: {value:,g}, {value / mean:.3g} of the mean</title></rect>"
        )
    rule = _HEIGHT - _HEIGHT * mean / top
    description = escape(f"{label}: {len(values)} workers, highest {max(values) / mean:.3f} of the mean")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 2}" role="img" aria-label="{description}" '
        f'style="width: 100%; max-width: {_WIDTH}px; height: auto">{"".join(parts)}'
        f'<line x1="0" y1="{rule:.1f}" x2="{_WIDTH}" y2="{rule:.1f}" stroke="{_RULE}" '
        'stroke-dasharray="5 4"/>'
        f'<line x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}" stroke="{_RULE}"/></svg>'
        f"{paragraph(f'{label}, from zero; the dashed line is the mean.')}"
    )


class Progress:
    """Progress in a notebook: pass it as ``watch`` to `advise`, or as ``progress`` to `simulate`.

    >>> from evenflow.charts.notebook import Progress
    >>> str(Progress("advise").html(3, 4, "fill"))
    '<p><progress value="3" max="4"></progress> advise: 3 of 4, fill</p>'
    """

    def __init__(self, title: str):
        self.title = title
        self._shown: Any = None

    def html(self, done: int, total: int, what: object = "") -> str:
        """Return the bar."""
        text = f"{self.title}: {done:,} of {total:,}" + (
            f", {what}" if isinstance(what, str) and what else ""
        )
        return f'<p><progress value="{done}" max="{total}"></progress> {escape(text)}</p>'

    def __call__(self, done: int, total: int, what: object = "") -> None:
        """Show the bar, or move it."""
        from IPython.display import HTML, display

        shown = HTML(self.html(done, total, what))  # type: ignore[no-untyped-call]
        if self._shown is None:
            self._shown = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._shown.update(shown)
