"""SpaceSaving against the frequent-items sketch of Apache DataSketches, with the same number of counters.

DataSketches uses a table of 2^k slots, at most three quarters full; SpaceSaving gets exactly that many
counters. When its table is full, DataSketches evicts many keys at once, so it may end up with fewer
(``keys_held``). Its Python binding takes one item per call, so the cost of an empty call is measured too and
subtracted in ``net``, which approximates the cost of the C++ code. The error of a key is the difference
between its estimate (0 for keys that are not held) and its true count, over all keys and over the 100
hottest, in messages; ``promised`` is the guaranteed bound for this number of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from evenflow.bench.measure import Prepare, Progress, Row, against, silent
from evenflow.kernels import Float64Array, Int64Array
from evenflow.report.tables import Table
from evenflow.schemes.base import flatten
from evenflow.sketches.space_saving import SpaceSaving
from evenflow.streams import Zipf

KEYS = 10**5
MESSAGES = 10**6
SEED = 1
HOTTEST = 100
CASES = ((1.0, 10), (1.4, 10), (1.4, 12))  # z, and k of the 2^k slots
OURS, ITEMS, STRINGS, NOTHING = (
    "SpaceSaving",
    "DataSketches items",
    "DataSketches strings",
    "empty call",
)


class Sample(NamedTuple):
    """A stream in the input format of each sketch."""

    hashes: Any
    by_id: Any  # the hash of every key
    numbers: list[int]
    texts: list[str]
    counts: Int64Array


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure speed and error for several streams and sizes; without DataSketches, ours only."""
    rows = []
    for z, exponent in CASES:
        sample = _sample(z, MESSAGES // 10 if quick else MESSAGES)
        rows += _measure(sample, z, 3 * 2**exponent // 4, exponent, 3 if quick else 7, progress)
    return rows


def _sample(z: float, messages: int) -> Sample:
    stream = Zipf(z=z, keys=KEYS, messages=messages, seed=SEED)
    ids = stream.generate(0, messages).ids
    numbers = ids.tolist()
    counts = np.bincount(ids, minlength=KEYS)
    return Sample(stream.hashes[ids], stream.hashes, numbers, [str(number) for number in numbers], counts)


def _measure(
    sample: Sample, z: float, size: int, exponent: int, rounds: int, progress: Progress
) -> list[Row]:
    tasks: dict[str, Prepare] = {OURS: lambda: _ours(size, sample)[1]}
    SpaceSaving(size).update(sample.hashes[:10])  # compile
    library = _datasketches()
    if library is not None:
        tasks[ITEMS] = lambda: _update_all(library.frequent_items_sketch(exponent), sample.numbers)
        tasks[STRINGS] = lambda: _update_all(library.frequent_strings_sketch(exponent), sample.texts)
        tasks[NOTHING] = lambda: _nothing(library.frequent_items_sketch(exponent), len(sample.numbers))
    measured = against(tasks[OURS], tasks, rounds, progress)
    messages = len(sample.numbers)
    call = measured[NOTHING].seconds if library is not None else 0.0
    rows = []
    for name in tasks:
        seconds = measured[name].seconds
        net = seconds - call if name in (ITEMS, STRINGS) else seconds
        row: Row = {
            "sketch": name,
            "z": z,
            "counters": size,
            "messages": messages,
            "updates_per_second": messages / seconds,
            "net_updates_per_second": messages / max(net, 1e-9),
            "time_relative_to_ours": measured[name].ratio,
        }
        if name == OURS:
            row |= _our_error(sample, size)
        elif name == ITEMS:
            row |= _library_error(library.frequent_items_sketch(exponent), sample)
        rows.append(row)
    return rows


def _datasketches() -> Any:
    """Return the package, or None if it is not installed (it is in the extra ``dev``)."""
    try:
        import datasketches
    except ImportError:
        return None
    return datasketches


def _ours(size: int, sample: Sample) -> tuple[SpaceSaving, Callable[[], None]]:
    sketch = SpaceSaving(size)
    return sketch, lambda: sketch.update(sample.hashes)


def _update_all(sketch: Any, items: Iterable[Any]) -> Callable[[], None]:
    def work() -> None:
        update = sketch.update
        for item in items:
            update(item)

    return work


def _nothing(sketch: Any, calls: int) -> Callable[[], None]:
    def work() -> None:
        nothing = sketch.is_empty
        for _ in range(calls):
            nothing()

    return work


def _our_error(sample: Sample, size: int) -> Row:
    sketch, work = _ours(size, sample)
    work()
    keys, counts, _ = sketch.top()
    order = np.argsort(sample.by_id)
    estimates = np.zeros(KEYS)
    estimates[order[np.searchsorted(sample.by_id, keys, sorter=order)]] = counts
    size_in_bytes = sum(array.nbytes for _, array in flatten(sketch.counters))
    return _error(sample, estimates, len(sample.numbers) / size, size_in_bytes, keys.size)


def _library_error(sketch: Any, sample: Sample) -> Row:
    _update_all(sketch, sample.numbers)()
    estimates = np.array([sketch.get_estimate(key) for key in range(KEYS)], np.float64)
    return _error(sample, estimates, sketch.epsilon * len(sample.numbers), None, sketch.num_active_items)


def _error(sample: Sample, estimates: Float64Array, promised: float, size: int | None, held: int) -> Row:
    wrong = np.abs(estimates - sample.counts)
    hottest = np.argsort(-sample.counts, kind="stable")[:HOTTEST]
    return {
        "largest_error": float(wrong.max()),
        "mean_error_of_hottest": float(wrong[hottest].mean()),
        "promised_error": promised,
        "bytes": size,
        "keys_held": held,
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return one table."""
    columns = (
        "sketch",
        "z",
        "counters",
        "keys held",
        "M updates/s",
        "net",
        "x our time",
        "largest error",
        f"mean of {HOTTEST} hottest",
        "promised",
    )
    cells = [
        (
            row["sketch"],
            row["z"],
            row["counters"],
            row.get("keys_held"),
            row["updates_per_second"] / 1e6,
            row["net_updates_per_second"] / 1e6,
            row["time_relative_to_ours"],
            row.get("largest_error"),
            row.get("mean_error_of_hottest"),
            row.get("promised_error"),
        )
        for row in rows
    ]
    missing = all(row["sketch"] == OURS for row in rows)
    note = "Install datasketches to compare." if missing else ""
    title = f"Frequent-items sketches on {rows[0]['messages']:,} messages of {KEYS:,} keys"
    return [Table(title, columns, cells, note)]
