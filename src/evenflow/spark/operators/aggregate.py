"""`aggregate`: mergeable per-key work in Python; partial results on balanced workers, then one merge by key.

There are three steps: **reduce** rows to states on their workers, **merge** the states of each key,
**finish** them. In batch, merging takes one exchange by key, or none if every key has one owner. In
streaming, states are merged in Spark's state store: with Spark's own aggregates if the Aggregator declares
``merges``, else with ``transformWithState``. Watermarks, output modes, checkpoints and exactly-once
processing are Spark's.

Use Spark's built-in aggregates where they suffice (sums, counts, maxima, sketches): they combine before the
shuffle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.errors import EvenflowError
from evenflow.plan import JoinPlan, Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.grouped.aggregate_layout import AggregateLayout
from evenflow.spark.grouped.aggregate_task import FinishPass, MergePass, ReducePass
from evenflow.spark.grouped.aggregator import Aggregator
from evenflow.spark.grouped.record_columns import Records
from evenflow.spark.grouped.runs import Layout, check_rows
from evenflow.spark.grouped.schemas import Schema, as_arrow, check_exchangeable, parse
from evenflow.spark.grouped.streaming_merge import merge_with_state
from evenflow.spark.monitoring.task_timing import with_timing
from evenflow.spark.operators.apply import number_columns, rows_and_layout
from evenflow.spark.operators.curried import curried
from evenflow.spark.operators.place import place, stay
from evenflow.spark.routing.key_columns import Key, constant_floats, helper_name, key_hash, quoted
from evenflow.spark.routing.options import PlacementOptions, check_choice
from evenflow.spark.routing.placed import Placed
from evenflow.spark.worker_python import check_worker_python

OUTPUT_MODES = ("append", "update")
_SESSION = "spark.sessionWindow"


@curried
def aggregate(
    df: DataFrame,
    key: Key,
    using: Aggregator,
    schema: Schema,
    workers: int | None = None,
    scheme: str | Scheme = "fill",
    mode: str = "auto",
    *,
    output_mode: str | None = None,
    sample: float | None = None,
    order: str = "auto",
    seed: int = 0,
    plan: Plan | JoinPlan | None = None,
    sources: int | None = None,
    control: str | None = None,
    on_placed: Callable[[Placed], None] | None = None,
) -> DataFrame:
    """Aggregate rows by key with a Python `Aggregator`; the result has one row per key.

    Rows of a hot key are reduced on several workers, and their states are merged.

    Parameters
    ----------
    df : DataFrame
        Batch or stream. Without it, ``aggregate("user_id", ...)`` returns a function for ``df.transform``.
    key : str, Column or list of them
        The key: column names, Columns, or time windows.
    using : Aggregator
        An object with the methods ``zero``, ``reduce``, ``merge`` and ``finish``.
    schema : str or StructType
        Columns of the result of ``using.finish``.
    workers : int, optional
        Number of partitions. Default: that of ``plan``, else ``spark.sql.shuffle.partitions``.
    scheme, mode, sample, order, seed, plan, sources, control, on_placed
        As for `balance`. With the plan of a `join` on the same key, whose result is ``df``, rows are reduced
        where the join has put them, without another exchange.
    output_mode : {"append", "update"}, optional
        For a stream whose Aggregator merges in Python: "append" emits each key once, when the watermark has
        passed it; the default if the key includes the watermark column or a window of it. "update" emits the
        keys with new rows after each batch.

    Returns
    -------
    DataFrame
        The key's columns, then those of ``schema``.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> from evenflow.spark import Aggregator, aggregate
    >>> class Total(Aggregator):
    ...     buffer = "total long"
    ...     merges = {"total": "sum"}
    ...     def zero(self):
    ...         return (0,)
    ...     def reduce(self, state, rows):
    ...         return (state[0] + pc.sum(rows["value"]).as_py(),)
    >>> aggregate(df, "user_id", Total(), "total long", workers=4).where("user_id = 0").collect()
    [Row(user_id=0, total=24995000)]
    """
    declared = _check_declaration(using, schema)
    _check_output_mode(output_mode, df.isStreaming)
    check_exchangeable(df.schema, "df")
    check_worker_python(df.sparkSession)
    if isinstance(plan, JoinPlan):
        placed = stay(df, key, plan)
    else:
        options = PlacementOptions(
            workers, scheme, mode, sample=sample, order=order, seed=seed, plan=plan, sources=sources,
            control=control,
        )  # fmt: skip
        placed = place(df, key, options)
    query = _aggregate_query(placed, using, *declared, constant_floats(df, key, placed.keys))
    if on_placed is not None:
        on_placed(placed)
    return query.on_stream(output_mode) if df.isStreaming else query.on_batch()


@dataclass(frozen=True)
class AggregateQuery(AggregateLayout):
    """One aggregate in batch or streaming."""

    constants: dict[str, Column]  # key columns that results show as they were written

    def on_batch(self) -> DataFrame:
        """Return the result of a batch."""
        frame, layout = rows_and_layout(self.placed)
        rows = frame.sortWithinPartitions(*(F.col(quoted(column.frame_name)) for column in self.placed.keys))
        if has_one_owner(self.placed):
            return self.named(number_columns(rows).mapInArrow(self.reduce(layout, self.results), self.result))
        states = number_columns(rows).mapInArrow(self.reduce(layout, None), self.states)
        by_key = [F.col(name) for name in self.inner_keys]
        # an explicit number of partitions, or adaptive execution would coalesce small states into one task
        exchanged = states.repartition(self.placed.workers, *by_key)
        if self.using.merges is not None:
            return self.finished(self.merged_by_spark(exchanged))
        merge = self.step(MergePass, self.inner_layout, self.results)
        return self.named(exchanged.sortWithinPartitions(*by_key).mapInArrow(merge, self.result))

    def on_stream(self, output_mode: str | None) -> DataFrame:
        """Return the result of a stream, merged in the state store."""
        frame, layout = rows_and_layout(self.placed)
        hashed = helper_name(frame, "hash")
        layout = replace(layout, hashed=len(frame.columns))
        rows = frame.selectExpr("*", f"{key_hash(self.placed.keys)} as {quoted(hashed)}")
        if self.using.merges is not None:
            states = number_columns(rows).mapInArrow(self.reduce(layout, None), self.states)
            return self.finished(self.merged_by_spark(self.with_key_metadata(states)))
        return self.named(merge_with_state(number_columns(rows), layout, self, output_mode))

    def merged_by_spark(self, states: DataFrame) -> DataFrame:
        """Return one state per key, merged with the declared aggregates."""
        merges = self.using.merges or {}
        columns = []
        for inner, field in zip(self.inner_states, self.buffer.fields, strict=True):
            how = merges[field.name]
            merged: Column = F.call_function(how, F.col(inner)) if isinstance(how, str) else how(F.col(inner))
            columns.append(merged.cast(field.dataType).alias(inner))
        return states.groupBy(*self.inner_keys).agg(*columns)

    def finished(self, states: DataFrame) -> DataFrame:
        """Return the results of merged states, without Python if the states are the results."""
        if _state_is_result(self.using) and all(field.nullable for field in self.schema.fields):
            return self.named(states)
        finish = self.step(FinishPass, self.inner_layout, self.results)
        return self.named(states.mapInArrow(finish, self.result))

    def with_key_metadata(self, frame: DataFrame) -> DataFrame:
        """Restore the metadata of the key's columns, such as the watermark, which ``mapInArrow`` drops."""
        for name, field in zip(self.inner_keys, self.keys, strict=True):
            if field.metadata:
                frame = frame.withMetadata(name, field.metadata)
        return frame

    def named(self, frame: DataFrame) -> DataFrame:
        """Return results with their public column names."""
        for name, column in zip(self.inner_keys, self.placed.keys, strict=True):
            if column.frame_name in self.constants:
                frame = frame.withColumn(name, self.constants[column.frame_name])
        names = [field.name for field in [*self.keys, *self.schema.fields]]
        return self.with_key_metadata(frame).toDF(*names)

    def reduce(self, layout: Layout, results: Records | None) -> Any:
        """Return the timed pass over the balanced partitions."""
        work = self.step(ReducePass, layout, results)
        return with_timing(work, self.placed.control, heard=self.placed.hears)

    def step(self, kind: type[Any], layout: Layout, results: Records | None) -> Any:
        """Return a pass over the partitions."""
        names = self.result.names if results is not None else self.states.names
        return kind(self.using, layout, self.buffers, results, tuple(names))


