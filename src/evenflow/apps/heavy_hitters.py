"""Heavy hitters by merged SpaceSaving summaries (`heterogeneous` 8.2; Berinde et al., TODS 2010).

Every worker keeps a summary of its rows in bounded memory; an aggregator merges them. The error of a key is
at most the sum of the errors of the summaries that contain it and of the minimum counters of those that may
have evicted it: |f' - f| <= sum of Delta_j. Under shuffle grouping these are all W summaries. Under a scheme
that keeps a key on few workers, and with a plan that says which, they are only those few: the others have
never seen the key. The table by number of summaries shows this.

Each micro-batch yields one summary per worker, which is merged with the worker's previous summary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenflow.apps.base import App, AppSetup, View, key_column, register
from evenflow.keys import hash_keys
from evenflow.sketches.space_saving import SpaceSaving, load_counters
from evenflow.spark.grouped.aggregator import Aggregator
from evenflow.spark.task import current_worker
from evenflow.spec import check

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from evenflow.report.tables import Table
    from evenflow.spark.routing.placed import Placed

Homes = Callable[[int], Collection[int]]

ITEM = "item"
PLAN_FILE = "plan.json"
EXAM = 100_000  # maximum number of keys with an exact count


class Summary(NamedTuple):
    """A SpaceSaving sketch as plain data, highest count first, with the items of its hashes."""

    hashes: list[int]  # as signed 64 bits
    items: list[str | None]
    counts: list[int]
    errors: list[int]
    total: int
    capacity: int  # number of counters; a merge may reduce it

    @property
    def floor(self) -> int:
        """The maximum count of an item that is not in the summary."""
        return self.counts[-1] if self.counts and len(self.counts) == self.capacity else 0


class HeavyHitters(Aggregator):
    """The most frequent values of the column ``item``, per key, in at most ``capacity`` counters.

    >>> import pyarrow as pa
    >>> hitters = HeavyHitters(capacity=2)
    >>> found = hitters.reduce(hitters.zero(), pa.table({"item": ["a", "b", "a", "c", "a"]}))
    >>> found.items, found.counts, found.errors
    (['a', 'c'], [3, 2], [0, 1])
    """

    buffer = (
        "hashes array<long>, items array<string>, counts array<long>, errors array<long>, "
        "total long, capacity long"
    )

    def __init__(self, capacity: int):
        self.capacity = capacity

    def zero(self) -> Summary:
        """Start with free counters."""
        return Summary([], [], [], [], 0, self.capacity)

    def reduce(self, state: Summary, rows: Any) -> Summary:
        """Count items."""
        column = rows[ITEM]
        hashes = hash_keys(column)
        sketch = _sketch(state)
        sketch.update(hashes)
        unique, first = np.unique(hashes, return_index=True)
        kept = sketch.top()[0]
        index = np.searchsorted(unique, kept)
        is_new = (index < unique.size) & (unique[np.minimum(index, unique.size - 1)] == kept)
        fresh = column.take(first[index[is_new]]).to_pylist()
        names = dict(zip(state.hashes, state.items, strict=True))
        names.update(zip(kept[is_new].view(np.int64).tolist(), fresh, strict=True))
        return _summary(sketch, names)

    def merge(self, a: Summary, b: Summary) -> Summary:
        """Merge two summaries."""
        if not a.total or not b.total:
            return a if a.total else b
        sketch = SpaceSaving.merged([_sketch(a), _sketch(b)], self.capacity)
        names = dict(zip([*a.hashes, *b.hashes], [*a.items, *b.items], strict=True))
        return _summary(sketch, names)


def _sketch(of: Summary) -> SpaceSaving:
    sketch = SpaceSaving(of.capacity)
    keys = np.array(of.hashes, np.int64).view(np.uint64)
    load_counters(sketch.counters, keys, np.array(of.counts, np.int64), np.array(of.errors, np.int64))
    sketch.counters.total[0] = of.total
    return sketch


def _summary(sketch: SpaceSaving, names: dict[int, str | None]) -> Summary:
    keys, counts, errors = sketch.top()
    signed = keys.view(np.int64).tolist()
    items = [names[number] for number in signed]
    return Summary(signed, items, counts.tolist(), errors.tolist(), sketch.total, sketch.capacity)


class Summarise:
    """Summarise the rows of one worker."""

    def __init__(self, capacity: int):
        self.capacity = capacity

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process one partition."""
        import pyarrow as pa

        hitters = HeavyHitters(self.capacity)
        state = hitters.zero()
        for batch in batches:
            state = hitters.reduce(state, pa.Table.from_batches([batch]))
        if state.total:
            row = {"worker": current_worker(), **state._asdict()}
            yield pa.RecordBatch.from_pylist([row], _arrow_schema())


