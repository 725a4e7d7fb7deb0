"""Online placement: the papers' routers, one per input partition.

Each partition is a source. Only the key's hash crosses into Python, through an iterator ``arrow_udf`` that
returns the worker; rows stay in the JVM. A retried task repeats its decisions, because:

* a router starts from a frozen snapshot: empty, or the merged knowledge of the previous micro-batch's routers
  and what its workers reported (:mod:`evenflow.spark.routing.router_snapshots`). Hot keys, homes and clocks
  carry over; loads only as a small head start, because a batch takes as long as its fullest worker,
  regardless of earlier batches;
* its input has a fixed order. A plain scan of files or offsets has one; other frames are sorted by content
  within each partition, then routed in a permutation that depends on positions only. ``order="as-is"`` is the
  caller's promise of a fixed order;
* the UDF is marked non-deterministic, or the optimizer would evaluate it twice when a filter follows.

If input files disappear between two attempts, a retried task may decide differently. Spark detects this with
its order-independent shuffle checksum and reruns the downstream stages, so the checksum must be enabled.

A source's number is its partition modulo ``sources``. The number of partitions is not known before the job
runs: ``sources`` is passed by the caller, or is the number of partitions of the previous micro-batch, or else
the number of workers, which gives every partition a distinct starting worker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.control.directory import temporary_control_dir
from evenflow.errors import EvenflowError
from evenflow.schemes.base import Scheme
from evenflow.spark.monitoring.operator_name import operator_name
from evenflow.spark.routing.key_columns import Key, helper_name, key_hash, with_keys
from evenflow.spark.routing.online_task import OnlineRouting, route_partition
from evenflow.spark.routing.options import ResolvedOptions
from evenflow.spark.routing.placed import Placed
from evenflow.spark.routing.row_order import has_fixed_order, sorted_by_content
from evenflow.spark.versions.arrow import arrow_function
from evenflow.spark.versions.known import require_online
from evenflow.spark.worker_python import check_worker_python
from evenflow.storage import locate

log = logging.getLogger("evenflow.spark.routing")


def place_online(df: DataFrame, key: Key, options: ResolvedOptions) -> Placed:
    """Choose a worker for every row with one router per partition.

    In a stream, routers pass on what they learned through ``control``, which every executor must be able to
    write. Without a control directory they do so only in local mode.
    """
    scheme, workers, control = options.scheme, options.workers, options.control
    require_online(df.sparkSession)
    check_worker_python(df.sparkSession)
    _check_split(scheme, options.split)
    _check_sources(options.sources)
    reasons = list(options.reasons)
    keyed, keys = with_keys(df, key)
    as_is = _takes_order_as_is(df, options.order, reasons)
    if not as_is:
        keyed = sorted_by_content(keyed, options.seed)
    shared = control is not None or _is_local(df.sparkSession)
    if df.isStreaming and scheme.learns and not shared:
        reasons.append(
            f"{scheme.name} starts every micro-batch anew: its routers would pass on what they know through "
            "control, a folder that the driver and all executors can write; pass control"
        )
    if df.isStreaming:
        control = locate(control or temporary_control_dir())
    operator = operator_name(scheme, workers, [column.name for column in keys])
    online = OnlineRouting(
        scheme, workers, options.seed, options.sources, control if shared else None, operator,
        permuted=not as_is,
    )  # fmt: skip
    worker = helper_name(keyed, "worker")
    frame = keyed.select("*", online_worker(F.expr(key_hash(keys)), online).alias(worker))
    for reason in reasons:
        log.info(reason)
    return Placed(frame, worker, workers, keys, df.columns, "online", scheme, None, reasons, control)


def online_worker(hashed: Column, online: OnlineRouting) -> Column:
    """Return an INT column with the worker of each key hash."""

    def route(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return route_partition(online, batches)

    return arrow_function(route, "int", pa.int64(), of_iterator=True).asNondeterministic()(hashed)


def _is_local(spark: SparkSession) -> bool:
    """Return whether all tasks run on this machine, so that a local directory is shared."""
    return str(spark.conf.get("spark.master", "")).startswith("local")


def _check_split(scheme: Scheme, split: bool) -> None:
    if not split and (scheme.splits_keys or scheme.needs_load):
        raise EvenflowError(
            f"split is False and mode is 'online', but {scheme.name} decides independently in every "
            "partition, so a key would have several owners. Use mode='planned', or a scheme that only "
            "hashes, such as 'key'."
        )


def _check_sources(sources: int | None) -> None:
    if sources is not None and (isinstance(sources, bool) or not isinstance(sources, int) or sources < 1):
        raise EvenflowError(f"sources is {sources!r}; pass the number of input partitions, or omit it.")


def _takes_order_as_is(df: DataFrame, order: str, reasons: list[str]) -> bool:
    """Return whether rows are routed in input order; otherwise they must be sorted first."""
    if order == "content":
        raise EvenflowError(
            "order is 'content' and mode is 'online', but an online router needs rows in a fixed order; use "
            "order='auto', 'sort' or 'as-is'."
        )
    if order == "as-is":
        return True
    if order == "auto" and has_fixed_order(df):
        reasons.append("rows are routed in input order: the input is a plain scan, whose order is fixed")
        return True
    if df.isStreaming:
        raise EvenflowError(
            "mode is 'online' but this stream is not a plain scan of its source, and Spark does not sort "
            "streams, so the order of its rows cannot be fixed. Balance before joins and aggregates, use "
            "mode='planned', or promise a fixed order with order='as-is'."
        )
    reasons.append("rows are sorted by content before routing, since their order is not fixed")
    return False
