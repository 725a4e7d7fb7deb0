"""The join of two streams on Spark's own state: rows of a hot key are divided among several pieces.

A row of the divided side waits in one piece, and every row of the other side is copied to all pieces of its
key, so two rows that match meet in exactly one of them, whichever comes first. Late rows, watermarks and
eviction are Spark's: all copies of a row have its time and are dropped or kept together. Plans follow the
streams if the condition limits how far apart the times of two rows that match are; see
:mod:`evenflow.spark.joining.plan_versions`.

A copy that finds no match would come out as an unmatched row of its own, once for each copy. So the side
whose unmatched rows are wanted is divided and never copied, and a full outer join, which wants those of both
sides, is refused.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from evenflow.errors import EvenflowError
from evenflow.plan import JoinPlan
from evenflow.spark.joining.hot_keys import SIDES, looked_up_in_task
from evenflow.spark.joining.join_replanner import StreamsReplanner
from evenflow.spark.joining.plan_versions import PlanVersions, Reach
from evenflow.spark.joining.side import SideNames
from evenflow.spark.joining.sides import JoinSides
from evenflow.spark.joining.stream_plans import StreamPlans, empty_plan, operator_name
from evenflow.spark.joining.streamed_side import SideRules, Times, Watch, streamed_side
from evenflow.spark.joining.time_range import WATERMARK, TimeRange, time_range
from evenflow.spark.replanning.listener import observe_operator
from evenflow.spark.routing.options import PARTITIONS, default_workers

KINDS = ("inner", "left", "right", "left_semi")


def check_streams(sides: JoinSides, how: str, workers: int, control: str | None) -> None:
    """Refuse what two streams cannot be joined by."""
    if how == "full":
        raise EvenflowError(
            "how is 'full', but a copied row of a stream would come out as unmatched once per copy, and a "
            "full join wants the unmatched rows of both sides; use left.join(right), or one of "
            f"{', '.join(KINDS)}."
        )
    if how not in KINDS:
        raise EvenflowError(
            f"how is {how!r}, but Spark joins two streams only as {', '.join(KINDS)} or full."
        )
    partitions = default_workers(sides.frames[0])
    if workers != partitions:
        raise EvenflowError(
            f"workers is {workers}, but Spark keeps the state of two streams in {PARTITIONS} = {partitions} "
            "partitions; make them equal."
        )
    if control is None:
        raise EvenflowError(
            "the rows of two streams wait in the pieces of the plan, so the plan must be kept as long as the "
            "checkpoint; pass control, such as a folder inside of the checkpoint."
        )
    for keyed, keys in (sides.left, sides.right):
        for key in keys:
            if WATERMARK in (keyed.schema[key.frame_name].metadata or {}):
                raise EvenflowError(
                    f"the key {key.name!r} is the time of the watermark, which decides how long Spark keeps "
                    "rows; pass its equality as condition, beside another key."
                )


def joined_streams(
    sides: JoinSides,
    how: str,
    workers: int,
    plan: JoinPlan | None,
    folder: str,
    order: str,
    seed: int,
    reasons: list[str],
) -> tuple[DataFrame, JoinPlan]:
    """Return the join of two streams, and its first plan."""
    spark = sides.frames[0].sparkSession
    divided = {"left": "left", "left_semi": "left", "right": "right"}.get(how)  # in others, either side is
    operator = operator_name(how, workers, *(frame.columns for frame in sides.frames))
    plans = StreamPlans(folder, operator, workers, divided)
    times = time_range(sides)
    if isinstance(times, str):
        if plan is None:
            raise EvenflowError(
                f"{times}, so these streams are joined by a plan that stays; pass plan, such as the one that "
                "join makes of what the sources have so far, read as batches."
            )
        reasons.append(f"the first micro-batch binds the plan to the query; it stays, since {times}")
    else:
        reasons.append("plans follow the streams; one that was used stays valid for the rows of its time")
    first = plan or empty_plan(workers)
    placed_side = divided or "left"
    ranges = None if isinstance(times, str) else times if placed_side == "left" else times.reversed()
    reach = None if ranges is None else Reach(ranges.least, ranges.most)
    versions = PlanVersions(plans, first, placed_side, reach)
    replanner = None
    if ranges is not None:
        replanner = StreamsReplanner(plans, how, plans.usable(first), versions.forget_claims)
    names = [SideNames.of(side, *sides.frames) for side in SIDES]
    found = looked_up_in_task(spark, versions.looked_up)
    placed = []
    for number, side in enumerate(SIDES):
        frame, (keyed, keys), own = sides.frames[number], (sides.left, sides.right)[number], names[number]
        watch = None
        if replanner is not None:
            name = observe_operator(spark, plans.control, f"{operator}-{side}", replanner.side(side))
            watch = Watch(name, workers)
        rules = SideRules(
            keeps_all=side == divided,
            divides=divided in (None, side),
            order=order,
            seed=seed,
            times=None if ranges is None else _times(versions, ranges, side),
        )
        placed.append(streamed_side(frame, keyed, keys, found, side, own, rules, reasons, watch))
    return sides.on_cells(placed[0], placed[1], how, names), first


def _times(versions: PlanVersions, ranges: TimeRange, side: str) -> Times:
    """Return the times of a side's rows; ``ranges`` has the side whose rows go by one plan on its left."""
    if side == versions.placed:
        return Times(ranges.left, 0, 0, versions.mark(side))
    return Times(ranges.right, ranges.least, ranges.most, versions.mark(side))
