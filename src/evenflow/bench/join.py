"""`evenflow.spark.join` compared with plain joins, adaptive execution and salting by hand.

``quick`` uses a tenth of the rows and fewer rounds; its ratios are rough, since the fixed cost of a job
weighs more. Tables and ways to join them: :mod:`evenflow.bench.join_tables`; streams:
:mod:`evenflow.bench.join_streams`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenflow.bench import join_streams, join_work
from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.results import Limit, Target, part_tables, target_table
from evenflow.errors import EvenflowError
from evenflow.report.tables import Table

PARTS = ("bare", "kinds", *join_work.CASES, *join_streams.PARTS)
OURS = ("evenflow, plan given", "evenflow, counting")
NOT_ADAPTIVE = ("full outer", "right aggregated", "three tables", "both sides hot")
TARGETS = (
    *(
        Target("bare", {"what": name, "case": case}, "cpu_of_plain", Limit("at most", most))
        for case in ("inner", "both sides hot")
        for name, most in zip(OURS, (1.15, 1.4), strict=True)
    ),
    Target("work", {"what": OURS[0], "case": "inner"}, "of_salting", Limit("at most", 1.15)),
    Target("work", {"what": OURS[0], "case": "inner"}, "of_tuned", Limit("at most", 1.1)),
    Target("work", {"what": OURS[0], "case": "three tables"}, "of_forced", Limit("at most", 1.1)),
    *(
        Target("work", {"what": OURS[0], "case": case}, "of_tuned", Limit("at most", 0.5))
        for case in NOT_ADAPTIVE
    ),
    *(
        Target("work", {"what": name, "case": case}, "max_over_mean", Limit("at most", 1.2))
        for case in join_work.CASES
        for name in OURS
    ),
    Target("kinds", {"what": "evenflow"}, "max_over_mean", Limit("at most", 1.2)),
    *join_streams.TARGETS,
)


def run(quick: bool = False, progress: Progress = silent, only: Sequence[str] = ()) -> list[Row]:
    """Measure everything, or the parts in ``only``."""
    return [row for rows in measured(quick, progress, only) for row in rows]


def measured(
    quick: bool = False, progress: Progress = silent, only: Sequence[str] = ()
) -> Iterator[list[Row]]:
    """Measure everything, or the parts in ``only``; yield the rows of each part once it is measured."""
    for part in only:
        if part not in PARTS:
            raise EvenflowError(f"--only is {part!r}; choose among {', '.join(PARTS)}.")
    chosen = only or PARTS
    if "bare" in chosen:
        yield join_work.bare(quick, progress)
    if "kinds" in chosen:
        yield join_work.kinds(quick, progress)
    if cases := [case for case in join_work.CASES if case in chosen]:
        yield from join_work.work(quick, progress, cases)
    for part in join_streams.PARTS:
        if part in chosen:
            yield join_streams.run(quick, progress, part)


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the parts as tables, and the targets."""
    return [*part_tables(rows, join_work.COLUMNS | join_streams.COLUMNS), targets(rows)]


def targets(rows: Sequence[Row]) -> Table:
    """Return every target with its measured value."""
    return target_table(line for target in TARGETS for line in target.lines(rows))