def _arrow_schema() -> pa.Schema:
    import pyarrow as pa

    longs = pa.list_(pa.int64())
    return pa.schema(
        [
            ("worker", pa.int32()), ("hashes", longs), ("items", pa.list_(pa.string())), ("counts", longs),
            ("errors", longs), ("total", pa.int64()), ("capacity", pa.int64()),
        ]
    )  # fmt: skip


class Hitter(NamedTuple):
    """An item with bounds on its count and the number of summaries that contain it."""

    item: str | None
    at_least: int
    at_most: int
    summaries: int


def hitters(parts: Mapping[int, Summary], homes: Homes | None = None) -> list[Hitter]:
    """Return the items of all summaries with their overall bounds, most frequent first.

    ``homes`` returns the workers that a hash may have been sent to; the others cannot have evicted it. None
    means unknown: any worker may have evicted it.

    >>> first, second = Summary([7], ["a"], [5], [1], 9, 1), Summary([8], ["b"], [3], [0], 3, 1)
    >>> [hitter.at_most for hitter in hitters({0: first, 1: second})]
    [8, 8]
    >>> [hitter.at_most for hitter in hitters({0: first, 1: second}, lambda key: {7: [0], 8: [1]}[key])]
    [5, 3]
    """
    holders: dict[int, list[tuple[int, int]]] = {}  # by hash: workers, and indices in their summaries
    for worker, part in parts.items():
        for index, key in enumerate(part.hashes):
            holders.setdefault(key, []).append((worker, index))
    floors = {worker: part.floor for worker, part in parts.items()}
    found = []
    for key, where in holders.items():
        may_have = floors.keys() if homes is None else floors.keys() & set(homes(key))
        forgotten = sum(floors[worker] for worker in may_have - {worker for worker, _ in where})
        most = sum(parts[worker].counts[index] for worker, index in where)
        sure = most - sum(parts[worker].errors[index] for worker, index in where)
        worker, index = where[0]
        found.append(Hitter(parts[worker].items[index], sure, most + forgotten, len(where)))
    return sorted(found, key=lambda hitter: (-hitter.at_least - hitter.at_most, str(hitter.item)))


