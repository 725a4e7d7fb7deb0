"""Online placement: the papers' routers, exact, one per input partition.

A partition is a source. Only the key's hash crosses into Python, through an iterator ``arrow_udf`` that
answers with the worker; rows stay in the JVM. Laws, so that a task that is run again decides as before:

* a router starts from a frozen snapshot: new, or what the routers of the micro-batch before learned together
  (:mod:`evenflow.spark.routing.router_snapshots`). Hot keys and homes pass on; loads begin at 0 in every
  batch, since a batch is as slow as its fullest worker, whatever went before;
* its input comes in a fixed order: a plain scan of files or offsets has one; other frames are sorted within
  their partitions by all that rows hold, then routed in a mixed order that hangs on the position alone;
  ``order="as-is"`` is the caller's promise that the order is fixed;
* the function is marked non-deterministic, or the optimizer would evaluate it twice where a filter follows.

If files vanish between two attempts, a retried task may decide otherwise. Spark notices by its
order-independent shuffle checksum and runs again what is behind it; that is why the checksum must be on.

A source's number is its partition's, modulo ``sources``. How many partitions there will be is not known
before the job runs, so ``sources`` is stated by the caller or taken as the number of workers, which gives
every partition a starting worker of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.schemes.base import Scheme
from evenflow.spark.arrow_functions import arrow_function
from evenflow.spark.monitoring.control_dir import local_path, operator_name, temporary_control_dir
from evenflow.spark.routing.key_columns import Key, helper, key_hash, with_keys
from evenflow.spark.routing.online_task import Online, route_partition
from evenflow.spark.routing.options import ResolvedOptions
from evenflow.spark.routing.placed import Placed
from evenflow.spark.routing.row_order import has_fixed_order, sorted_by_content

log = logging.getLogger("evenflow.spark")

OLDEST = (4, 2)
CHECKSUM = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)


def place_online(df: DataFrame, key: Key, options: ResolvedOptions, start: bytes | None = None) -> Placed:
    """Choose a worker for every row with a router at each partition.

    ``start``: ``Router.to_bytes()`` of a router whose hot keys and homes all routers begin with. In a stream
    they are passed on through ``control``, which every executor must be able to write; without one only where
    all tasks run on this machine.
    """
    scheme, workers, control = options.scheme, options.workers, options.control
    require_online(df.sparkSession)
    _check_split(scheme, options.split)
    _check_sources(options.sources)
    reasons = list(options.reasons)
    keyed, keys = with_keys(df, key)
    as_is = _takes_order_as_is(df, options.order, reasons)
    if not as_is:
        keyed = sorted_by_content(keyed, options.seed)
    shared = control is not None or _is_local(df.sparkSession)
    if df.isStreaming:
        control = str(local_path(control or temporary_control_dir()))
    operator = operator_name(scheme, workers, [column.name for column in keys])
    online = Online(
        scheme, workers, options.seed, options.sources, start, control if shared else None, operator,
        mixed=not as_is,
    )  # fmt: skip
    worker = helper(keyed, "worker")
    frame = keyed.select("*", online_worker(F.expr(key_hash(keys)), online).alias(worker))
    for reason in reasons:
        log.info(reason)
    return Placed(frame, worker, workers, keys, df.columns, "online", scheme, None, reasons, control)


def online_worker(hashed: Column, online: Online) -> Column:
    """Return the INT column of workers for a column of key hashes."""

    def route(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return route_partition(online, batches)

    return arrow_function(route, "int", of_iterator=True).asNondeterministic()(hashed)


def require_online(spark: SparkSession) -> None:
    """Refuse online routing where a retried task could lose or repeat rows without Spark noticing."""
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    if version < OLDEST:
        raise EvenflowError(
            f"mode is 'online' on Spark {spark.version}; it needs Spark 4.2 or newer, which notices when a "
            "retried task decides otherwise. Use mode='planned'."
        )
    for setting in CHECKSUM:
        if str(spark.conf.get(setting)).lower() != "true":
            raise EvenflowError(
                f"mode is 'online' and {setting} is off; without it Spark does not notice when a retried "
                "task decides otherwise. Set it to true, or use mode='planned'."
            )


def _is_local(spark: SparkSession) -> bool:
    """Return whether all tasks run on this machine, so that a folder of our own is everyone's."""
    return str(spark.conf.get("spark.master", "")).startswith("local")


def _check_split(scheme: Scheme, split: bool) -> None:
    if not split and (scheme.splits_keys or scheme.needs_load):
        raise EvenflowError(
            f"split is False and mode is 'online': every partition's {scheme.name} decides alone, so a key "
            "would have several owners. Use mode='planned', or a scheme that only hashes, such as 'key'."
        )


def _check_sources(sources: int | None) -> None:
    if sources is not None and (isinstance(sources, bool) or not isinstance(sources, int) or sources < 1):
        raise EvenflowError(f"sources is {sources!r}; give the number of input partitions, or leave it out.")


def _takes_order_as_is(df: DataFrame, order: str, reasons: list[str]) -> bool:
    """Return whether rows are routed in the order they come; otherwise they must be sorted first."""
    if order == "content":
        raise EvenflowError(
            "order is 'content' and mode is 'online': a router decides row after row, so their order must be "
            "fixed. Use order='auto', 'sort' or 'as-is'."
        )
    if order == "as-is":
        return True
    if order == "auto" and has_fixed_order(df):
        reasons.append("rows are routed as they come: the input is a plain scan, its order is fixed")
        return True
    if df.isStreaming:
        raise EvenflowError(
            "mode is 'online' and this stream is no plain scan of its source; Spark does not sort streams, "
            "so the order of its rows cannot be fixed. Balance before joins and aggregates, use "
            "mode='planned', or promise a fixed order with order='as-is'."
        )
    reasons.append("rows are sorted by what they hold before they are routed, since their order is not fixed")
    return False
