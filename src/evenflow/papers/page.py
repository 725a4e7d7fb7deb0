"""The result of a run for people: one self-contained HTML page, and the table of verdicts as Markdown."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from evenflow.papers.experiment import VERDICTS, Experiment, Row
from evenflow.papers.reproduce import Outcome
from evenflow.report import page as html
from evenflow.report.tables import Table

_CLASSES = dict(zip(VERDICTS, ("good", "fair", "poor", "muted"), strict=True))
_CLAIMS = ("section", "claim", "expected", "peer", "measured", "verdict")
_NAMES = {"section": "section", "claim": "claim", "expected": "paper", "peer": "published code",
          "measured": "measured", "verdict": "verdict"}  # fmt: skip
_COLUMNS = {  # of deployments
    "label": "scheme", "messages": "messages", "share": "share", "seconds": "seconds",
    "throughput": "per second", "of_key": "of KG", "predicted_of_key": "predicted", "latency_mean": "mean",
    "latency_p50": "p50", "latency_p95": "p95", "latency_p99": "p99", "latency_worker": "worst mean",
    "pairs": "pairs", "memory": "per key", "state_bytes": "bytes",
}  # fmt: skip
OURS = "evenflow"  # the section of what is no claim of a paper but must hold here
DEPLOYED = (
    "One stream at a time runs through the real pipeline: sources route with evenflow's routers, workers "
    "serve their messages in Python, an aggregator merges their partial states. Workers sleep for each "
    "message, as in the papers, so many of them fit on few cores. All messages are submitted at once. "
    "Throughput is messages over wall time; the latency of a message is the time from submitting the batch "
    "until its worker has finished it, in seconds; *worst mean* is the largest of the workers' mean "
    "latencies. Memory is (key, worker) pairs, and bytes of partial state. A scheme that overloads a few "
    "workers gets only a *share* of the messages (every n-th one); its throughput is that of its share, its "
    "latencies are scaled to all messages. The share is chosen so that its run lasts as long as the "
    "others': the engine's overhead then weighs the same on both sides of a ratio, which makes the rule on "
    "predictions easier to meet than on all messages. *predicted* is the simulator's throughput on the same "
    "messages, relative to key grouping. Numbers are medians of 3 interleaved runs; the *empty run* is the "
    "same pipeline with messages that cost nothing."
)


def summary(claims: Sequence[Row]) -> str:
    """Say in one line how many claims got which verdict."""
    counts = Counter(str(claim["verdict"]) for claim in claims)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or "no claims"


def write_html(outcome: Outcome, experiments: Sequence[Experiment], out: Path, scale: str) -> Path:
    """Write ``index.html``: every figure with its caption and claims; pictures are inside the file."""
    papers = list(dict.fromkeys(experiment.paper for experiment in experiments))
    sections = [
        html.section("Papers", html.links([(paper, f"#{paper}") for paper in papers])),
        html.section("All verdicts", html.folded("Show them", _overview(outcome.claims))),
    ]
    for paper in papers:
        own = [_figure(experiment, outcome, out) for experiment in experiments if experiment.paper == paper]
        sections.append(html.section(paper, html.paragraph(f"{reference(paper)}."), *own, anchor=paper))
    if outcome.failures:
        failures = [html.heading(name) + html.code(why) for name, why in outcome.failures.items()]
        sections.append(html.section("Failed", *failures))
    path = out / "index.html"
    lead = f"Scale {scale}: {summary(outcome.claims)}."
    html.write_page(html.page("Five papers, reproduced", lead, sections, "evenflow reproduce"), path)
    return path


def _figure(experiment: Experiment, outcome: Outcome, out: Path) -> str:
    caption = outcome.captions.get(experiment.name, experiment.caption)
    parts = [html.heading(f"{experiment.figure}: {experiment.title}", anchor=experiment.name)]
    picture = out / f"{experiment.paper}-{experiment.figure}.png"
    rows = outcome.rows.get(experiment.name, [])
    if picture.exists() and rows:
        parts.append(html.figure(html.png(picture, experiment.title), caption))
    else:
        parts.append(html.paragraph(caption))
        if rows:
            cells = [[row.get(name, "") for name in rows[0]] for row in rows]
            parts.append(html.table(Table("", list(rows[0]), cells)))
    if rows:
        parts.append(html.links([("The measured points", f"{experiment.paper}-{experiment.figure}.csv")]))
    claims = outcome.claims_of(experiment)
    if claims:
        cells = [[claim[name] for name in (*_CLAIMS, "note")] for claim in claims]
        kinds = [_CLASSES[claim["verdict"]] for claim in claims]
        parts.append(html.table(Table("", (*_NAMES.values(), "why"), cells), kinds))
    return "".join(parts)


def _overview(claims: Sequence[Row]) -> str:
    """Return the table of all verdicts, with links to the figures."""
    names = [f"{claim['paper']}/{claim['figure']}" for claim in claims]
    rows = [(name, claim["claim"], claim["verdict"]) for name, claim in zip(names, claims, strict=True)]
    kinds = [_CLASSES[claim["verdict"]] for claim in claims]
    return html.table(Table("", ("figure", "claim", "verdict"), rows), kinds, [f"#{name}" for name in names])


def reference(paper: str) -> str:
    """Return who wrote a paper and its title: the first line of its module."""
    text = importlib.import_module(f"evenflow.papers.{paper}").__doc__ or paper
    return text.splitlines()[0].partition(": ")[2].rstrip(".")


def write_markdown(outcome: Outcome, experiments: Sequence[Experiment], path: Path, scale: str) -> None:
    """Write the table of verdicts: how to read it, what stands in for what, one section per paper."""
    papers = list(dict.fromkeys(experiment.paper for experiment in experiments))
    lines = [
        "# The five papers, reproduced",
        "",
        f"Every figure and table of the five papers, reproduced, with a verdict on each claim the papers "
        f"make about it: {summary(outcome.claims)}. This page is generated by `evenflow reproduce --scale "
        f"{scale} --page {path.as_posix()}`; no verdict is entered by hand.",
        "",
        "* **holds**: as the paper says, within the margin of the claim's rule;",
        "* **holds in direction**: the same order or trend, but a different magnitude;",
        "* **differs**: not reproduced, with the reason;",
        "* **cannot be tested here**: it needs the paper's own data or cluster.",
        "",
        "Each rule was fixed in the code before any run (`src/evenflow/papers`). *Published code* is what "
        "the available implementations actually do, where that was measured or deviates from the paper. "
        "`--scale paper` uses the papers' own sizes.",
        "",
        *_stand_ins(outcome),
        "",
        *markdown_table(("paper", *VERDICTS), [_counted(paper, outcome.claims) for paper in papers]),
    ]
    for paper in papers:
        lines += ["", f"## {paper}", "", f"{reference(paper)}."]
        for experiment in experiments:
            if experiment.paper == paper:
                lines += ["", *_section(experiment, outcome, "###", _CLAIMS[:-1], "**{}**")]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_deployments(outcome: Outcome, experiments: Sequence[Experiment], path: Path, scale: str) -> None:
    """Write the deployments as Markdown: what must hold, every claim with its verdict, the numbers."""
    names = ("claim", "expected", "measured", "verdict")
    lines = [
        "# The papers' deployments, on Spark",
        "",
        f"Written by `evenflow reproduce --on spark --scale {scale} --page {path.name}` on {os.cpu_count()} "
        f"cores. {summary(outcome.claims).capitalize()}.",
        "",
        DEPLOYED,
        "",
        "## What must hold",
        "",
        *markdown_table(
            ("figure", "what", *names[1:]),
            [
                (f"{gate['paper']}/{gate['figure']}", *(gate[name] for name in names))
                for gate in gates(outcome.claims)
            ],
        ),
    ]
    for experiment in experiments:
        columns = tuple(name for name in _CLAIMS[:-1] if name != "peer")
        lines += ["", *_section(experiment, outcome, "##", columns, "{}"), ""]
        lines += _numbers(outcome.rows.get(experiment.name, []))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def gates(claims: Sequence[Row]) -> list[Row]:
    """Return the claims that are evenflow's own."""
    return [claim for claim in claims if claim["section"] == OURS]


