"""One side of a join: every row with the join keys of its cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.kernels import Int32Array
from evenflow.plan import JoinPlan
from evenflow.plan.join_plan import SidePieces
from evenflow.spark.joining.join_keys import key_on_worker
from evenflow.spark.routing.key_columns import KeyColumn, helper_name, key_hash, quoted
from evenflow.spark.routing.plan_sql import CellNames, with_answer, with_cells
from evenflow.spark.routing.row_content import row_content
from evenflow.spark.routing.row_draws import with_draw
from evenflow.spark.routing.row_order import has_fixed_order


@dataclass(frozen=True)
class SideNames:
    """The helper columns of a side."""

    key: str  # the join key
    copies: str  # number of copies of the row
    copy: str  # number of this copy
    identity: str  # the same for all copies of a row, and for identical rows
    here: str  # true; null in joined rows without a row of this side
    plan: str  # the number of the plan that was looked up

    @staticmethod
    def of(side: str, left: DataFrame, right: DataFrame) -> SideNames:
        """Return names that neither frame has."""
        taken = [*left.columns, *right.columns]
        parts = ("key", "copies", "copy", "identity", "here", "plan")
        return SideNames(*(helper_name(taken, f"{side}_join_{part}") for part in parts))

    def all(self) -> list[str]:
        """Return all names."""
        return [self.key, self.copies, self.copy, self.identity, self.here, self.plan]


def placed_side(
    df: DataFrame,
    keyed: DataFrame,
    keys: list[KeyColumn],
    plan: JoinPlan,
    pieces: SidePieces,
    names: SideNames,
    *,
    keeps_all: bool,
    order: str,
    seed: int,
    reasons: list[str],
    identified: bool,
) -> DataFrame:
    """Return the rows of a side with the columns of ``names`` that are needed.

    ``keyed`` is ``df`` with its key columns. If ``keeps_all``, rows without a match are wanted; those with a
    null in their key never have one and are spread over all partitions. Otherwise they are dropped. If
    ``identified``, the copies of a wanted row can be told from those of others.
    """
    is_null = any_null(keys)
    copied = bool((pieces.copies > 1).any())
    if not keeps_all:
        keyed = keyed.where(f"not ({is_null})")
    draw: Column | None = None
    added: list[str] = []
    if keeps_all and copied and identified:
        keyed = _with_identity(keyed, df, order, seed, names.identity)
    if keeps_all or bool((pieces.pieces > 1).any()):
        keyed, draw, added = with_draw(keyed, df, keys, order, seed, reasons)
    values = key_on_worker(np.repeat(plan.keys, np.diff(plan.starts)), pieces.homes)
    columns = CellNames(names.key, names.copies, names.copy, helper_name(keyed, "side_draw"))
    frame, steps = with_cells(
        keyed, plan, pieces, values, key_hash(keys), draw, columns,
        keyless=is_null if keeps_all else None, cold_cell=_number(keys),
    )  # fmt: skip
    unused = [] if keeps_all else [names.copies, names.copy]
    return frame.drop(*(key.frame_name for key in keys if key.is_helper), *added, *steps, *unused)


def _number(keys: list[KeyColumn]) -> str | None:
    """Return SQL for a key that is a whole number; beside the key, it compresses better than a hash."""
    if len(keys) == 1 and isinstance(keys[0].type, T.IntegralType):
        return f"bigint({quoted(keys[0].frame_name)})"
    return None


def any_null(keys: list[KeyColumn]) -> str:
    """Return SQL for whether a part of the key is null."""
    return " or ".join(f"{quoted(key.frame_name)} is null" for key in keys)


def _with_identity(keyed: DataFrame, df: DataFrame, order: str, seed: int, name: str) -> DataFrame:
    """Return the rows with what identifies them among their copies: position if fixed, otherwise content."""
    if order == "as-is" or (order == "auto" and has_fixed_order(df)):
        return keyed.select("*", F.struct(F.monotonically_increasing_id()).alias(name))
    content = row_content(keyed)
    hashes = F.struct(content.hash(seed).alias("a"), content.hash(seed + 1).alias("b"))
    return content.frame.select("*", hashes.alias(name)).drop(*content.added)


def with_copied_keys(
    keyed: DataFrame, keys: list[KeyColumn], plan: JoinPlan, copies: Int32Array
) -> DataFrame:
    """Return the rows whose key has several ``copies``, an entry for each key of the plan.

    A null key has none, although its hash may be that of a struct of nulls, which may have some.
    """
    name = helper_name(keyed, "found")
    found = with_answer(keyed, plan.keys, plan.slots, copies, key_hash(keys), name)
    return found.where(f"{quoted(name)} > 1 and not ({any_null(keys)})").drop(name)
