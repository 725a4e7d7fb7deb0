"""The result of a run for people: one self-contained HTML page, and the table of verdicts as Markdown."""

from __future__ import annotations

import base64
import html
import importlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from evenflow.papers.experiment import VERDICTS, Experiment, Row, Rows
from evenflow.papers.reproduce import Outcome

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1b2733;max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{margin-bottom:.2rem}h2{margin-top:2.5rem;border-bottom:1px solid #d8dee4}
figure{margin:1.5rem 0}figure img{max-width:100%;border:1px solid #e3e8ed}
figcaption{color:#52606d;font-size:13px}
table{border-collapse:collapse;width:100%;display:block;overflow-x:auto;font-size:13px;margin:.5rem 0 1.5rem}
td,th{border-bottom:1px solid #e3e8ed;padding:.35rem .5rem;text-align:left;vertical-align:top}
.holds{color:#12703c;font-weight:600}.direction{color:#8a6100;font-weight:600}
.differs{color:#b3261e;font-weight:600}.untested{color:#6b7785}
nav a{margin-right:1rem}
"""
_CLASSES = dict(zip(VERDICTS, ("holds", "direction", "differs", "untested"), strict=True))


def summary(claims: Sequence[Row]) -> str:
    """Say in one line how many claims got which verdict."""
    counts = Counter(str(claim["verdict"]) for claim in claims)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or "no claims"


def write_html(outcome: Outcome, experiments: Sequence[Experiment], out: Path, scale: str) -> Path:
    """Write ``index.html``: every figure with its caption and claims; pictures are inside the file."""
    papers = list(dict.fromkeys(one.paper for one in experiments))
    body = [
        "<h1>Five papers, reproduced</h1>",
        f"<p>Scale <b>{_text(scale)}</b>: {_text(summary(outcome.claims))}.</p>",
        "<nav>" + "".join(f'<a href="#{_text(paper)}">{_text(paper)}</a>' for paper in papers) + "</nav>",
        f"<details><summary>All verdicts</summary>{_overview(outcome.claims)}</details>",
    ]
    for paper in papers:
        body.append(f'<h2 id="{_text(paper)}">{_text(paper)}</h2><p>{_text(reference(paper))}.</p>')
        for one in experiments:
            if one.paper == paper:
                body.append(_section(one, outcome, out))
    if outcome.failures:
        body.append("<h2>Failed</h2>")
        body += [f"<h3>{_text(name)}</h3><pre>{_text(why)}</pre>" for name, why in outcome.failures.items()]
    head = f'<meta charset="utf-8"><title>evenflow: reproduction</title><style>{_STYLE}</style>'
    page = out / "index.html"
    page.write_text(
        f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(body)}</body></html>\n", "utf-8"
    )
    return page


def _section(one: Experiment, outcome: Outcome, out: Path) -> str:
    caption = _text(outcome.captions.get(one.name, one.caption))
    parts = [f'<h3 id="{_text(one.name)}">{_text(one.figure)}: {_text(one.title)}</h3>']
    picture = out / f"{one.paper}-{one.figure}.png"
    if picture.exists() and one.name in outcome.rows:
        data = base64.b64encode(picture.read_bytes()).decode()
        parts.append(f'<figure><img alt="{_text(one.title)}" src="data:image/png;base64,{data}">')
        parts.append(f"<figcaption>{caption}</figcaption></figure>")
    else:
        parts.append(f"<p>{caption}</p>{_points(outcome.rows.get(one.name, []))}")
    if one.name in outcome.rows:
        parts.append(f'<p><a href="{one.paper}-{one.figure}.csv">The measured points</a></p>')
    claims = [
        claim for claim in outcome.claims if (claim["paper"], claim["figure"]) == (one.paper, one.figure)
    ]
    if claims:
        header = "".join(
            f"<th>{name}</th>"
            for name in ("section", "claim", "paper", "published code", "measured", "verdict")
        )
        parts.append(f"<table><tr>{header}</tr>{''.join(map(_line, claims))}</table>")
    return "".join(parts)


def _points(rows: Rows) -> str:
    """Show the rows of a table of the paper."""
    if not rows:
        return ""
    names = list(rows[0])
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    lines = ["".join(f"<td>{_text(_short(row.get(name, '')))}</td>" for name in names) for row in rows]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _short(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


def _overview(claims: Sequence[Row]) -> str:
    """Return the table of all verdicts, with links to the figures."""
    lines = [
        f'<tr><td><a href="#{_text(name)}">{_text(name)}</a></td><td>{_text(claim["claim"])}</td>'
        f'<td class="{_CLASSES[claim["verdict"]]}">{_text(claim["verdict"])}</td></tr>'
        for claim in claims
        for name in [f"{claim['paper']}/{claim['figure']}"]
    ]
    return f"<table><tr><th>figure</th><th>claim</th><th>verdict</th></tr>{''.join(lines)}</table>"


def _line(claim: Row) -> str:
    verdict = f'<span class="{_CLASSES[claim["verdict"]]}">{_text(claim["verdict"])}</span>'
    note = f"<br><small>{_text(claim['note'])}</small>" if claim["note"] else ""
    cells = [_text(claim[name]) for name in ("section", "claim", "expected", "peer", "measured")]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + f"<td>{verdict}{note}</td></tr>"


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)


def reference(paper: str) -> str:
    """Return who wrote a paper and its title: the first line of its module."""
    text = importlib.import_module(f"evenflow.papers.{paper}").__doc__ or paper
    return text.splitlines()[0].partition(": ")[2].rstrip(".")


def write_markdown(outcome: Outcome, experiments: Sequence[Experiment], path: Path, scale: str) -> None:
    """Write the table of verdicts: how to read it, what stands in for what, one section per paper."""
    papers = list(dict.fromkeys(one.paper for one in experiments))
    lines = [
        "# The five papers, reproduced",
        "",
        f"Every figure and table of the five papers, measured again, with a verdict on each claim that the "
        f"papers make of it: {summary(outcome.claims)}. This page is written by `evenflow reproduce --scale "
        f"{scale} --page {path.as_posix()}`; no verdict is typed in.",
        "",
        "* **holds**: as the paper says, within the margin of the claim's rule;",
        "* **holds in direction**: the same order or tendency, another magnitude;",
        "* **differs**: not so here, with the reason;",
        "* **cannot be tested here**: it needs the paper's own data or cluster.",
        "",
        "Each rule stands in the code before any run (`src/evenflow/papers`). *Published code* is what the "
        "implementations that can be found really do, where that was measured or is not what the paper says. "
        "`--scale paper` uses the papers' own sizes.",
        "",
        *_stand_ins(outcome),
        "",
        "| paper | " + " | ".join(VERDICTS) + " |",
        "|---|" + "---|" * len(VERDICTS),
    ]
    for paper in papers:
        counts = Counter(claim["verdict"] for claim in outcome.claims if claim["paper"] == paper)
        lines.append(f"| [{paper}](#{paper}) | " + " | ".join(str(counts[one]) for one in VERDICTS) + " |")
    for paper in papers:
        lines += ["", f"## {paper}", "", f"{reference(paper)}."]
        for one in experiments:
            if one.paper == paper:
                lines += _markdown_section(one, outcome)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _stand_ins(outcome: Outcome) -> list[str]:
    found = dict.fromkeys(text for data in outcome.data.values() for text in data)
    if not found:
        return []
    return ["The papers' own streams cannot be had (`--data NAME=FILE#COLUMN` uses yours), so:", "",
            *(f"* {text}" for text in found)]  # fmt: skip


def _markdown_section(one: Experiment, outcome: Outcome) -> list[str]:
    lines = ["", f"### {one.name}: {one.title}", "", outcome.captions.get(one.name, one.caption), ""]
    if one.name in outcome.failures:
        return [*lines, "Failed in this run."]
    lines += [
        "| section | claim | paper | published code | measured | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for claim in outcome.claims:
        if (claim["paper"], claim["figure"]) == (one.paper, one.figure):
            names = ("section", "claim", "expected", "peer", "measured")
            verdict = f"**{claim['verdict']}**" + (f": {claim['note']}" if claim["note"] else "")
            lines.append("| " + " | ".join(map(_cell, [*(claim[name] for name in names), verdict])) + " |")
    return lines


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