def _stand_ins(outcome: Outcome) -> list[str]:
    found = dict.fromkeys(text for data in outcome.data.values() for text in data)
    if not found:
        return []
    return ["The papers' own streams are not available (`--data NAME=FILE#COLUMN` uses yours), so:", "",
            *(f"* {text}" for text in found)]  # fmt: skip


def _section(
    experiment: Experiment, outcome: Outcome, level: str, columns: tuple[str, ...], verdict: str
) -> list[str]:
    """Return a figure's heading, caption and claims."""
    caption = outcome.captions.get(experiment.name, experiment.caption)
    lines = [f"{level} {experiment.name}: {experiment.title}", "", caption, ""]
    if experiment.name in outcome.failures:
        return [*lines, "Failed in this run."]
    rows = [(*(claim[name] for name in columns), with_note(verdict.format(claim["verdict"]), claim))
            for claim in outcome.claims_of(experiment)]  # fmt: skip
    return [*lines, *markdown_table((*(_NAMES[name] for name in columns), "verdict"), rows)]


def _numbers(rows: Sequence[Row]) -> list[str]:
    """Return what deployments measured, a table for each configuration."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if "throughput" in row:
            varied = [f"{name} = {row[name]}" for name in ("z", "delay", "data", "skew") if name in row]
            cluster = [f"{row[name]} {name}" for name in ("workers", "sources")]
            groups.setdefault(", ".join([*varied, *cluster]), []).append(row)
    lines: list[str] = []
    for configuration, own in groups.items():
        names = [name for name in _COLUMNS if name in own[0]]
        cells = [tuple(_short(row[name]) for name in names) for row in own]
        lines += [f"{configuration}; empty run {own[0]['empty_seconds']:.2f} s:", ""]
        lines += [*markdown_table(tuple(_COLUMNS[name] for name in names), cells), ""]
    return lines


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"


def with_note(verdict: str, claim: Row) -> str:
    """Return a verdict and, where there is one, the reason."""
    return verdict + (f": {claim['note']}" if claim["note"] else "")


def _counted(paper: str, claims: Sequence[Row]) -> list[object]:
    counts = Counter(claim["verdict"] for claim in claims if claim["paper"] == paper)
    return [f"[{paper}](#{paper})", *(counts[verdict] for verdict in VERDICTS)]


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table.

    >>> markdown_table(("a", "b"), [(1, "x|y")])
    ['| a | b |', '|---|---|', '| 1 | x\\\\|y |']
    """

    def line(cells: Sequence[object]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(names), "|" + "---|" * len(names), *map(line, rows)]