def has_one_owner(placed: Placed) -> bool:
    """Return whether all rows of each key are on one worker, so that there is nothing to merge.

    Online routers at different sources may temporarily choose different owners; a plan or a hash does not.
    """
    return placed.mode == "repartition" or (placed.plan is not None and placed.plan.splits == 0)


def _check_declaration(using: Any, schema: Schema) -> tuple[T.StructType, T.StructType]:
    """Check an aggregator and its declarations; return its buffer and the output schema."""
    if isinstance(using, type) and issubclass(using, Aggregator):
        raise EvenflowError(f"using is the class {using.__name__}; pass an instance, {using.__name__}().")
    if not isinstance(using, Aggregator):
        raise EvenflowError(
            f"using is a {type(using).__name__}; pass an instance of a subclass of Aggregator."
        )
    name = type(using).__name__
    if not hasattr(using, "buffer"):
        raise EvenflowError(
            f'{name} has no buffer; declare the columns of the state, as in buffer = "n long".'
        )
    buffer = parse(using.buffer, f"{name}.buffer")
    check_rows(using.rows, f"{name}.rows")
    for method in ("zero", "reduce", *(["merge"] if using.merges is None else [])):
        if _inherits(using, method):
            raise EvenflowError(
                f"{name} has no {method}; define it"
                + (
                    ", or declare in merges an aggregate of Spark for each column."
                    if method == "merge"
                    else "."
                )
            )
    if using.merges is not None:
        _check_merges(name, using.merges, buffer)
    records = Records(f"{name}.zero", as_arrow(buffer, f"{name}.buffer"), "buffer")
    records.columns([records.record(using.zero(), _no_rows_label, 0)], _no_rows_label)
    declared = parse(schema, "schema")
    as_arrow(declared, "schema")
    if _state_is_result(using) and _columns(declared) != _columns(buffer):
        raise EvenflowError(
            f"{name} has no finish, so its buffer ({buffer.simpleString()}) is the result, but the schema is "
            f"{declared.simpleString()}; make them equal or define finish."
        )
    return buffer, declared


