"""A compiled plan as Column expressions, evaluated without Python.

The steps are those of :class:`evenflow.plan.table.PlanTable`, over its arrays. In batch these are
:mod:`evenflow.spark.stored_arrays`; on a stream they come from a file that every micro-batch reads
(:mod:`evenflow.spark.replanning.plan_source`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.blob import Array
from evenflow.kernels import Int64Array, UInt64Array
from evenflow.plan.join_plan import JoinPlan, SidePieces
from evenflow.plan.plan import Plan
from evenflow.plan.table import UPPER, PlanTable, Slots
from evenflow.spark.routing.key_columns import helper_name, quoted
from evenflow.spark.routing.slot_arrays import SLOTS, slot_arrays
from evenflow.spark.stored_arrays import stored_arrays

_CELL_BITS = 21  # bits for the number of a key's homes
_ADDED = 20  # columns and fields that placement adds to a frame, and more
FOUND = ("hash", "slot", "found")  # the steps of finding a hot key
STEPS = (*FOUND, "draw", "plan", "tail", "serial", "drawn")  # of a row of a stream
_ARRAYS = {**SLOTS, "cuts": "double", "homes": "int"}
LOOK_UP = ", ".join(["serial bigint", "mask bigint", *(f"{name} array<{_ARRAYS[name]}>" for name in _ARRAYS)])


def with_worker(df: DataFrame, plan: Plan, hashed: str, draw: Column | None, worker: str) -> DataFrame:
    """Return ``df`` with each row's worker, a non-null INT, looked up by its hash and a draw in [0, 1).

    What is costly or drawn is a column of its own, because Spark would evaluate it again wherever it is used.
    """
    if not plan.keys.size:
        return df.select("*", bucket_home(df, plan, hashed).alias(worker))
    names = {step: helper_name([*df.columns, worker], step) for step in (*FOUND, "draw")}
    hash_, _, found, draw_ = (quoted(name) for name in names.values())
    table = plan.table
    if draw is None or not table.splits:
        stored = stored_arrays(df.sparkSession, slot_arrays(table.keys, table, table.first_homes))
        df = with_found(df, stored, F.lit(table.mask), hashed, names)
        home = F.col(found).cast("int")
    else:
        stored = stored_arrays(df.sparkSession, look_up_arrays(table))
        df = with_found(df, stored, F.lit(table.mask), hashed, names, [draw.alias(names["draw"])])
        home = _drawn_home(stored, found, draw_)
    home = F.when(F.col(found) >= 0, home).otherwise(bucket_home(df, plan, hash_))
    return df.select("*", home.alias(worker)).drop(*names.values())


def with_current_worker(
    df: DataFrame, look_up: Column, hashed: str, bucket: Column, worker: str, names: dict[str, str]
) -> DataFrame:
    """Return ``df`` with each row's worker by the plan in ``look_up``, and with the columns of all `STEPS`.

    ``look_up`` is a struct of `LOOK_UP`. If it is null, rows go to ``bucket``, the home of their bucket.
    ``names`` are those of the steps; ``df`` has the draws, and ``bucket`` may refer to the hash.
    """
    found, draw, tail = (quoted(names[step]) for step in ("found", "draw", "tail"))
    look_up, added = as_column(df, look_up, names["plan"])
    stored = {name: look_up[name] for name in _ARRAYS}
    df = with_found(df, stored, look_up["mask"], hashed, names, added, [bucket.alias(names["tail"])])
    home = F.when(F.col(found) >= 0, _drawn_home(stored, found, draw)).otherwise(F.col(tail))
    return df.select("*", home.alias(worker), look_up["serial"].alias(names["serial"]))


def as_column(df: DataFrame, look_up: Column, name: str) -> tuple[Column, list[Column]]:
    """Return ``look_up`` as a column to add to ``df`` first, if that copies nothing, and what to add.

    Then Spark plans one subquery for all steps instead of one for each.
    """
    if not is_compiled(df):
        return look_up, []
    return F.col(quoted(name)), [look_up.alias(name)]


def is_compiled(df: DataFrame) -> bool:
    """Return whether Spark compiles steps over rows into one, and does not copy all columns at each step."""
    conf = df.sparkSession.conf
    few = _fields_in(df.schema) + _ADDED <= int(str(conf.get("spark.sql.codegen.maxFields", "100")))
    return few and str(conf.get("spark.sql.codegen.wholeStage", "true")).lower() == "true"


def _fields_in(kind: T.DataType) -> int:
    """Return the number of fields that Spark counts in a type."""
    if isinstance(kind, T.StructType):
        return sum(_fields_in(field.dataType) for field in kind.fields)
    if isinstance(kind, T.MapType):
        return _fields_in(kind.keyType) + _fields_in(kind.valueType)
    return _fields_in(kind.elementType) if isinstance(kind, T.ArrayType) else 1


def look_up_arrays(table: PlanTable) -> dict[str, Array]:
    """Return what the look-up of a row's worker reads, if hot keys may be split."""
    # for each hot key: its first cell and the number of its cells
    answers = (table.starts[:-1] << _CELL_BITS) + np.diff(table.starts)
    homes = np.stack([table.below, table.above], axis=1).ravel()
    return slot_arrays(table.keys, table, answers) | {"cuts": table.cut, "homes": homes}


