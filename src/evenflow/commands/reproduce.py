"""``evenflow reproduce``: reproduce the papers' figures and tables, with a verdict on every claim."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from evenflow.commands.terminal import Json, notify, number, print_json, progress, whole
from evenflow.kafka.address import KafkaAddress

_FOLDERS = {"simulator": "papers", "spark": "deployments", "topics": "topics"}


def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(help="PAPER or PAPER/FIGURE (see --list). Default: all.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the figures and their claims.")] = False,
    scale: Annotated[str, typer.Option(help="small (minutes) or paper (the papers' own sizes).")] = "small",
    on: Annotated[
        str, typer.Option(help="simulator, or spark for the papers' deployments on a real engine.")
    ] = "simulator",
    master: Annotated[
        str | None, typer.Option(help="With --on spark: the cluster. Default: local, one slot per worker.")
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="With --on spark: from topic to topic of this broker (paper dynamic)."
        ),
    ] = None,
    packages: Annotated[
        str | None, typer.Option(help="With --kafka: the connector of your Spark, as for spark-submit.")
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            parser=whole, metavar="COUNT", help="Parallel processes; 0 is one per core. Spark uses one."
        ),
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for figures, points and verdicts. Default: results/papers, results/deployments or "
            "results/topics."
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="NAME=SPEC: the stream to use for a paper's data set, e.g. WP=w.csv#page."),
    ] = None,
    joining: Annotated[
        list[str] | None,
        typer.Option("--with", help="Add this scheme to every figure that compares schemes."),
    ] = None,
    own: Annotated[
        list[str] | None,
        typer.Option("--scheme", help="Your own scheme as module:name, for use with --with."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a run: keep finished points, also those of other commits."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="PAPER or PAPER/FIGURE: measure only this now; judge whatever is finished."),
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(
            parser=number,
            metavar="NUMBER",
            help="Begin no measurement after so many minutes, and say what is left.",
        ),
    ] = float("inf"),
    page: Annotated[Path | None, typer.Option(help="Also write the verdicts to this Markdown file.")] = None,
    summary_file: Annotated[
        Path | None,
        typer.Option(
            "--summary", help="Add finished figures to this file; NAME-paper.json beside a page NAME.md."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Reproduce the papers' figures and check their claims; an interrupted run can be resumed.

    Example: `evenflow reproduce choices/fig1 dynamic --jobs 2`

    Example: `evenflow reproduce --scale paper --resume --only choices --minutes 50`

    Example: `evenflow reproduce choices/fig13 --on spark`

    Example: `evenflow reproduce dynamic/fig9 --on spark --kafka localhost:9092`
    """
    from evenflow.errors import EvenflowError
    from evenflow.extras import require

    require("matplotlib", "plots", "evenflow reproduce")
    from evenflow.papers import find
    from evenflow.papers.data import data_sets
    from evenflow.papers.experiment import HOLDS, SCALES, RunConfig

    if scale not in SCALES:
        raise EvenflowError(f"--scale is {scale!r}; choose {' or '.join(SCALES)}.")
    if on not in ("simulator", "spark"):
        raise EvenflowError(f"--on is {on!r}; choose simulator or spark.")
    if master is not None and on != "spark":
        raise EvenflowError(f"--master is {master!r} but --on is {on}; add --on spark, or omit --master.")
    for name, value in (("--kafka", kafka), ("--packages", packages)):
        if value is not None and (on != "spark" or kafka is None):
            raise EvenflowError(
                f"{name} is {value!r} without a deployment; add --on spark --kafka HOST:PORT."
            )
    group = "topics" if kafka is not None else on
    out = out or Path(f"results/{_FOLDERS[group]}")
    if minutes < 0:
        raise EvenflowError(f"--minutes is {minutes:g}; give 0 or more.")
    if summary_file is not None and on == "spark":
        raise EvenflowError(f"--summary is {str(summary_file)!r} but --on is spark; omit one of them.")
    chosen = find(figures or [], group)
    if show:
        _list(chosen, as_json)
        return
    if on == "spark":
        require("pyspark", "spark", "--on spark")
    settings = {}
    if kafka is not None:
        settings = _broker(kafka) | ({"spark.jars.packages": packages} if packages else {})
    from evenflow.schemes.plugins import load_scheme

    sys.path.insert(0, str(Path.cwd()))
    for spec in own or []:
        load_scheme(spec)
    config = RunConfig(scale, data_sets(given=_pairs(data or [])), tuple(_known(joining or [])), master)
    from evenflow.papers.page import gates, summary, write_deployments, write_html, write_markdown
    from evenflow.papers.reproduce import Part

    names = frozenset(experiment.name for experiment in find(only, group)) if only else None
    part = Part(resume, names, minutes)
    try:
        with progress("reproduce" if on == "simulator" else "deploy") as follow:
            if on == "spark":
                from evenflow.papers.deployments.session import run as deploy

                outcome = deploy(chosen, config, out, follow, part, **settings)
            else:
                from evenflow.papers.reproduce import reproduce as run

                outcome = run(chosen, config, out, jobs or os.cpu_count() or 1, follow, own or [], part)
    except KeyboardInterrupt:
        notify(f"finished points are in {out / 'points'}; run the same command again to resume.")
        raise
    html = write_html(outcome, chosen, out, scale)
    if summary_file is not None:
        from evenflow.papers.scales import write_summary

        write_summary(outcome, chosen, summary_file)
    if page is not None:
        if on == "spark":
            options = "--on spark" + ("" if kafka is None else " --kafka HOST:PORT")
            write_deployments(outcome, chosen, page, scale, options)
        else:
            write_markdown(outcome, chosen, page, scale)
    if as_json:
        print_json(outcome.claims)
    else:
        _show_claims(outcome.claims)
    notify(f"{summary(outcome.claims)}; figures in {html}")
    for claim in gates(outcome.claims):
        if claim["verdict"] != HOLDS:
            figure, text = f"{claim['paper']}/{claim['figure']}", claim["claim"]
            notify(f"{figure}: {text}: measured {claim['measured']}, expected {claim['expected']}")
    if outcome.left:
        points = sum(missing for missing, _ in outcome.left.values())
        parts = [f"{name} {missing} of {total}" for name, (missing, total) in outcome.left.items()]
        notify(f"points left: {points} (shared ones counted per figure); {', '.join(parts)}")
    for name, why in outcome.failures.items():
        notify(f"{name} failed: {why.splitlines()[-1]}")
    if outcome.failures:
        raise typer.Exit(1)


