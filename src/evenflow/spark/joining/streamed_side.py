"""One side of a join with a stream: every row with the join keys of its cells, by its micro-batch's plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.spark.joining.side import SideNames, any_null
from evenflow.spark.replanning.batch_stats import observe, with_value_draw
from evenflow.spark.routing.key_columns import KeyColumn, helper_name, key_hash, quoted
from evenflow.spark.routing.plan_sql import FOUND, as_column, with_found
from evenflow.spark.routing.row_draws import resolved_order, with_draw
from evenflow.spark.routing.slot_arrays import SLOTS
from evenflow.spark.routing.turns import taking_turns
from evenflow.spark.versions.arrow import arrow_function


@dataclass(frozen=True)
class SideRules:
    """What is to happen with the rows of a side."""

    keeps_all: bool  # also those without a match, which are then never copied
    divides: bool = True  # rows of a hot key among the pieces; otherwise all are copied to all
    tells_plan: bool = False  # in a column
    order: str = "auto"
    seed: int = 0
    times: Times | None = None  # None: plans are valid at all times


@dataclass(frozen=True)
class Times:
    """The times of a side's rows, and from when to when the rows may be that decide where a row goes."""

    column: str
    least: int  # added to the row's time, in microseconds
    most: int
    mark: Callable[[pa.Array], pa.Array]  # notes times and returns them


@dataclass(frozen=True)
class Watch:
    """The name under which the keys of a side are observed, and the number of workers."""

    name: str
    workers: int


def streamed_side(
    df: DataFrame,
    keyed: DataFrame,
    keys: list[KeyColumn],
    look_up: Column,
    side: str,
    names: SideNames,
    rules: SideRules,
    reasons: list[str],
    watch: Watch | None = None,
) -> DataFrame:
    """Return the rows of a side, once for each of their cells, with the join key.

    ``keyed`` is ``df`` with its key columns; ``look_up`` is of :mod:`evenflow.spark.joining.hot_keys`.
    """
    is_null = any_null(keys)
    if not rules.keeps_all:
        keyed = keyed.where(f"not ({is_null})")
    draw, added = None, list[str]()
    hashed = key_hash(keys)
    if rules.divides:
        order = resolved_order(keys, df, rules.order, reasons)
        if order == "as-is" and rules.times is not None:  # these rows pass through Python anyway
            turns = arrow_function(taking_turns(rules.seed), "double", pa.int64())
            draw = turns.asNondeterministic()(F.expr(hashed))
        else:
            keyed, draw, added = with_draw(keyed, df, keys, order, rules.seed, reasons)
    steps = (*FOUND, "draw", "time", "plan", "spans", "serial", "chosen", "value_draw")
    named = {step: helper_name([*keyed.columns, *names.all()], f"side_{step}") for step in steps}
    own, drawn, time, spans, chosen = (
        quoted(named[step]) for step in ("hash", "draw", "time", "spans", "chosen")
    )
    if rules.keeps_all:  # null matches nothing, so these rows may be anywhere
        hashed = f"if({is_null}, xxhash64({drawn}), {hashed})"
    # first what Spark does not compile, so that it compiles the rest as one
    by_position = draw is not None and not added
    draws, value = with_value_draw(df, draw, named["draw"], by_position, named["value_draw"])
    first_columns = draws if watch is not None else draws[:1]
    if rules.times is not None:
        mark = arrow_function(rules.times.mark, "bigint", pa.int64())
        first_columns.append(mark(F.unix_micros(quoted(rules.times.column))).alias(named["time"]))
    rows = keyed.select("*", *first_columns)
    look_up, before = as_column(rows, look_up, named["plan"])
    rows = with_found(rows, {name: look_up[name] for name in SLOTS}, look_up["mask"], hashed, named, before)
    failed = F.raise_error(F.concat(F.lit("evenflow: "), look_up["error"]))
    of_key = F.get(look_up[side], F.col(named["found"]).cast("int"))
    told = {
        named["serial"]: look_up["serial"],
        named["spans"]: F.when(look_up["error"].isNull(), of_key).otherwise(failed),
    }
    if rules.tells_plan:
        told[names.plan] = look_up["made"]
    rows = rows.select("*", *(column.alias(name) for name, column in told.items()))
    piece = f"slice(span.cells, int({drawn} * span.pieces) * span.copies + 1, span.copies)"
    if rules.times is None:
        cell = piece.replace("span.", f"get({spans}, 0).")
    else:
        least, most = rules.times.least, rules.times.most
        valid = f"filter({spans}, span -> span.start <= {time} + {most} and {time} + {least} < span.stop)"
        cell = f"flatten(transform({valid}, span -> {piece}))"
        if least < most:
            cell = f"array_distinct({cell})"  # a key may have the same cells before and after others
    if rules.keeps_all:
        cold, hot, first = own, f"coalesce(get({cell}, 0), {own})", chosen
    else:
        cold, hot, first = f"array({own})", cell, f"get({chosen}, 0)"
    # since it has the spans twice, Spark does not merge this step, which it may not compile, into the others
    cell = f"if({spans} is null, {cold}, {hot})"
    rows = rows.select("*", F.expr(cell).alias(named["chosen"]))
    kept = [quoted(name) for name in df.columns] + ([quoted(names.plan)] if rules.tells_plan else [])
    if watch is not None:
        worker = F.expr(f"pmod(hash({first}), {watch.workers})")
        serial, seen = F.col(named["serial"]), [*kept, chosen]
        rows = observe(
            rows, watch.name, F.col(own), worker, watch.workers, keys, serial=serial, drawn=value, kept=seen
        )
    if not rules.keeps_all:
        # no array is empty; Spark would push a filter on the size, with the whole look-up, into the scan
        rows = rows.select(*kept, F.explode_outer(chosen).alias(named["chosen"]))
    # Spark would push the filter that it derives from a nullable key, with the whole look-up, into the scan
    return rows.select(*kept, F.coalesce(chosen, F.lit(0)).alias(names.key))
