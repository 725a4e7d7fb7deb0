"""``evenflow advise``: measure key skew, compare the schemes, and recommend one with code to paste."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenflow.commands.terminal import (
    Json,
    announce_compilation,
    columns,
    notify,
    number,
    print_json,
    print_paragraph,
    print_recommendation,
    progress,
    whole,
)
from evenflow.errors import EvenflowError
from evenflow.files import check_output
from evenflow.kafka.address import is_kafka

if TYPE_CHECKING:
    from evenflow.advisor import Advice


def advise(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file, folder, glob pattern or URL such as s3://bucket/events as path#column, a topic "
            "(kafka://HOST:9092/TOPIC), or a generator such as zipf:z=1.4,keys=1e5.",
        ),
    ],
    workers: Annotated[
        int, typer.Option(parser=whole, metavar="COUNT", help="Number of workers (Spark partitions).")
    ],
    key: Annotated[list[str] | None, typer.Option(help="Key column; repeat for a composite key.")] = None,
    time: Annotated[str | None, typer.Option(help="Time column, for the figure over time.")] = None,
    join: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Predict a join of DATA with this side instead, on the same key."),
    ] = None,
    how: Annotated[
        str, typer.Option(help="Kind of the join: inner, left, right, full, left_semi or left_anti.")
    ] = "inner",
    mergeable: Annotated[
        bool,
        typer.Option("--mergeable", help="Partial results can be merged, so keys may be split (default)."),
    ] = False,
    one_owner: Annotated[
        bool, typer.Option("--one-owner", help="All rows of a key must be on the same worker.")
    ] = False,
    stateless: Annotated[bool, typer.Option("--stateless", help="The job keeps no state per key.")] = False,
    cores: Annotated[
        int | None,
        typer.Option(
            parser=whole, metavar="COUNT", help="Number of cores of the cluster. Default: one per worker."
        ),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(
            parser=number, metavar="SECONDS", help="Processing time per row, if known, such as 2e-5."
        ),
    ] = None,
    sample: Annotated[
        str, typer.Option(metavar="ROWS", help="Maximum number of rows to read, or 'all'.")
    ] = "2e6",
    seed: Annotated[int, typer.Option(parser=whole, metavar="SEED", help="Seed of the hash functions.")] = 0,
    as_json: Json = False,
    html: Annotated[
        Path | None, typer.Option(help="Also write a self-contained HTML report with figures.")
    ] = None,
) -> None:
    """Sample your data and recommend a scheme, with PySpark code to paste.

    Example: `evenflow advise events.parquet --key user_id --workers 64 --html report.html`

    Example: `evenflow advise s3://bucket/events --key user_id --workers 64`

    Example: `evenflow advise events.parquet --join users.parquet --key user_id --how left --workers 64`

    Example: `evenflow advise kafka://localhost:9092/clicks --key user --workers 64`
    """
    work = _work(mergeable, one_owner, stateless)
    rows = _rows(sample)
    if join is not None:
        given = {"--time": time, "--cores": cores, "--cost": cost, "--html": html}
        given |= {"--mergeable": mergeable, "--one-owner": one_owner, "--stateless": stateless}
        for option, value in given.items():
            if value:
                raise EvenflowError(f"{option} says nothing about a join; omit it, or omit --join.")
        from evenflow.commands.advise_join import show_join_advice

        show_join_advice(data, join, columns(key), workers, how, rows, seed, as_json)
        return
    if how != "inner":
        raise EvenflowError(f"--how is {how!r}, but there is no --join.")
    if html is not None:
        from evenflow.extras import require

        require("matplotlib", "plots", "--html")
        from evenflow.report.page import SUFFIXES

        check_output(html, SUFFIXES)
    from evenflow.advisor import advise as advise_on

    topic = None
    if is_kafka(data):
        from evenflow.commands.advise_topic import read_topic, topic_facts, topic_table

        read = read_topic(data, rows)
        topic = topic_facts(read)
        if not as_json:
            from evenflow.report.tables import show

            show([topic_table(topic)])
            typer.echo()
    with progress("advise") as watch, announce_compilation():
        advice = advise_on(
            data if topic is None else read.rows,
            columns(key),
            workers=workers,
            work=work,
            time=time,
            cores=cores,
            cost=cost,
            sample=rows,
            seed=seed,
            watch=watch,
            first=None if as_json else _show_first,
        )
    if html is not None:
        from evenflow.report.advice_page import advice_page
        from evenflow.report.page import write_page

        write_page(advice_page(advice), html)
    if as_json:
        print_json(advice.to_dict() | ({} if topic is None else {"topic": topic}))
        return
    _show(advice)
    if html is not None:
        print_paragraph(f"Wrote the report to {html}.")


def _show_first(advice: Advice) -> None:
    """Print the profile, and what is known before the other schemes are compared."""
    from evenflow.report.advice import facts_table, first_answer, hottest_table, remarks
    from evenflow.report.tables import show

    show([facts_table(advice)])
    for remark in remarks(advice):
        print_paragraph(remark)
    typer.echo()
    show([hottest_table(advice)])
    typer.echo()
    notify(first_answer(advice))


def _show(advice: Advice) -> None:
    """Print the comparison; the recommendation comes last, where a reader of a terminal looks first."""
    from evenflow.report.advice import label_of, schemes_table
    from evenflow.report.tables import show

    show([schemes_table(advice)])
    chosen = advice.recommendation
    print_recommendation(label_of(chosen.outcome), chosen.reason, chosen.code, chosen.notes)


def _work(mergeable: bool, one_owner: bool, stateless: bool) -> str:
    given = {"mergeable": mergeable, "one-owner": one_owner, "stateless": stateless}
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise EvenflowError(f"--{chosen[0]} and --{chosen[1]} are mutually exclusive; choose one.")
    return chosen[0] if chosen else "mergeable"


def _rows(text: str) -> int | None:
    if text.strip().lower() == "all":
        return None
    try:
        rows = float(text)
    except ValueError:
        rows = 0.0
    if rows < 1 or rows != int(rows):
        raise EvenflowError(f"--sample is {text!r}; it must be a number of rows, such as 2e6, or 'all'.")
    return int(rows)
