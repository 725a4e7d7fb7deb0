"""The join of a stream with a table: plans follow the stream, and both sides of a micro-batch use one plan.

Spark joins a stream and a table only in kinds in which the rows of the table without a match are not wanted,
so these may be copied; the rows of the stream are copied only in an inner join. See
:mod:`evenflow.spark.joining.stream_plans` for why both sides agree.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.plan import JoinPlan
from evenflow.plan.counted import Counted
from evenflow.spark.joining.hot_keys import MicroBatch, Spans, at_all_times, hot_keys
from evenflow.spark.joining.join_replanner import JoinReplanner
from evenflow.spark.joining.side import SideNames
from evenflow.spark.joining.sides import JoinSides
from evenflow.spark.joining.stream_plans import StreamPlans, operator_name
from evenflow.spark.joining.streamed_side import SideRules, Watch, streamed_side
from evenflow.spark.replanning.listener import observe_operator
from evenflow.spark.routing.key_columns import quoted

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
    stream_is_left = sides.frames[0].isStreaming
    operator = operator_name(how, workers, *(frame.columns for frame in sides.frames))
    stream = "left" if stream_is_left else "right"
    plans = StreamPlans(folder, operator, workers, None if how == "inner" else stream)
    replanner = JoinReplanner(plans, how, stream_is_left, table, plans.usable(first))
    name = observe_operator(spark, plans.control, plans.operator, replanner)
    placed = []
    names = [SideNames.of(side, *sides.frames) for side in ("left", "right")]
    for number, side in enumerate(("left", "right")):
        frame, (keyed, keys), own = sides.frames[number], (sides.left, sides.right)[number], names[number]
        streams = frame.isStreaming
        hot = hot_keys(spark, _reader(plans, side, claims=not streams))
        inner = how == "inner"
        rules = SideRules(
            keeps_all=streams and not inner,
            divides=streams or inner,
            at_home=not streams,
            order=order if streams else "content",  # Spark has no row numbers beside a stream
            seed=seed,
        )
        watch = Watch(name, workers) if streams else None
        rows = streamed_side(frame, keyed, keys, hot, own, rules, reasons, watch)
        placed.append(rows.repartition(workers, F.col(quoted(own.key))))
    return sides.on_cells(placed[0], placed[1], how, (names[0].key, names[1].key))


def _reader(plans: StreamPlans, side: str, *, claims: bool) -> Callable[[MicroBatch], Spans]:
    """Return what reads the plan of a micro-batch for a side: claims it, or waits for the other's claim."""

    def read(batch: MicroBatch) -> Spans:
        serial, plan = plans.claim(batch) if claims else plans.claimed(batch)
        return serial, at_all_times(plan, side)

    return read
