"""Keyed state on local Spark: moving it, cost per batch, and throughput compared with Spark's own state.

The parts are in :mod:`evenflow.bench.stateful_work` and, for an object store,
:mod:`evenflow.bench.stateful_storage`: wall time, ratios within the run. ``quick`` uses a tenth
of the keys and rows and fewer batches; the fixed cost of a micro-batch then dominates, so throughput ratios
are not meaningful.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.bench import stateful_storage, stateful_work
from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.on_spark import NOT_COALESCED, session
from evenflow.bench.results import Limit, Target, part_tables, target_table
from evenflow.errors import EvenflowError
from evenflow.report.tables import Table

_PEER, _KEY = "relative to Spark's faster operator", "relative to key grouping"
_FAST, _EVEN = Limit("at least", 1.0), Limit("at least", 2)
TARGETS = (
    Target("cost", {"largest": True}, "ratio", Limit("at most", 2), "batch time with 10 x the state"),
    Target("uniform", {"what": "stateful"}, "of_faster_peer", Limit("at least", 0.7),
           f"uniform stream, {_PEER}"),
    *(Target("skew", {"what": f"stateful, {name}"}, "of_faster_peer", _FAST,
             f"skewed stream, {name}, {_PEER}") for name in ("explicit", "fill")),
    *(Target("slow", {"what": name}, "of_key_grouping", _EVEN, f"slow workers, measured, {name}, {_KEY}")
      for name in ("fill", "explicit")),
    Target("slow", {"what": "consistent"}, "of_key_grouping", _EVEN, f"slow workers, signals, {_KEY}"),
    Target("storage", {"is_store": True}, "ratio_without_trips", Limit("at most", 1.5),
           "batch time in the object store, less its round trips, relative to a folder"),
)  # fmt: skip


PARTS = (*stateful_work.COLUMNS, *stateful_storage.COLUMNS)


def run(
    quick: bool = False, progress: Progress = silent, only: Sequence[str] = (), storage: str | None = None
) -> list[Row]:
    """Measure everything, or what ``only`` names, on local Spark with two cores and then with 8 workers.

    State in an object store is measured if ``storage`` is its URL.
    """
    for name in only:
        if name not in PARTS:
            raise EvenflowError(f"--only is {name!r}; choose among {', '.join(PARTS)}.")
    if "storage" in only and storage is None:
        raise EvenflowError("--only is 'storage'; pass the URL of an object store as --storage, too.")
    rows: list[Row] = []
    if not only or set(only) & set(stateful_work.COLUMNS):
        rows += stateful_work.run(quick=quick, progress=progress, only=only)
    if storage is not None and "storage" in (only or PARTS):
        cores = f"local[{stateful_storage.CORES}]"
        with session(cores, stateful_storage.WORKERS, **NOT_COALESCED) as spark:
            rows += stateful_storage.stored(spark, storage, quick=quick, progress=progress)
    return rows


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the parts as tables, and the targets."""
    columns = stateful_work.COLUMNS | stateful_storage.COLUMNS
    return [*part_tables(rows, columns), targets(rows)]


def targets(rows: Sequence[Row]) -> Table:
    """Return every target with its measured value."""
    largest = max((row["keys"] for row in rows if row["part"] == "cost"), default=0)
    known = [
        row | {"largest": row.get("keys") == largest, "is_store": row.get("requests", 0) > 0} for row in rows
    ]
    return target_table(line for target in TARGETS for line in target.lines(known))
