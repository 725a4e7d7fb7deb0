"""`balance`: one line instead of ``repartition(n, key)``; a hot key is spread over several partitions."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from evenflow.errors import EvenflowError
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.routing.key_columns import Key
from evenflow.spark.routing.place import Placed, place


def balance(
    key: Key,
    workers: int = 64,
    scheme: str | Scheme = "fill",
    mode: str = "auto",
    *,
    split: bool = True,
    sample: float | None = None,
    order: str = "auto",
    seed: int = 0,
    plan: Plan | None = None,
    sources: int | None = None,
    control: str | None = None,
    on_placed: Callable[[Placed], None] | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """Return a transformation that puts rows on ``workers`` partitions, evenly: rows, schema and order of
    columns stay as they are.

    ``df.transform(balance("user_id", workers=64))`` takes the place of ``df.repartition(64, "user_id")``. A
    key is on one partition unless it is too hot for one; ``split=False`` never splits a key.

    ``mode``: "planned" counts the keys in a first pass (over ``sample`` of the rows; None: as many as the
    balance needs) unless a ``plan`` is given; "online" decides row by row as in the papers; "auto" takes the
    first where the scheme can be planned. ``order`` says how rows of a split key are told apart: "sort" (by
    position after a sort in which only identical rows tie), "content" (by what they hold), "as-is" (by
    position as they come), or "auto". "as-is" is your promise that a task that runs again reads its rows in
    the same order; if it is broken while Spark's order-independent shuffle checksum is off, or before Spark
    4.2, rows are lost and repeated silently. ``on_placed`` gets what was chosen, with the plan and the
    reasons.
    """

    def transformed(df: DataFrame) -> DataFrame:
        placed = place(
            df, key, workers=workers, scheme=scheme, mode=mode, split=split, sample=sample, order=order,
            seed=seed, plan=plan, sources=sources, control=control,
        )  # fmt: skip
        _refuse_windows(placed)
        if on_placed is not None:
            on_placed(placed)
        return placed.rows()

    return transformed


def _refuse_windows(placed: Placed) -> None:
    for column in placed.keys:
        if column.is_window:
            raise EvenflowError(
                f"key holds {column.name!r}, a time window: Spark drops rows without a time for it and "
                "repeats those of several windows. Add it as a column first, or use aggregate."
            )
