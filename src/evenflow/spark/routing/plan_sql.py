"""A plan as tables that a plain Column expression can read, in a handful of steps per row.

**Is the key hot?** A perfect hash (hash and displace): ``slot = ((h >>> 20) + shift[h & mask]) & mask``, with
the shifts chosen so that every hot key has a slot of its own; the key is hot if its slot holds its hash.

**Which of its homes?** Alias method (Walker): a key with m homes has m equal cells, each shared by at most
two of its homes; a number u in [0, 1) picks the cell ``floor(u m)``, and the rest of u m, below the cell's
cut or not, one of the two. So homes have exactly the parts that the plan gives them.

**Which bucket?** ``(h >>> 32) * B >> 32``; where the plan left the buckets in order, the home is arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array
from evenflow.plan import Plan, bucket_of
from evenflow.spark.routing.key_columns import helper, quoted

_UPPER = 20  # bits that only the first table looks at
_MOST_CELLS = 21  # bits for the number of a key's homes
_CROWD = 32  # keys with the same lower bits; hashes have a handful at most


class Cells(NamedTuple):
    """Homes of keys by the alias method; key i has the cells ``starts[i]`` to ``starts[i + 1]``."""

    starts: Int64Array
    below: Int32Array  # the home below the cut
    cut: Float64Array
    above: Int32Array


class Slots(NamedTuple):
    """Hot keys in a perfect hash; a free slot points to key -1."""

    shift: Int32Array
    key: Int32Array  # of each slot: the number of the hot key


def alias_cells(plan: Plan) -> Cells:
    """Return the cells of every hot key's homes."""
    below, above = plan.homes.copy(), plan.homes.copy()
    cut = np.ones(plan.homes.size)
    for key in np.flatnonzero(np.diff(plan.starts) > 1):
        part = slice(plan.starts[key], plan.starts[key + 1])
        _alias(plan.parts[part], plan.homes[part], cut[part], above[part])
    return Cells(plan.starts, below, cut, above)


def _alias(parts: Float64Array, homes: Int32Array, cut: Float64Array, above: Int32Array) -> None:
    """Fill ``cut`` and ``above``: cells with less than they hold take the rest from one with more."""
    full = parts / parts.sum() * parts.size
    small, large = list(np.flatnonzero(full < 1)), list(np.flatnonzero(full >= 1))
    while small and large:
        poor, rich = small.pop(), large[-1]
        cut[poor], above[poor] = full[poor], homes[rich]
        full[rich] -= 1 - full[poor]
        if full[rich] < 1:
            small.append(large.pop())


def perfect_slots(keys: UInt64Array) -> Slots:
    """Return a perfect hash of ``keys``; the tables have two to eight times as many places as keys.

    Keys whose bits clash even so, which hashes hardly ever do, are left out: they go where their bucket goes.
    """
    size = 2 << int(max(1, keys.size)).bit_length()
    for tried in (size, 2 * size):
        slots = _displace(keys, tried)
        if (slots.key >= 0).sum() == keys.size:
            break
    return slots


