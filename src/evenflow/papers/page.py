"""The result of a run for people: one self-contained HTML page, and the table of verdicts as Markdown."""

from __future__ import annotations

import base64
import importlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evenflow.papers.data import PRINTED
from evenflow.papers.experiment import VERDICTS, Experiment, Row, Rows
from evenflow.papers.reproduce import Outcome
from evenflow.papers.scales import changed, of_figure, read_summary, summary_beside
from evenflow.report.interactive import Colours, charts_of
from evenflow.report.page import render, write_page
from evenflow.report.tables import Table

_CLASSES = dict(zip(VERDICTS, ("good", "fair", "poor", "muted"), strict=True))
_NAMES = {"section": "section", "claim": "claim", "expected": "paper", "peer": "published code",
          "measured": "measured"}  # fmt: skip
_COLUMNS = {  # of deployments
    "label": "scheme", "messages": "messages", "share": "share", "seconds": "seconds",
    "throughput": "per second", "of_key": "of KG", "predicted_of_key": "predicted", "load": "load",
    "of": "of", "rate": "rate", "late": "late", "again": "again", "latency_mean": "mean",
    "latency_p50": "p50", "latency_p95": "p95", "latency_p99": "p99", "latency_worker": "worst mean",
    "pairs": "pairs", "memory": "per key", "held": "held", "right": "right", "error": "error",
}  # fmt: skip
_OWNED = {  # of queries with one owner per key
    "approach": "approach", "workers": "workers", "state": "state", "computation": "computation",
    "communication": "communication", "imbalance": "imbalance", "migration": "migration",
    "keys": "keys moved", "bytes": "bytes", "adopted": "plans", "gain": "gain", "missed": "missed",
    "paid": "paid",
}  # fmt: skip
_VARIED = ("app", "z", "delay", "phase", "data", "skew")  # what tells the configurations of a figure apart
OURS = "evenflow"  # the section of what is no claim of a paper but must hold here


def summary(claims: Sequence[Row]) -> str:
    """Say in one line how many claims got which verdict."""
    counts = Counter(str(claim["verdict"]) for claim in claims)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or "no claims"


def write_html(outcome: Outcome, experiments: Sequence[Experiment], out: Path, scale: str) -> Path:
    """Write ``index.html``: every figure with its caption and claims; pictures are inside the file."""
    claims = outcome.claims
    colours = Colours()
    charts: dict[str, dict[str, Any]] = {}
    names = [f"{claim['paper']}/{claim['figure']}" for claim in claims]
    papers = [(paper, reference(paper), [_figure(experiment, outcome, out, colours) for experiment in own])
              for paper, own in _by_paper(experiments)]  # fmt: skip
    for shown in (figure for _, _, figures in papers for figure in figures):
        named = {f"chart-{len(charts) + number}": chart for number, chart in enumerate(shown["charts"])}
        charts |= named
        shown["charts"] = list(named)
    verdicts = [(name, claim["claim"], claim["verdict"]) for name, claim in zip(names, claims, strict=True)]
    page = render(
        "reproduction.html",
        charts=charts,
        title="Five papers, reproduced",
        lead=f"Scale {scale}: {summary(claims)}.",
        footer="evenflow reproduce",
        anchors=[(paper, f"#{paper}") for paper, *_ in papers],
        verdicts=Table("", ("figure", "claim", "verdict"), verdicts),
        kinds=[_CLASSES[claim["verdict"]] for claim in claims],
        targets=[f"#{name}" for name in names],
        papers=papers,
        failures=outcome.failures,
    )
    write_page(page, out / "index.html")
    return out / "index.html"


def _by_paper(experiments: Sequence[Experiment]) -> Iterator[tuple[str, list[Experiment]]]:
    for paper in dict.fromkeys(experiment.paper for experiment in experiments):
        yield paper, [experiment for experiment in experiments if experiment.paper == paper]


def _charts(experiment: Experiment, rows: Rows, colours: Colours) -> list[dict[str, Any]]:
    """Return a figure as charts; none if there is nothing to draw or it cannot be one."""
    plot = experiment.plot
    if plot is None or not rows:
        return []
    from matplotlib.figure import Figure

    def draw() -> Figure:
        figure = Figure()
        plot(figure, rows)
        return figure

    return charts_of(draw, experiment.title, colours)


def _figure(experiment: Experiment, outcome: Outcome, out: Path, colours: Colours) -> dict[str, Any]:
    picture = out / f"{experiment.paper}-{experiment.figure}.png"
    rows, claims = outcome.rows.get(experiment.name, []), outcome.claims_of(experiment)
    fields = (*_NAMES, "verdict", "note")
    charts = _charts(experiment, rows, colours)
    drawn = picture.exists() and rows and not charts
    return {
        "title": f"{experiment.figure}: {experiment.title}",
        "anchor": experiment.name,
        "caption": outcome.captions.get(experiment.name, experiment.caption),
        "charts": charts,
        "picture": base64.b64encode(picture.read_bytes()).decode() if drawn else "",
        "points": rows
        and Table("", list(rows[0]), [[row.get(name, "") for name in rows[0]] for row in rows]),
        "csv": picture.with_suffix(".csv").name,
        "claims": Table(
            "", (*_NAMES.values(), "verdict", "why"), [[c[name] for name in fields] for c in claims]
        ),
        "kinds": [_CLASSES[claim["verdict"]] for claim in claims],
    }


