"""The join of a stream with a table: plans follow the stream, and both sides of a micro-batch use one plan.

Spark joins a stream and a table only in kinds in which the rows of the table without a match are not wanted,
so these may be copied; the rows of the stream are copied only in an inner join.

Plans change while the query runs. If the sides read different ones, a row of the stream would be in a cell to
which no row of the table was copied. So both have the same scalar subquery, of which Spark computes one value
in every execution of a micro-batch: whatever happens to the file, rows are placed by that value, or, if it is
null, both sides are where Spark's own hash sends them. Should Spark ever read the plan once for each side,
and two of them, the batch fails: the rows of both sides tell the plan they were placed by, and rows of two
plans that match, such as those of any key that is not hot, are an error.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.plan import JoinPlan
from evenflow.plan.counted import Counted
from evenflow.spark.joining.hot_keys import LOOK_UP, SIDES
from evenflow.spark.joining.join_replanner import JoinReplanner
from evenflow.spark.joining.side import SideNames
from evenflow.spark.joining.sides import JoinSides
from evenflow.spark.joining.stream_plans import StreamPlans, operator_name
from evenflow.spark.joining.streamed_side import SideRules, Watch, streamed_side
from evenflow.spark.replanning.listener import observe_operator
from evenflow.spark.replanning.plan_source import current_look_up
from evenflow.spark.routing.key_columns import quoted

_REUSE = "spark.sql.execution.reuseSubquery"
KINDS = {"left": ("inner", "left", "left_semi", "left_anti"), "right": ("inner", "right")}


def check_kind(how: str, stream: str) -> None:
    """Refuse a kind that Spark does not offer for a stream on this side and a table on the other."""
    if how not in KINDS[stream]:
        raise EvenflowError(
            f"how is {how!r}, but Spark joins a stream on the {stream} with a table only as "
            f"{', '.join(KINDS[stream])}; choose one of these."
        )


def joined_with_table(
    sides: JoinSides,
    how: str,
    table: Counted,
    first: JoinPlan,
    folder: str,
    order: str,
    seed: int,
    reasons: list[str],
) -> DataFrame:
    """Return the join of a stream and a table on as many workers as the first plan has."""
    spark, workers = sides.frames[0].sparkSession, first.workers
    if str(spark.conf.get(_REUSE, "true")).lower() != "true":
        raise EvenflowError(
            f"{_REUSE} is off, so Spark would read a plan for each side of the join; set it to true."
        )
    stream_is_left = sides.frames[0].isStreaming
    operator = operator_name(how, workers, *(frame.columns for frame in sides.frames))
    stream = "left" if stream_is_left else "right"
    plans = StreamPlans(folder, operator, workers, None if how == "inner" else stream)
    replanner = JoinReplanner(plans, how, stream_is_left, table, plans.usable(first))
    name = observe_operator(spark, plans.control, plans.operator, replanner)
    look_up = current_look_up(spark, plans.control, plans.file, workers, LOOK_UP)
    placed = []
    names = [SideNames.of(side, *sides.frames) for side in SIDES]
    for number, side in enumerate(SIDES):
        frame, (keyed, keys), own = sides.frames[number], (sides.left, sides.right)[number], names[number]
        streams = frame.isStreaming
        inner = how == "inner"
        rules = SideRules(
            keeps_all=streams and not inner,
            divides=streams or inner,
            tells_plan=True,
            order=order if streams else "content",  # Spark has no row numbers beside a stream
            seed=seed,
        )
        watch = Watch(name, workers) if streams else None
        rows = streamed_side(frame, keyed, keys, look_up, side, own, rules, reasons, watch)
        placed.append(rows.repartition(workers, F.col(quoted(own.key))))
    return sides.on_cells(placed[0], placed[1], how, names)