@register
@dataclass(frozen=True)
class HeavyHittersApp(App):
    """The most frequent keys in bounded memory, with bounds; ``check`` adds the exact counts."""

    capacity: int = 1000  # counters per summary
    check: bool = False

    name = "heavy-hitters"
    summary = "the most frequent keys in bounded memory: SpaceSaving per worker, merged, with error bounds"
    source = "zipf:z=1.1,keys=1e5,messages=1e6"
    schema = HeavyHitters.buffer
    writes_rows = False

    def __post_init__(self) -> None:
        check("capacity", self.capacity, 1 <= self.capacity <= 10**6, "it must be from 1 to 1,000,000")

    def aggregator(self) -> Aggregator:
        """Summarise rows."""
        return HeavyHitters(self.capacity)

    def rows(self, frame: DataFrame, setup: AppSetup) -> tuple[DataFrame, Sequence[str | Column]]:
        """Return the key as text."""
        return frame.select(_item(frame, setup.key)), [ITEM]

    def results(self, frame: DataFrame, setup: AppSetup) -> DataFrame:
        """Return one summary per worker for the rows of this batch, to be merged by ``fold``."""
        from evenflow.spark.monitoring.task_timing import with_timing
        from evenflow.spark.operators.balance import balance

        def keep_plan(placed: Placed) -> None:
            if placed.plan is not None and not frame.isStreaming:
                (setup.folder / PLAN_FILE).write_text(placed.plan.to_json())

        rows, by = self.rows(frame, setup)
        balanced = balance(
            by, setup.workers, setup.scheme, setup.mode, control=setup.control, on_placed=keep_plan,
            plan=setup.plan,
        )  # fmt: skip
        summarise = with_timing(Summarise(self.capacity), setup.control, heard=setup.mode == "online")
        return rows.transform(balanced).mapInArrow(summarise, f"worker int, {self.schema}")

    def exam(self, table: DataFrame | None, key: list[str]) -> dict[str | None, int] | None:
        """Return the exact counts of the most frequent keys, if ``check`` is set."""
        from pyspark.sql import functions as F

        if table is None or not self.check:
            return None
        counts = table.groupBy(_item(table, key)).count().orderBy(F.desc("count"), ITEM)
        return {row[ITEM]: row["count"] for row in counts.limit(EXAM).collect()}

    def fold(self, view: View, changed: DataFrame, setup: AppSetup) -> View:
        """Merge every worker's summary with its previous one."""
        merge = self.aggregator().merge
        summaries = {int(worker): Summary(*fields) for worker, fields in view.get("summaries", {}).items()}
        for row in changed.collect():
            worker, fresh = row["worker"], Summary(*row[1:])
            summaries[worker] = merge(summaries[worker], fresh) if worker in summaries else fresh
        found = hitters(summaries, self._homes(setup))
        return {
            "rows": sum(summary.total for summary in summaries.values()),
            "top": [{**hitter._asdict(), **_true(hitter, setup.exam)} for hitter in found[: setup.top]],
            "errors": _errors(found, setup.exam),
            "counters": sum(len(summary.counts) for summary in summaries.values()),
            "summaries": summaries,
        }

    def _homes(self, setup: AppSetup) -> Homes | None:
        """Return where keys were sent; for a stream this is known only if the plan never changes."""
        from evenflow.plan import Plan

        file, scheme = setup.folder / PLAN_FILE, setup.scheme
        if setup.at_once and file.exists():
            plan = Plan.from_json(file.read_text())
        elif (
            not setup.at_once
            and scheme.plannable
            and setup.mode not in ("online", "repartition")
            and not scheme.counts_keys
        ):
            plan = scheme.plan(setup.workers)
        else:
            return None
        return lambda key: plan.homes_of(key % 2**64)

    def tables(self, view: View, top: int) -> list[Table]:
        """Show the heavy hitters, and how the error grows with the number of summaries."""
        from evenflow.report.tables import Table

        checked = bool(view["errors"]) and "mean_error" in view["errors"][0]
        bounds = {"item": "key", "at_least": "rows, at least", "at_most": "at most", "summaries": "summaries"}
        errors = {"summaries": "summaries", "keys": "keys", "mean_bound": "mean bound"}
        if checked:
            bounds, errors = bounds | {"rows": "exact"}, errors | {"mean_error": "mean error"}
        hottest = [row | {"item": str(row["item"])} for row in view["top"]]
        what = "The bound is the difference between at most and at least"
        what += "; the error is that of at most, relative to the exact count." if checked else "."
        return [
            Table(title, list(names.values()), [[row.get(name) for name in names] for row in rows], note)
            for title, names, rows, note in (
                (
                    "Heavy hitters",
                    bounds,
                    hottest,
                    f"{view['rows']:,} rows in {view['counters']:,} counters.",
                ),
                ("Error by number of summaries that contain the key", errors, view["errors"], what),
            )
        ]

    def answer(self, view: View) -> View:
        """Return the view without the summaries."""
        return {name: value for name, value in view.items() if name != "summaries"}


def _item(frame: DataFrame, key: list[str]) -> Column:
    from pyspark.sql import functions as F

    parts = [key_column(frame, name).cast("string") for name in key]
    return (parts[0] if len(parts) == 1 else F.concat_ws(", ", *parts)).alias(ITEM)


def _true(hitter: Hitter, exact: dict[str | None, int] | None) -> dict[str, int]:
    return {"rows": exact[hitter.item]} if exact is not None and hitter.item in exact else {}


def _errors(found: list[Hitter], exact: dict[str | None, int] | None) -> list[dict[str, Any]]:
    """Return bounds, and errors if exact counts are known, by the number of summaries of an item."""
    table: list[dict[str, Any]] = []
    for number in sorted({hitter.summaries for hitter in found}):
        these = [hitter for hitter in found if hitter.summaries == number]
        line: dict[str, Any] = {
            "summaries": number,
            "keys": len(these),
            "mean_bound": sum(hitter.at_most - hitter.at_least for hitter in these) / len(these),
        }
        if exact is not None:
            known = [hitter.at_most - exact[hitter.item] for hitter in these if hitter.item in exact]
            line["mean_error"] = sum(known) / len(known) if known else None
        table.append(line)
    return table
