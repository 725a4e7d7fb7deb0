"""A compiled plan as Column expressions, evaluated without Python.

The steps are those of :class:`evenflow.plan.table.PlanTable`, over its arrays
(:mod:`evenflow.spark.stored_arrays`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.blob import Array
from evenflow.kernels import Int64Array, UInt64Array
from evenflow.plan.join_plan import JoinPlan, SidePieces
from evenflow.plan.plan import Plan
from evenflow.plan.table import UPPER, PlanTable, Slots
from evenflow.spark.routing.key_columns import helper_name, quoted
from evenflow.spark.stored_arrays import stored_arrays

_CELL_BITS = 21  # bits for the number of a key's homes
_LOOK_UP = ("hash", "slot", "found")  # the steps of finding a hot key


def with_worker(df: DataFrame, plan: Plan, hashed: str, draw: Column | None, worker: str) -> DataFrame:
    """Return ``df`` with each row's worker, a non-null INT, looked up by its hash and a draw in [0, 1).

    What is costly or drawn is a column of its own, because Spark would evaluate it again wherever it is used.
    """
    if not plan.keys.size:
        return df.select("*", bucket_home(df, plan, hashed).alias(worker))
    names = {step: helper_name([*df.columns, worker], step) for step in (*_LOOK_UP, "draw")}
    hash_, _, found, draw_ = (quoted(name) for name in names.values())
    table = plan.table
    chosen = draw if table.splits else None
    # for each hot key: its only home, or its first cell and the number of its cells
    answers: Array = table.first_homes
    arrays: dict[str, Array] = {}
    if chosen is not None:
        answers = (table.starts[:-1] << _CELL_BITS) + np.diff(table.starts)
        arrays = {"cuts": table.cut, "homes": np.stack([table.below, table.above], axis=1).ravel()}
    stored = stored_arrays(df.sparkSession, _answer_arrays(table.keys, table, answers) | arrays)
    drawn = [] if chosen is None else [chosen.alias(names["draw"])]
    df = _with_answer(df, stored, table, hashed, names, drawn)
    home = F.col(found).cast("int")
    if chosen is not None:
        scaled = f"{draw_} * ({found} & {(1 << _CELL_BITS) - 1}L)"
        at = f"int(shiftright({found}, {_CELL_BITS})) + int({scaled})"
        is_above = F.when(F.expr(f"{scaled} % 1") < F.get(stored["cuts"], F.expr(at)), 0).otherwise(1)
        home = F.get(stored["homes"], F.expr(f"2 * ({at})") + is_above)
    home = F.when(F.col(found) >= 0, home).otherwise(bucket_home(df, plan, hash_))
    return df.select("*", home.alias(worker)).drop(*names.values())


def with_answer(
    df: DataFrame, keys: UInt64Array, slots: Slots | PlanTable, answers: Array, hashed: str, answer: str
) -> DataFrame:
    """Return ``df`` with the hot key's entry in ``answers``, or -1, in the column ``answer``."""
    names = {step: helper_name([*df.columns, answer], step) for step in _LOOK_UP}
    stored = stored_arrays(df.sparkSession, _answer_arrays(keys, slots, answers))
    df = _with_answer(df, stored, slots, hashed, names | {"found": answer})
    return df.drop(names["hash"], names["slot"])


def _answer_arrays(keys: UInt64Array, slots: Slots | PlanTable, answers: Array) -> dict[str, Array]:
    """Return what the look-up of a hot key's entry in ``answers`` reads."""
    hashes = np.append(keys.view(np.int64), 0)[slots.slots]
    held = np.append(answers, -1)[slots.slots]  # -1 in free slots, which would otherwise match a hash of 0
    arrays: dict[str, Array] = {
        "slots": np.stack([hashes, held, slots.shifts.astype(np.int64)], axis=1).ravel()
    }
    if slots.unslotted.size:
        arrays["listed"] = keys.view(np.int64)[slots.unslotted]
        arrays["listed_answers"] = answers[slots.unslotted].astype(np.int64)
    return arrays


