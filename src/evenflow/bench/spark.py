"""evenflow on Spark compared with plain Spark: the cost of balancing, the balance, and the gain.

``quick`` uses a tenth of the rows and fewer rounds; its ratios are rough, since the fixed cost of a job
weighs more. Parts: :mod:`evenflow.bench.spark_balance`, :mod:`evenflow.bench.spark_planning` and
:mod:`evenflow.bench.spark_work`.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.bench import spark_balance, spark_planning, spark_work
from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.on_spark import session
from evenflow.bench.results import Limit, Target, part_tables, target_table
from evenflow.errors import EvenflowError
from evenflow.report.tables import Table

ROWS = 10**7
TARGETS = (
    Target("cost", {"what": "planned"}, "ratio", Limit("at most", 1.15)),
    Target("cost", {"what": "planning pass"}, "ratio", Limit("at most", 0.5)),
    Target("cost", {"what": "online"}, "ratio", Limit("at most", 2.5)),
    Target("evenness", {"what": "repartition"}, "max_over_mean", Limit("at least", 10)),
    Target("evenness", {"what": "planned"}, "max_over_mean", Limit("at most", 1.03)),
    Target("evenness", {"what": "online"}, "max_over_mean", Limit("at most", 1.03)),
    Target("sleep", {"what": "aggregate", "z": 1.4}, "of_shuffle", Limit("at least", 0.9)),
    Target("sleep", {"what": "aggregate", "z": 2.0}, "of_shuffle", Limit("at least", 0.9)),
    Target("sleep", {"what": "aggregate", "z": 2.0}, "of_key_grouping", Limit("at least", 10)),
    Target("cpu", {"what": "aggregate"}, "of_ideal", Limit("at least", 0.95)),
    Target("slices", {"what": "apply"}, "times_as_fast", Limit("at least", 5)),
    Target("stream", {"what": "merged by Spark"}, "ratio", Limit("at most", 1.35)),
    Target("stream", {"what": "merged in Python"}, "ratio", Limit("at most", 2)),
    Target("stream", {"what": "balance"}, "ratio", Limit("at most", 1.25)),
    *(
        Target("planning", {"what": f"{keys:,} keys"}, "of_limit", Limit("at most", 1))
        for keys, _ in spark_planning.CASES
    ),
)
PARTS = ("balance", "planning", *spark_work.COLUMNS)


def run(quick: bool = False, progress: Progress = silent, only: Sequence[str] = ()) -> list[Row]:
    """Measure everything, or what ``only`` names, on local Spark with two cores and then with 32 workers."""
    for name in only:
        if name not in PARTS:
            raise EvenflowError(f"--only is {name!r}; choose among {', '.join(PARTS)}.")
    chosen = only or PARTS
    size, rounds = (ROWS // 10, 3) if quick else (ROWS, 5)
    rows: list[Row] = []
    if {"balance", "planning"} & set(chosen):
        with session("local[2]") as spark:
            if "balance" in chosen:
                rows += spark_balance.run(spark, rows=size, rounds=rounds, progress=progress)
            if "planning" in chosen:
                part, turns = (10, 1) if quick else (1, 5)
                rows += spark_planning.run(spark, part=part, rounds=turns, progress=progress)
    return rows + spark_work.run(quick=quick, progress=progress, only=chosen)


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the parts as tables, and the targets."""
    return [
        *part_tables(rows, spark_balance.COLUMNS | spark_planning.COLUMNS | spark_work.COLUMNS),
        targets(rows),
    ]


def targets(rows: Sequence[Row]) -> Table:
    """Return every target with its measured value."""
    return target_table(line for target in TARGETS for line in target.lines(rows))
