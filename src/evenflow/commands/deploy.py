"""``evenflow reproduce --on spark``: the papers' deployments, one after the other on one session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from evenflow.commands.terminal import print_json, progress, say
from evenflow.papers.experiment import Experiment, Setting


def deploy(
    chosen: Sequence[Experiment],
    setting: Setting,
    master: str | None,
    out: Path,
    page: Path | None,
    as_json: bool,
) -> None:
    """Run the deployments, write everything, and show what must hold and what the papers claim."""
    from evenflow.papers.deployments.page import write_page
    from evenflow.papers.deployments.rules import gates
    from evenflow.papers.deployments.run import run
    from evenflow.papers.experiment import HOLDS
    from evenflow.papers.page import summary, write_html
    from evenflow.report.tables import Table, show

    with progress("deploy") as follow:
        outcome = run(chosen, setting, master, out, follow)
    html = write_html(outcome, chosen, out, setting.scale)
    if page is not None:
        write_page(outcome, chosen, page, setting.scale)
    if as_json:
        print_json(outcome.claims)
    else:
        columns = ("figure", "claim", "expected", "measured", "verdict")
        rows = [
            (f"{one['paper']}/{one['figure']}", *(one[name] for name in ("claim", *columns[2:])))
            for one in outcome.claims
        ]
        show([Table("Claims, on Spark", columns, rows)])
    broken = [one for one in gates(outcome.claims) if one["verdict"] != HOLDS]
    say(f"{summary(outcome.claims)}; figures in {html}")
    for one in broken:
        say(f"{one['paper']}/{one['figure']}: {one['claim']}: {one['measured']}, expected {one['expected']}")
    for name, why in outcome.failures.items():
        say(f"{name} failed: {why.splitlines()[-1]}")
    if outcome.failures:
        raise typer.Exit(1)