def _with_answer(
    df: DataFrame, stored: dict[str, Column], slots: Slots | PlanTable, hashed: str, names: dict[str, str],
    drawn: Sequence[Column] = (),
) -> DataFrame:  # fmt: skip
    """Return ``df`` with a column for each step of a look-up: the key's hash, its slot, and its answer.

    Spark analyzes the whole plan anew for every frame that is made of another, so there are few steps.
    """
    mask = slots.slots.size - 1
    hash_, slot = (quoted(names[step]) for step in ("hash", "slot"))
    held, answer = (F.get(stored["slots"], F.expr(at)) for at in (slot, f"{slot} + 1"))
    default_answer = F.lit(-1)
    if slots.unslotted.size:
        number = F.array_position(stored["listed"], F.col(hash_)).cast("int") - 1
        default_answer = F.coalesce(F.get(stored["listed_answers"], number), default_answer)
    df = df.select("*", *drawn, F.expr(hashed).alias(names["hash"]))
    shift = F.get(stored["slots"], F.expr(f"3 * int({hash_} & {mask}L) + 2"))
    place = (F.expr(f"shiftrightunsigned({hash_}, {UPPER})") + shift).bitwiseAND(F.lit(mask)).cast("int") * 3
    df = df.withColumn(names["slot"], place)
    return df.withColumn(names["found"], F.when(held == F.col(hash_), answer).otherwise(default_answer))


class CellNames(NamedTuple):
    """Columns that `with_cells` adds."""

    cell: str
    copies: str  # number of the row's copies
    copy: str  # number of this copy
    draw: str


def with_cells(
    df: DataFrame, plan: JoinPlan, side: SidePieces, values: Int64Array, hashed: str, draw: Column | None,
    names: CellNames, *, keyless: str | None = None, cold_cell: str | None = None,
) -> tuple[DataFrame, list[str]]:  # fmt: skip
    """Return a row of ``df`` for each of its cells, with what stands for the cell in ``values``.

    A draw in [0, 1) chooses the row's piece. The cell of a cold key is the SQL ``cold_cell``, by default the
    key's hash; rows where the SQL ``keyless`` is true are spread by their draw. The columns for copies are
    missing if no row is copied. The list names helper columns to drop.
    """
    steps = {step: helper_name([*df.columns, *names], step) for step in _LOOK_UP}
    hash_, _, found = (quoted(name) for name in steps.values())
    drawn = [] if draw is None else [draw.alias(names.draw)]
    dropped = [names.draw] if drawn else []
    cold = cold_cell or (hash_ if plan.keys.size else hashed)
    if keyless is not None:
        cold = f"if({keyless}, xxhash64({quoted(names.draw)}), {cold})"
    if not plan.keys.size:
        return df.select("*", *drawn).withColumn(names.cell, _never_null(F.expr(cold))), dropped
    answers = (side.starts << 2 * _CELL_BITS) | side.pieces.astype(np.int64) << _CELL_BITS | side.copies
    arrays = _answer_arrays(plan.keys, plan.slots, answers) | {"cells": values}
    stored = stored_arrays(df.sparkSession, arrays)
    df = _with_answer(df, stored, plan.slots, hashed, steps, drawn)
    is_hot = f"{found} >= 0" if keyless is None else f"{found} >= 0 and not ({keyless})"
    mask = (1 << _CELL_BITS) - 1
    copies, pieces = f"int({found} & {mask}L)", f"int(shiftright({found}, {_CELL_BITS}) & {mask}L)"
    at = f"int(shiftright({found}, {2 * _CELL_BITS}))"
    if drawn:
        at += f" + int({quoted(names.draw)} * {pieces}) * {copies}"
    if (side.copies > 1).any():
        df = df.selectExpr(
            "*",
            f"if({is_hot}, {copies}, 1) as {quoted(names.copies)}",
            f"explode(if({is_hot}, sequence(0, {copies} - 1), array(0))) as {quoted(names.copy)}",
        )
        at += f" + {quoted(names.copy)}"
    cell = F.when(F.expr(is_hot), F.get(stored["cells"], F.expr(at))).otherwise(F.expr(cold))
    return df.withColumn(names.cell, _never_null(cell)), [*steps.values(), *dropped]


def _never_null(cell: Column) -> Column:
    """Return a number that Spark knows not to be null.

    Otherwise it derives a filter from the join, and pushes that with the whole look-up into the scan.
    """
    return F.coalesce(cell, F.lit(0))


def bucket_home(df: DataFrame, plan: Plan, hashed: str) -> Column:
    """Return the home of a hash's bucket: by arithmetic if buckets are assigned in order, else by look-up."""
    if _in_order(plan):
        return F.expr(bucket_sql(hashed, plan.workers))
    bucket = F.expr(bucket_sql(hashed, plan.buckets.size))
    return F.get(stored_arrays(df.sparkSession, {"buckets": plan.buckets})["buckets"], bucket)


def _in_order(plan: Plan) -> bool:
    size, workers = plan.buckets.size, plan.workers
    return size % workers == 0 and bool((plan.buckets == np.arange(size) // (size // workers)).all())


def bucket_sql(hashed: str, size: int) -> str:
    """Return SQL for the bucket of a hash, among ``size`` buckets."""
    return f"int(shiftright(shiftrightunsigned({hashed}, {UPPER}) * {size}L, 32))"