def _displace(keys: UInt64Array, size: int) -> Slots:
    mask = size - 1
    group = (keys & np.uint64(mask)).astype(np.int64)
    place = ((keys >> np.uint64(_UPPER)) & np.uint64(mask)).astype(np.int64)
    shift, key, shifts = np.zeros(size, np.int32), np.full(size, -1, np.int32), np.arange(size)
    order = np.argsort(group, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if keys.size else []
    for together in sorted(members, key=len, reverse=True):  # large groups while there is room
        if len(together) > _CROWD or np.unique(place[together]).size < len(together):
            continue
        free = np.ones(size, np.bool_)
        for at in place[together]:
            free &= key[(at + shifts) & mask] < 0
        moved = int(free.argmax())
        if free[moved]:
            key[(place[together] + moved) & mask] = together
            shift[group[together[0]]] = moved
    return Slots(shift, key)


def route(plan: Plan, hashes: UInt64Array, draws: Float64Array) -> Int32Array:
    """Return the worker of every row as ``with_worker`` does."""
    workers = plan.buckets[bucket_of(hashes, plan.buckets.size)]
    if not plan.keys.size:
        return workers
    slots, cells = perfect_slots(plan.keys), alias_cells(plan)
    mask = np.uint64(slots.key.size - 1)
    upper = (hashes >> np.uint64(_UPPER)).astype(np.int64)
    key = slots.key[(upper + slots.shift[(hashes & mask).astype(np.int64)]) & int(mask)]
    hot = np.flatnonzero((key >= 0) & (plan.keys[key] == hashes))
    wide = draws[hot] * np.diff(cells.starts)[key[hot]]
    cell = cells.starts[key[hot]] + np.floor(wide).astype(np.int64)
    workers[hot] = np.where(wide - np.floor(wide) < cells.cut[cell], cells.below[cell], cells.above[cell])
    return workers


def with_worker(df: DataFrame, plan: Plan, hashed: str, draw: Column | None, worker: str) -> DataFrame:
    """Return ``df`` with every row's worker, an INT that is never null, from a hash and a draw in [0, 1).

    Every step is a column first: Spark would draw again, and look up again, wherever an expression stands a
    second time.
    """
    if not plan.keys.size:
        return df.select("*", F.expr(bucket_home(plan, hashed)).alias(worker))
    names = [
        helper([*df.columns, worker], step) for step in ("hash", "draw", "slot", "found", "wide", "cell")
    ]
    hash_, draw_, slot, found, wide, cell = (quoted(name) for name in names)
    slots, cells = perfect_slots(plan.keys), alias_cells(plan)
    mask = slots.key.size - 1
    held = np.append(plan.keys.view(np.int64), 0)[slots.key]
    # first cell and number of cells in one number; -1 in free slots
    where = np.append((cells.starts[:-1] << _MOST_CELLS) + np.diff(cells.starts), -1)[slots.key]
    home = _home(cells, f"int(shiftright({found}, {_MOST_CELLS})) + {cell}", f"{wide} - {cell}")
    shift = _at(slots.shift, "int", f"int({hash_} & {mask}L)")
    df = df.select(
        "*", F.expr(hashed).alias(names[0]), (F.lit(0.0) if draw is None else draw).alias(names[1])
    )
    for step, name in (
        (f"int((shiftrightunsigned({hash_}, {_UPPER}) + {shift}) & {mask}L)", slot),
        (f"if({_at(held, 'bigint', slot)} = {hash_}, {_at(where, 'bigint', slot)}, -1L)", found),
        (f"{draw_} * ({found} & {(1 << _MOST_CELLS) - 1}L)", wide),
        (f"int({wide})", cell),
        (f"if({found} >= 0, {home}, {bucket_home(plan, hash_)})", quoted(worker)),
    ):
        df = df.selectExpr("*", f"{step} as {name}")  # one text, since each part of a Column is a message
    return df.drop(*names)


def _home(cells: Cells, cell: str, rest: str) -> str:
    below = _at(cells.below, "int", cell)
    if (cells.below == cells.above).all():
        return below
    return f"if({rest} < {_at(cells.cut, 'double', cell)}, {below}, {_at(cells.above, 'int', cell)})"


def bucket_home(plan: Plan, hashed: str) -> str:
    """Return the home of the bucket that a hash falls into, as SQL."""
    size = plan.workers if _in_order(plan) else plan.buckets.size
    bucket = bucket_text(hashed, size)
    return bucket if _in_order(plan) else _at(plan.buckets, "int", bucket)


def _in_order(plan: Plan) -> bool:
    size, workers = plan.buckets.size, plan.workers
    return size % workers == 0 and bool((plan.buckets == np.arange(size) // (size // workers)).all())


def bucket_text(hashed: str, size: int) -> str:
    """Return the bucket of a hash, of ``size`` buckets, as SQL."""
    return f"int(shiftright(shiftrightunsigned({hashed}, 32) * {size}L, 32))"


def _at(values: Int32Array | Int64Array | Float64Array, kind: str, place: str) -> str:
    """Return the look-up in an array literal; thousands of literals would be thousands of messages."""
    return f"get(cast(split('{_joined(values)}', ',') as array<{kind}>), {place})"


def _joined(values: Int32Array | Int64Array | Float64Array) -> str:
    return ",".join(map(str, values.tolist()))
