"""The page of the deployments: what must hold, every claim with its verdict, the measured numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from evenflow.papers.deployments.common import gates
from evenflow.papers.experiment import Experiment, Row, Rows
from evenflow.papers.page import markdown_table, summary, with_note
from evenflow.papers.reproduce import Outcome

_GATE = ("claim", "expected", "measured", "verdict")
_COLUMNS = {
    "label": "scheme",
    "messages": "messages",
    "share": "share",
    "seconds": "seconds",
    "throughput": "per second",
    "of_key": "of KG",
    "predicted_of_key": "predicted",
    "latency_mean": "mean",
    "latency_p50": "p50",
    "latency_p95": "p95",
    "latency_p99": "p99",
    "latency_worker": "worst mean",
    "pairs": "pairs",
    "memory": "per key",
    "state_bytes": "bytes",
}


def write_page(outcome: Outcome, experiments: Sequence[Experiment], path: Path, scale: str) -> None:
    """Write the page as Markdown."""
    lines = [
        "# The papers' deployments, on Spark",
        "",
        f"Written by `evenflow reproduce --on spark --scale {scale} --page {path.name}` on {os.cpu_count()} "
        f"cores. {summary(outcome.claims).capitalize()}.",
        "",
        "One stream at a time runs through the real pipeline: sources route with evenflow's routers, "
        "workers serve their messages in Python, an aggregator merges their partial states. Workers sleep "
        "for each message, as in the papers, so many of them fit on few cores. All messages are handed in "
        "at once. Throughput is messages over wall time; the latency of a message is when its worker "
        "finished it, since the batch was handed in, in seconds; *worst mean* is the largest of the "
        "workers' mean latencies. Memory is pairs of key and worker, and bytes of partial state. A scheme "
        "that overloads a few workers gets a *share* of the messages (every so many-th one); its throughput "
        "is that of its share, its latencies are as with all messages. The share is chosen so that its run "
        "lasts as long as the others': what the engine takes then weighs the same on both sides of a ratio, "
        "which makes the rule on predictions easier to keep than on all messages. *predicted* is what the "
        "simulator says of the same messages, relative to key grouping. Numbers are medians of 3 runs, "
        "schemes in turn; the *empty run* is the same pipeline with messages that cost nothing.",
        "",
        "## What must hold",
        "",
        *markdown_table(
            ("figure", "what", *_GATE[1:]),
            [
                (f"{claim['paper']}/{claim['figure']}", *(claim[name] for name in _GATE))
                for claim in gates(outcome.claims)
            ],
        ),
    ]
    for experiment in experiments:
        name = experiment.name
        lines += [
            "",
            f"## {name}: {experiment.title}",
            "",
            outcome.captions.get(name, experiment.caption),
            "",
        ]
        lines += _claims(experiment, outcome)
        lines += _measured(outcome.rows.get(name, []))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _claims(experiment: Experiment, outcome: Outcome) -> list[str]:
    if experiment.name in outcome.failures:
        return ["Failed in this run.", ""]
    rows = [
        (
            *(claim[name] for name in ("section", "claim", "expected", "measured")),
            with_note(claim["verdict"], claim),
        )
        for claim in outcome.claims_of(experiment)
    ]
    return [*markdown_table(("section", "claim", "paper", "measured", "verdict"), rows), ""]


def _measured(rows: Rows) -> list[str]:
    """Return the numbers, a table for each configuration."""
    lines: list[str] = []
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if "throughput" in row:
            groups.setdefault(_configuration(row), []).append(row)
    for configuration, own in groups.items():
        names = [name for name in _COLUMNS if name in own[0]]
        cells = [tuple(_short(row[name]) for name in names) for row in own]
        lines += [f"{configuration}; empty run {own[0]['empty_seconds']:.2f} s:", ""]
        lines += [*markdown_table(tuple(_COLUMNS[name] for name in names), cells), ""]
    return lines


def _configuration(row: Row) -> str:
    own = {name: row[name] for name in ("z", "delay", "data", "skew") if name in row}
    told = [f"{name} = {value}" for name, value in own.items()]
    return ", ".join([*told, f"{row['workers']} workers", f"{row['sources']} sources"])


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