def _broker(servers: str) -> dict[str, str]:
    """Return the setting that names a broker, which must answer."""
    from evenflow.kafka.topic import topics_of
    from evenflow.papers.deployments.lanes import BROKER

    topics_of(KafkaAddress.parse(f"kafka://{servers}/any"))
    return {BROKER: servers}


def _list(chosen: list, as_json: bool) -> None:  # type: ignore[type-arg]
    rows = [
        {
            "figure": experiment.name,
            "title": experiment.title,
            "claims": [claim.text for claim in experiment.claims],
        }
        for experiment in chosen
    ]
    if as_json:
        print_json(rows)
        return
    from evenflow.report.tables import Table, show

    show([Table("Figures and tables", ("name", "title", "claims"),
                [(row["figure"], row["title"], len(row["claims"])) for row in rows])])  # fmt: skip


def _show_claims(claims: list[dict[str, str]]) -> None:
    from evenflow.report.tables import Table, show

    rows = [
        (f"{c['paper']}/{c['figure']}", c["claim"], c["expected"], c["measured"], c["verdict"])
        for c in claims
    ]
    show([Table("Claims", ("figure", "claim", "paper", "measured", "verdict"), rows)])


def _pairs(texts: list[str]) -> dict[str, str]:
    from evenflow.errors import EvenflowError

    for text in texts:
        if "=" not in text:
            raise EvenflowError(f"--data is {text!r}; write NAME=SPEC, such as WP=pages.parquet#url.")
    return dict(text.split("=", 1) for text in texts)


def _known(names: list[str]) -> list[str]:
    import evenflow as ef

    for name in names:
        ef.scheme(name)
    return names
