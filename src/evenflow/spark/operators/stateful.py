"""`stateful`: keyed state with one owner per key, which follows the load, the speeds and the workers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from evenflow.errors import EvenflowError, nearest
from evenflow.owners import AutoWorkers, Ownership
from evenflow.schemes.base import Scheme
from evenflow.schemes.spelling import as_scheme
from evenflow.spark.grouped.runs import Layout, check_rows
from evenflow.spark.grouped.schemas import Schema, as_arrow, check_exchangeable, parse
from evenflow.spark.monitoring.switches import logs_values
from evenflow.spark.operators.apply import number_columns
from evenflow.spark.operators.curried import curried
from evenflow.spark.routing.key_columns import Key, helper_name, key_hash, quoted, with_keys
from evenflow.spark.routing.options import check_choice, check_settings, check_workers, default_workers
from evenflow.spark.state.heartbeat import with_heartbeat
from evenflow.spark.state.processor import KeyedProcessor
from evenflow.spark.state.query import StatefulWriter
from evenflow.spark.state.query_config import QueryConfig
from evenflow.spark.state.schema import StateLayout, check_storable
from evenflow.spark.worker_python import check_worker_python
from evenflow.storage import locate

LATE = ("process", "drop")
CLOCKS = ("processing", "event")


@curried
def stateful(
    df: DataFrame,
    key: Key,
    using: KeyedProcessor,
    schema: Schema,
    state: str | Path,
    workers: int | str | AutoWorkers | None = None,
    scheme: str | Scheme = "explicit",
    *,
    order_by: str | Sequence[str] = (),
    event_time: str | None = None,
    delay: str = "0 seconds",
    late: str = "process",
    heartbeat: str | None = None,
    keep: str = "1 hour",
    seed: int = 0,
    speeds: str | None = None,
    alpha: float | None = None,
    control: str | Path | None = None,
    checkpoint: str | Path | None = None,
    accept_gap: bool = False,
) -> StatefulWriter:
    """Return a writer whose ``start(sink)`` runs ``using`` over a stream, with state at the path ``state``.

    Every key has one owner at a time. The owner may change between micro-batches, when the gain outweighs the
    cost of moving state. Rows of a key are processed in input order, partition by partition.

    Parameters
    ----------
    df : DataFrame
        A stream.
    key : str, Column or list of them
        The key: column names, or Columns.
    using : KeyedProcessor
        Declares the state of a key and processes its rows.
    schema : str or StructType
        Columns of the outputs of ``using``.
    state : str or Path
        A directory that the driver and all workers can access: local, or shared by a cluster. It holds the
        table and staged outputs, and by default the checkpoint and the control directory.
    workers : int, "auto" or AutoWorkers, optional
        Initial number of workers. Default: ``spark.sql.shuffle.partitions``. It is changed by another number
        after a restart, or by `StatefulQuery.rescale` while the query runs; "auto" follows the utilisation.
    scheme : str or Scheme
        A scheme with one owner per key, such as ``"explicit:algorithm=redist"`` or ``"fill:split=no"``.
    order_by : str or list of str
        Columns to sort the rows of a key by; ties keep input order.
    event_time, delay : str
        The watermark is the largest event time of all earlier batches minus the delay.
    late : {"process", "drop"}
        How to handle rows below the watermark; they are counted either way.
    heartbeat : str, optional
        Run a batch at least this often even if no rows arrive, so that time-outs fire.
    keep : str
        How long earlier batches remain readable with `read_state`.
    seed : int
        Seed of hashes.
    speeds, alpha
        Settings of the adaptivity loop, see `evenflow.owners.Ownership.start`.
    control, checkpoint : str or Path, optional
        Separate paths for the control directory and Spark's checkpoint.
    accept_gap : bool
        A state and a checkpoint that do not belong together (one was deleted, restored from a backup, or
        belongs to another query) are refused, since rows would be lost or counted twice. True continues
        nevertheless and records the gap in the commit, the log and `StatefulQuery.gaps`; pass it for one
        start only.

    Returns
    -------
    StatefulWriter
        ``start(sink)`` starts the query and returns a `StatefulQuery`.

    Examples
    --------
    >>> writer = stateful(trades, "ticker", Vwap(), "vwap double", "path/state")  # doctest: +SKIP
    >>> query = writer.start(sink, processingTime="5 seconds")  # doctest: +SKIP
    """
    if not df.isStreaming:
        raise EvenflowError("df is not a stream; read it with spark.readStream, or use apply on a batch.")
    check_settings(df)
    _check_processor(using)
    root = locate(state, "state")
    auto, first = _initial_workers(df, workers)
    chosen = as_scheme(scheme)
    Ownership.start(chosen, first, seed=seed, auto=auto, speeds=speeds, alpha=alpha)  # checks the arguments
    keyed, keys = with_keys(df, key)
    hashed = helper_name(keyed, "hash")
    frame = keyed.selectExpr("*", f"{key_hash(keys)} as {quoted(hashed)}")
    names = frame.columns
    layout = Layout(
        keys=(len(names) - 1, *(names.index(column.frame_name) for column in keys)),
        key_names=("hash", *(column.name for column in keys)),
        rows=tuple(range(len(df.columns))),
        row_names=tuple(df.columns),
    )
    check_exchangeable(df.schema, "df")
    key_type = T.StructType([T.StructField(column.name, column.type) for column in keys])
    check_exchangeable(key_type, "key")
    check_worker_python(df.sparkSession)
    declared = parse(schema, "schema")
    outputs = as_arrow(declared, "schema")
    for field in outputs:
        check_storable(field.type, field.name, "staged output")
    config = QueryConfig(
        root=root,
        token=uuid4().hex,
        control=locate(control or root / "_evenflow"),
        checkpoint=str(checkpoint or root / "_checkpoint"),
        processor=using,
        layout=layout,
        state=StateLayout(
            as_arrow(key_type, "key"), as_arrow(parse(using.state, f"{type(using).__name__}.state"), "state")
        ),
        output=declared,
        output_arrow=outputs,
        scheme=chosen,
        workers=first,
        auto=auto,
        seed=seed,
        speeds=speeds,
        alpha=alpha,
        order_by=tuple(_column_index(df, name, "order_by") for name in _as_list(order_by)),
        event_time=None if event_time is None else _event_time(df, event_time),
        delay=round(seconds_of(delay, "delay") * 1e6),
        late=late,
        keep=seconds_of(keep, "keep"),
        beat=None if heartbeat is None else len(names),
        accept_gap=accept_gap,
        log_values=logs_values(df.sparkSession),
    )
    _check_time(config)
    frame = number_columns(frame)
    if heartbeat is not None:
        frame = with_heartbeat(frame, _interval(heartbeat), f"column_{len(names)}")
    return StatefulWriter(frame, config)


def seconds_of(text: str, argument: str) -> float:
    """Return a duration such as "5 minutes" in seconds.

    >>> seconds_of("1 hour", "keep")
    3600.0
    """
    try:
        seconds = float(pd.Timedelta(text).total_seconds())
    except (ValueError, TypeError) as error:
        raise EvenflowError(
            f'{argument} is {text!r}; pass a duration such as "5 seconds" or "1 hour".'
        ) from error
    if not seconds >= 0:
        raise EvenflowError(f"{argument} is {text!r}; pass a duration of at least 0 seconds.")
    return seconds


def _interval(heartbeat: str) -> float:
    seconds = seconds_of(heartbeat, "heartbeat")
    if seconds <= 0:
        raise EvenflowError(f'heartbeat is {heartbeat!r}; pass a positive duration, such as "5 seconds".')
    return seconds


def _check_processor(using: Any) -> None:
    if not isinstance(using, KeyedProcessor):
        fix = (
            "pass an instance, such as Vwap()" if inspect.isclass(using) else "derive it from KeyedProcessor"
        )
        raise EvenflowError(f"using is {using!r}, which is not a KeyedProcessor; {fix}.")
    name = type(using).__name__
    if not hasattr(using, "state"):
        raise EvenflowError(f'{name} declares no state; declare its columns, as in state = "n long".')
    for method in ("start", "process"):
        if getattr(type(using), method) is getattr(KeyedProcessor, method):
            raise EvenflowError(f"{name} has no method {method}; define it.")
    check_rows(using.rows, f"{name}.rows")
    check_choice(f"{name}.clock", using.clock, CLOCKS)


def _check_time(config: QueryConfig) -> None:
    check_choice("late", config.late, LATE)
    if config.processor.clock == "event" and config.event_time is None:
        raise EvenflowError(
            f"{config.name}.clock is 'event' but event_time is None; pass the name of the event-time column."
        )


def _initial_workers(df: DataFrame, workers: Any) -> tuple[AutoWorkers | None, int]:
    if workers is None:
        workers = default_workers(df)
    if workers == "auto":
        workers = AutoWorkers()
    if isinstance(workers, AutoWorkers):
        return workers, workers.least
    if isinstance(workers, str):
        raise EvenflowError(f'workers is {workers!r}; pass a number, "auto" or an AutoWorkers.')
    check_workers(workers)
    return None, int(workers)


def _as_list(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _column_index(df: DataFrame, name: str, argument: str) -> int:
    if df.columns.count(name) != 1:
        raise EvenflowError(
            f"{argument} names {name!r}, but there is no such column; {nearest(name, df.columns)}"
        )
    return df.columns.index(name)


def _event_time(df: DataFrame, name: str) -> int:
    index = _column_index(df, name, "event_time")
    kind = df.schema.fields[index].dataType
    if not isinstance(kind, T.TimestampType | T.TimestampNTZType):
        raise EvenflowError(
            f"event_time is {name!r}, a column of type {kind.simpleString()}; cast it to a timestamp."
        )
    return index
