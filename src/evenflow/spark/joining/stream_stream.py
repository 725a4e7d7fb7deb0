"""The join of two streams on Spark's own state: rows of a hot key are divided among several pieces.

A row of the divided side waits in one piece, and every row of the other side is copied to all pieces of its
key, so two rows that match meet in exactly one of them, whichever comes first. Late rows, watermarks and
eviction are Spark's: all copies of a row have its time and are dropped or kept together.

A copy that finds no match would come out as an unmatched row of its own, once for each copy. So the side
whose unmatched rows are wanted is divided and never copied, and a full outer join, which wants those of both
sides, is refused.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from evenflow.errors import EvenflowError
from evenflow.plan import JoinPlan
from evenflow.spark.joining.hot_keys import MicroBatch, hot_keys
from evenflow.spark.joining.side import SideNames
from evenflow.spark.joining.sides import JoinSides
from evenflow.spark.joining.stream_plans import StreamPlans, operator_name
from evenflow.spark.joining.streamed_side import SideRules, streamed_side
from evenflow.spark.routing.options import PARTITIONS, default_workers

KINDS = ("inner", "left", "right", "left_semi")
_WATERMARK = "spark.watermarkDelayMs"


def check_streams(
    sides: JoinSides, how: str, workers: int, plan: JoinPlan | None, control: str | None
) -> None:
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
    if plan is None:
        raise EvenflowError(
            "two streams are joined by a plan that stays; pass plan, such as the one that join makes of what "
            "the sources have so far, read as batches."
        )
    if control is None:
        raise EvenflowError(
            "the rows of two streams wait in the pieces of the plan, so the plan must be kept as long as the "
            "checkpoint; pass control, such as a folder inside of the checkpoint."
        )
    for keyed, keys in (sides.left, sides.right):
        for key in keys:
            if _WATERMARK in (keyed.schema[key.frame_name].metadata or {}):
                raise EvenflowError(
                    f"the key {key.name!r} is the time of the watermark, which decides how long Spark keeps "
                    "rows; pass its equality as condition, beside another key."
                )


def joined_streams(
    sides: JoinSides,
    how: str,
    plan: JoinPlan,
    folder: str,
    order: str,
    seed: int,
    reasons: list[str],
) -> DataFrame:
    """Return the join of two streams by one plan, to which the query's first micro-batch is bound."""
    spark = sides.frames[0].sparkSession
    divided = {"left": "left", "left_semi": "left", "right": "right"}.get(how)  # in others, either side is
    operator = operator_name(how, plan.workers, *(frame.columns for frame in sides.frames))
    plans = StreamPlans(folder, operator, plan.workers, divided)

    def read(batch: MicroBatch) -> tuple[int, JoinPlan]:
        return plans.bound(plan, batch)

    names = [SideNames.of(side, *sides.frames) for side in ("left", "right")]
    placed = []
    for number, side in enumerate(("left", "right")):
        frame, (keyed, keys), own = sides.frames[number], (sides.left, sides.right)[number], names[number]
        rules = SideRules(keeps_all=side == divided, divides=divided in (None, side), order=order, seed=seed)
        hot = hot_keys(spark, read, side)
        placed.append(streamed_side(frame, keyed, keys, hot, own, rules, reasons))
    joined = sides.on_cells(placed[0], placed[1], how, (names[0].key, names[1].key))
    return joined.drop(*(name.key for name in names))
