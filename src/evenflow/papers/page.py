"""The result of a run for people: one self-contained HTML page, and the table of verdicts as Markdown."""

from __future__ import annotations

import base64
import html
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from evenflow.papers.experiment import VERDICTS, Experiment, Row
from evenflow.papers.reproduce import Outcome

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1b2733;max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{margin-bottom:.2rem}h2{margin-top:2.5rem;border-bottom:1px solid #d8dee4}
figure{margin:1.5rem 0}figure img{max-width:100%;border:1px solid #e3e8ed}
figcaption{color:#52606d;font-size:13px}
table{border-collapse:collapse;width:100%;font-size:13px;margin:.5rem 0 1.5rem}
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
    ]
    for paper in papers:
        body.append(f'<h2 id="{_text(paper)}">{_text(paper)}</h2>')
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
    parts = [f'<h3 id="{_text(one.name)}">{_text(one.figure)}: {_text(one.title)}</h3>']
    picture = out / f"{one.paper}-{one.figure}.png"
    if picture.exists() and one.name in outcome.rows:
        data = base64.b64encode(picture.read_bytes()).decode()
        parts.append(f'<figure><img alt="{_text(one.title)}" src="data:image/png;base64,{data}">')
        parts.append(f"<figcaption>{_text(one.caption)}</figcaption></figure>")
    else:
        parts.append(f"<p>{_text(one.caption)}</p>")
    claims = [
        claim for claim in outcome.claims if (claim["paper"], claim["figure"]) == (one.paper, one.figure)
    ]
    if claims:
        header = "".join(f"<th>{name}</th>" for name in ("section", "claim", "paper", "measured", "verdict"))
        parts.append(f"<table><tr>{header}</tr>{''.join(map(_line, claims))}</table>")
    return "".join(parts)


def _line(claim: Row) -> str:
    notes = [
        text for text in (claim["note"], f"Published code: {claim['peer']}" if claim["peer"] else "") if text
    ]
    verdict = f'<span class="{_CLASSES[claim["verdict"]]}">{_text(claim["verdict"])}</span>'
    shown = "".join(f"<br><small>{_text(note)}</small>" for note in notes)
    cells = [_text(claim[name]) for name in ("section", "claim", "expected", "measured")]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + f"<td>{verdict}{shown}</td></tr>"


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_markdown(outcome: Outcome, path: Path, scale: str) -> None:
    """Write the table of verdicts, one section per paper."""
    lines = [
        "# The five papers, reproduced",
        "",
        f"Written by `evenflow reproduce --scale {scale} --page {path.name}`.",
        f"{summary(outcome.claims).capitalize()}.",
        "The papers' own data sets cannot be had; captions of the figures say what stands in for them.",
    ]
    for paper in dict.fromkeys(str(claim["paper"]) for claim in outcome.claims):
        lines += ["", f"## {paper}", "", "| figure | section | claim | paper | measured | verdict | note |"]
        lines.append("|---|---|---|---|---|---|---|")
        for claim in outcome.claims:
            if claim["paper"] == paper:
                note = " ".join(
                    filter(None, (claim["note"], claim["peer"] and f"Published code: {claim['peer']}"))
                )
                names = ("figure", "section", "claim", "expected", "measured", "verdict")
                cells = [*(str(claim[name]) for name in names), note]
                lines.append(
                    "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
                )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