def _drawn_home(stored: dict[str, Column], found: str, draw: str) -> Column:
    """Return the home of a hot key that a draw chooses among its cells."""
    scaled = f"{draw} * ({found} & {(1 << _CELL_BITS) - 1}L)"
    at = f"int(shiftright({found}, {_CELL_BITS})) + int({scaled})"
    is_above = F.when(F.expr(f"{scaled} % 1") < F.get(stored["cuts"], F.expr(at)), 0).otherwise(1)
    return F.get(stored["homes"], F.expr(f"2 * ({at})") + is_above)


def with_answer(
    df: DataFrame, keys: UInt64Array, slots: Slots | PlanTable, answers: Array, hashed: str, answer: str
) -> DataFrame:
    """Return ``df`` with the hot key's entry in ``answers``, or -1, in the column ``answer``."""
    names = {step: helper_name([*df.columns, answer], step) for step in FOUND}
    stored = stored_arrays(df.sparkSession, slot_arrays(keys, slots, answers))
    df = with_found(df, stored, F.lit(slots.slots.size - 1), hashed, names | {"found": answer})
    return df.drop(names["hash"], names["slot"])


def with_found(
    df: DataFrame, stored: dict[str, Column], mask: Column, hashed: str, names: dict[str, str],
    before: Sequence[Column] = (), beside: Sequence[Column] = (),
) -> DataFrame:  # fmt: skip
    """Return ``df`` with a column for each step of a look-up: the key's hash, its slot, and its answer.

    ``before`` are further columns to add in the first step, ``beside`` in the last one. Spark analyzes the
    whole plan anew for every frame that is made of another and for every micro-batch: so there are few steps.
    """
    hash_, slot = (quoted(names[step]) for step in ("hash", "slot"))
    held, answer = (F.get(stored["slots"], F.expr(at)) for at in (slot, f"{slot} + 1"))
    default_answer = F.lit(-1)
    if "listed" in stored:
        number = F.array_position(stored["listed"], F.col(hash_)).cast("int") - 1
        default_answer = F.coalesce(F.get(stored["listed_answers"], number), default_answer)
    df = df.select("*", *before, F.expr(hashed).alias(names["hash"]))
    shift = F.get(stored["slots"], F.col(hash_).bitwiseAND(mask).cast("int") * 3 + 2)
    place = (F.expr(f"shiftrightunsigned({hash_}, {UPPER})") + shift).bitwiseAND(mask).cast("int") * 3
    df = df.select("*", place.alias(names["slot"]))
    found = F.when(held == F.col(hash_), answer).otherwise(default_answer)
    return df.select("*", found.alias(names["found"]), *beside)


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
    steps = {step: helper_name([*df.columns, *names], step) for step in FOUND}
    hash_, _, found = (quoted(name) for name in steps.values())
    drawn = [] if draw is None else [draw.alias(names.draw)]
    dropped = [names.draw] if drawn else []
    cold = cold_cell or (hash_ if plan.keys.size else hashed)
    if keyless is not None:
        cold = f"if({keyless}, xxhash64({quoted(names.draw)}), {cold})"
    if not plan.keys.size:
        return df.select("*", *drawn).withColumn(names.cell, _never_null(F.expr(cold))), dropped
    answers = (side.starts << 2 * _CELL_BITS) | side.pieces.astype(np.int64) << _CELL_BITS | side.copies
    arrays = slot_arrays(plan.keys, plan.slots, answers) | {"cells": values}
    stored = stored_arrays(df.sparkSession, arrays)
    df = with_found(df, stored, F.lit(plan.slots.slots.size - 1), hashed, steps, drawn)
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