def reference(paper: str) -> str:
    """Return who wrote a paper and its title: the first line of its module."""
    text = importlib.import_module(f"evenflow.papers.{paper}").__doc__ or paper
    return text.splitlines()[0].partition(": ")[2].rstrip(".")


def write_markdown(outcome: Outcome, experiments: Sequence[Experiment], path: Path, scale: str) -> None:
    """Write the table of verdicts: how to read it, what stands in for what, one section per paper.

    Beside the verdicts of the run stand those at paper scale, if a file of them lies beside the page.
    """
    verdicts = {paper: Counter(claim["verdict"] for claim in outcome.claims if claim["paper"] == paper)
                for paper, _ in _by_paper(experiments)}  # fmt: skip
    counts = [(f"[{paper}](#{paper})", *(own[v] for v in VERDICTS)) for paper, own in verdicts.items()]
    large = read_summary(summary_beside(path)) if scale == "small" else {}
    both = [experiment for experiment in experiments if of_figure(large, experiment)]
    differing = changed(outcome, both, large)
    text = render(
        "reproduction.md",
        summary=summary(outcome.claims),
        scale=scale,
        path=path.as_posix(),
        stand_ins=dict.fromkeys(text for data in outcome.data.values() for text in data),
        streams=stand_ins(outcome),
        counts=markdown_table(("paper", *VERDICTS), counts),
        figures=len(experiments),
        both=[experiment.name for experiment in both],
        lacking=[experiment.name for experiment in experiments if experiment not in both],
        large=summary([claim for experiment in both for claim in large[experiment.name]["claims"]]),
        changed=differing and markdown_table(
            ("figure", "claim", "small", "paper scale"), [list(row.values()) for row in differing]),
        papers=[(paper, reference(paper),
                 [_section(e, outcome, "###", tuple(_NAMES), "**{}**", of_figure(large, e)) for e in own])
                for paper, own in _by_paper(experiments)],
    )  # fmt: skip
    timed = {experiment.name for experiment in experiments if experiment.timed}
    path.write_text(_with_kept_times(text, path, timed), encoding="utf-8")


def _with_kept_times(text: str, path: Path, timed: set[str]) -> str:
    """Take over the lines of timed figures that the page already has, if all else in them is the same.

    Seconds differ from run to run; without this every run would change the page.
    """
    before = dict(_timed_lines(path.read_text(encoding="utf-8"), timed)) if path.exists() else {}
    kept = {line: before.get(place, line) for place, line in _timed_lines(text, timed)}
    return "\n".join(kept.get(line, line) for line in text.split("\n"))