def _inherits(using: Aggregator, method: str) -> bool:
    return getattr(type(using), method) is getattr(Aggregator, method)


def _state_is_result(using: Aggregator) -> bool:
    """Return whether the state is the result."""
    return _inherits(using, "finish")


def _columns(schema: T.StructType) -> list[tuple[str, T.DataType]]:
    return [(field.name, field.dataType) for field in schema.fields]


def _no_rows_label(row: int) -> str:
    return "a key without rows"


def _check_merges(name: str, merges: Any, buffer: T.StructType) -> None:
    for field in buffer.names:
        if field not in merges:
            raise EvenflowError(
                f"{name}.merges has no aggregate for {field!r}; declare one for every column of the buffer."
            )
    for field, how in merges.items():
        if field not in buffer.names:
            raise EvenflowError(
                f"{name}.merges names {field!r}, which is not a column of the buffer; remove it."
            )
        if not isinstance(how, str) and not callable(how):
            raise EvenflowError(
                f"{name}.merges has {how!r} for {field!r}; use the name of an aggregate of Spark, such as "
                '"sum", or a function from a Column to a Column.'
            )


def _check_output_mode(output_mode: str | None, streaming: bool) -> None:
    if output_mode is None:
        return
    if not streaming:
        raise EvenflowError(f"output_mode is {output_mode!r}, but df is not a stream; omit output_mode.")
    if output_mode == "complete":
        raise EvenflowError(
            "output_mode is 'complete', which would write every key after each batch; use 'update' with a "
            "sink that upserts by key, or 'append' with a watermark."
        )
    check_choice("output_mode", output_mode, OUTPUT_MODES)


def _aggregate_query(
    placed: Placed,
    using: Aggregator,
    buffer: T.StructType,
    schema: T.StructType,
    constants: dict[str, Column],
) -> AggregateQuery:
    fields = {field.name: field for field in placed.frame.schema.fields}
    keys = []
    for column in placed.keys:
        field = fields[column.frame_name]
        if (field.metadata or {}).get(_SESSION):
            raise EvenflowError(
                f"key contains {column.name!r}, a session window, whose end depends on its rows; use "
                "window(), or Spark's groupBy."
            )
        keys.append(T.StructField(column.name, field.dataType, field.nullable, field.metadata))
    names = [field.name for field in [*schema.fields, *keys]]
    lowercase = [name.lower() for name in names]
    for name in names:
        if lowercase.count(name.lower()) > 1:
            raise EvenflowError(
                f"the result would have the column {name!r} twice, since the key's columns precede those of "
                "the schema; rename one."
            )
    return AggregateQuery(placed, using, tuple(keys), buffer, schema, constants)


__test__ = {"aggregate": aggregate.__doc__}  # doctest does not see through the decorator