def _timed_lines(text: str, timed: set[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the claims of timed figures: all cells but the measured one, and the line."""
    figure = ""
    for line in text.split("\n"):
        if line.startswith("### "):
            figure = line[4:].partition(":")[0]
        if figure in timed and line.startswith("| ") and "**" in line:
            cells = re.split(r"(?<!\\)\|", line)
            yield (figure, *cells[:5], *cells[6:]), line


def stand_ins(outcome: Outcome) -> str:
    """Return the table of streams: what the papers say of theirs, what was counted in ours."""
    counted = {row["data"]: row for rows in outcome.rows.values() for row in rows if "p1_within" in row}
    rows = []
    for name, row in counted.items():
        messages, keys, p1, drift = PRINTED.get(name.rpartition("-")[0] if name not in PRINTED else name,
                                                (None, None, None, ""))  # fmt: skip
        if name.startswith("country") or name == "ZF":
            continue
        theirs = [_count(messages), _per_key(messages, keys) if messages and keys else "",
                  "" if p1 is None else f"{p1:.2%}", drift]  # fmt: skip
        ours = [_count(row["messages"]), _per_key(row["messages"], row["keys"]), f"{row['p1']:.2%}",
                f"{row['hottest']} of 10, {row['p1_within']:.2%}"]  # fmt: skip
        rows.append([name, *theirs, *ours])
    names = ("messages", "per key", "p1", "drift")
    head = ("stream", *(f"paper: {name}" for name in names), *(f"ours: {name}" for name in names))
    return markdown_table(head, rows) if rows else ""


def _per_key(messages: float, keys: float) -> str:
    return f"{messages / keys:,.0f}" if messages >= 100 * keys else f"{messages / keys:.3g}"


def _count(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number / 1e9:.3g} G" if number >= 1e9 else f"{number / 1e6:.3g} M"


def write_deployments(
    outcome: Outcome, experiments: Sequence[Experiment], path: Path, scale: str, on: str = "--on spark"
) -> None:
    """Write the deployments as Markdown: what must hold, every claim with its verdict, the numbers.

    ``on`` are the options of the command that say what they ran on.
    """
    fields = ("paper", "claim", "expected", "measured", "verdict")
    must = [gate | {"paper": f"{gate['paper']}/{gate['figure']}"} for gate in gates(outcome.claims)]
    cells = [[gate[name] for name in fields] for gate in must]
    columns = tuple(name for name in _NAMES if name != "peer")
    text = render(
        "deployments.md",
        on=on,
        scale=scale,
        path=path.name,
        cores=os.cpu_count(),
        summary=summary(outcome.claims).capitalize(),
        gates=markdown_table(("figure", "what", *fields[2:]), cells),
        figures=[(_section(e, outcome, "##", columns, "{}"), _numbers(outcome.rows.get(e.name, [])))
                 for e in experiments],
    )  # fmt: skip
    path.write_text(text, encoding="utf-8")


def gates(claims: Sequence[Row]) -> list[Row]:
    """Return the claims that are evenflow's own."""
    return [claim for claim in claims if claim["section"] == OURS]


def _section(
    experiment: Experiment, outcome: Outcome, level: str, columns: tuple[str, ...], verdict: str,
    large: Row | None = None,
) -> str:  # fmt: skip
    """Return a figure's heading, caption and claims; ``large``: what was found at paper scale."""
    caption = outcome.captions.get(experiment.name, experiment.caption)
    names = [*(_NAMES[name] for name in columns), "verdict"]
    rows = [[*(_cell(claim, name) for name in columns),
             verdict.format(claim["verdict"]) + (f": {claim['note']}" if claim["note"] else "")]
            for claim in outcome.claims_of(experiment)]  # fmt: skip
    if large:
        caption += f" Paper scale: {_when(large)}."
        names.append("at paper scale")
        found = {claim["claim"]: f"{_cell(claim, 'measured')}: **{claim['verdict']}**"
                 for claim in large["claims"]}  # fmt: skip
        own = outcome.claims_of(experiment)
        rows = [[*row, found.get(claim["claim"], "")] for row, claim in zip(rows, own, strict=True)]
    claims = markdown_table(names, rows)
    if experiment.name in outcome.left:
        claims = "Not finished: {} of {} points are left to measure.".format(*outcome.left[experiment.name])
    if experiment.name in outcome.failures:
        claims = "Failed in this run."
    return f"{level} {experiment.name}: {experiment.title}\n\n{caption}\n\n{claims}"


def _cell(claim: Row, name: str) -> str:
    """Return a cell of the table of claims; with the number stands its spread over the seeds."""
    text = str(claim[name])
    return f"{text} ({claim['spread']})" if name == "measured" and claim["spread"] else text


def _when(large: Row) -> str:
    """Say when and at which commits a figure was measured, and how long that took."""
    dates, commits = large["dates"], ", ".join(large["commits"])
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{when}, commit {commits}, {large['seconds'] / 60:.1f} processor minutes"


def _numbers(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return what deployments measured: each configuration and its table."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        varied = [f"{name} = {row[name]}" for name in _VARIED if name in row]
        if "throughput" in row:
            cluster = [f"{row[name]} {name}" for name in ("workers", "sources")]
            groups.setdefault(", ".join([*varied, *cluster]), []).append(row)
        elif "imbalance" in row:
            groups.setdefault(", ".join(varied), []).append(row)
    found = []
    for configuration, own in groups.items():
        columns = _COLUMNS if "throughput" in own[0] else _OWNED
        names = [name for name in columns if any(name in row for row in own)]
        cells = [[_short(row.get(name, "")) for name in names] for row in own]
        heading = f"{configuration}; {_engine(own)}" if columns is _COLUMNS else configuration
        found.append((heading, markdown_table([columns[name] for name in names], cells)))
    return found


def _engine(rows: Sequence[Row]) -> str:
    """Say how long a run without work takes, and how busy the machine was."""
    empty = [row["empty_seconds"] for row in rows]
    share = max(row["empty_share"] for row in rows)
    loads = [row["machine_load"] for row in rows]
    again = rows[0]["attempts"] - 1
    began = f", after {again} that {'was' if again == 1 else 'were'} too short" if again else ""
    return (
        f"interval {rows[0]['interval']:.2f} s{began}, empty run {min(empty):.2f} to {max(empty):.2f} s, at "
        f"most {share:.1%} of it; load of the machine {min(loads):.1f} to {max(loads):.1f}"
    )


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as Markdown.

    >>> print(markdown_table(("a", "b"), [(1, "x|y")]))
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """

    def line(cells: Sequence[object]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(names), "|" + "---|" * len(names), *map(line, rows)])
