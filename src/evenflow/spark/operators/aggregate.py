"""`aggregate`: mergeable Python work per key; parts on balanced workers, then one merge by key.

Three steps: **reduce** rows to states where they were placed, **merge** the states of a key, **finish** them.
In batch, merging is one exchange by key, and none where every key has one home. In streaming it is Spark's
state store: one of Spark's own aggregates for each column of the buffer where the Aggregator says which, else
``transformWithState``; so watermarks, output modes, checkpoints and exactly-once are Spark's.

What Spark can aggregate by itself (sums, counts, maxima, sketches) it should: it combines before it shuffles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.errors import EvenflowError
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.grouped.aggregate_layout import AggregateLayout
from evenflow.spark.grouped.aggregate_task import FinishPass, MergePass, ReducePass
from evenflow.spark.grouped.aggregator import Aggregator
from evenflow.spark.grouped.record_columns import Records
from evenflow.spark.grouped.runs import Layout, check_rows
from evenflow.spark.grouped.schemas import Schema, as_arrow, parse
from evenflow.spark.grouped.streaming_merge import merge_with_state
from evenflow.spark.monitoring.task_timing import with_timing
from evenflow.spark.operators.apply import laid_out, numbered
from evenflow.spark.operators.curried import curried
from evenflow.spark.operators.place import place
from evenflow.spark.routing.key_columns import Key, helper_name, key_hash, quoted
from evenflow.spark.routing.options import PlacementOptions
from evenflow.spark.routing.placed import Placed

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
    plan: Plan | None = None,
    sources: int | None = None,
    control: str | None = None,
    on_placed: Callable[[Placed], None] | None = None,
) -> DataFrame:
    """ReducePass, merge and finish rows by key with a Python `Aggregator`; one row per key.

    Rows of a hot key are reduced on several workers and their states merged.

    Parameters
    ----------
    df : DataFrame
        Batch or stream. Without it, ``aggregate("user_id", ...)`` returns a function for ``df.transform``.
    key : str, Column or list of them
        The key: names of columns, Columns, or time windows.
    using : Aggregator
        The work: ``zero``, ``reduce``, ``merge`` and ``finish``.
    schema : str or StructType
        Columns of what ``using.finish`` returns.
    workers : int, optional
        Number of partitions. Default: those of ``plan``, else ``spark.sql.shuffle.partitions``.
    scheme, mode, sample, order, seed, plan, sources, control, on_placed
        As for `balance`.
    output_mode : {"append", "update"}, optional
        Of a stream whose Aggregator merges in Python: "append" (each key once, when the watermark has passed
        it; the default where the key holds the watermark's column or a window of it) or "update" (every key
        that got rows, after each batch).

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
    declared = _declared(using, schema)
    _check_output_mode(output_mode, df.isStreaming)
    options = PlacementOptions(
        workers, scheme, mode, sample=sample, order=order, seed=seed, plan=plan, sources=sources,
        control=control,
    )  # fmt: skip
    placed = place(df, key, options)
    work = _work(placed, using, *declared)
    if on_placed is not None:
        on_placed(placed)
    return work.on_stream(output_mode) if df.isStreaming else work.on_batch()


class Work(AggregateLayout):
    """One aggregate, step by step."""

    def on_batch(self) -> DataFrame:
        """ReducePass, merge and finish in one go."""
        frame, layout = laid_out(self.placed)
        rows = frame.sortWithinPartitions(*(F.col(quoted(column.frame_name)) for column in self.placed.keys))
        if has_one_home(self.placed):
            return self.named(numbered(rows).mapInArrow(self.reduce(layout, self.results), self.result))
        states = numbered(rows).mapInArrow(self.reduce(layout, None), self.states)
        by_key = [F.col(name) for name in self.inner_keys]
        # a number of partitions, or adaptive execution would see few bytes and let one task finish all keys
        together = states.repartition(self.placed.workers, *by_key)
        if self.using.merges is not None:
            return self.finished(self.merged_by_spark(together))
        merge = self.step(MergePass, self.inner_layout, self.results)
        return self.named(together.sortWithinPartitions(*by_key).mapInArrow(merge, self.result))

    def on_stream(self, output_mode: str | None) -> DataFrame:
        """ReducePass every batch, merge with what the state store holds, finish."""
        frame, layout = laid_out(self.placed)
        hashed = helper_name(frame, "hash")
        layout = Layout(
            layout.keys, layout.key_names, layout.rows, layout.row_names, hashed=len(frame.columns)
        )
        rows = frame.selectExpr("*", f"{key_hash(self.placed.keys)} as {quoted(hashed)}")
        if self.using.merges is not None:
            states = numbered(rows).mapInArrow(self.reduce(layout, None), self.states)
            return self.finished(self.merged_by_spark(self.marked(states)))
        return self.named(merge_with_state(numbered(rows), layout, self, output_mode))

    def merged_by_spark(self, states: DataFrame) -> DataFrame:
        """Return one state per key, merged by the aggregates that were declared."""
        merges = self.using.merges or {}
        columns = []
        for inner, field in zip(self.inner_states, self.buffer.fields, strict=True):
            how = merges[field.name]
            merged: Column = F.call_function(how, F.col(inner)) if isinstance(how, str) else how(F.col(inner))
            columns.append(merged.cast(field.dataType).alias(inner))
        return states.groupBy(*self.inner_keys).agg(*columns)

    def finished(self, states: DataFrame) -> DataFrame:
        """Return results for merged states; where these are the results, no row enters Python for it."""
        if _keeps_state(self.using) and all(field.nullable for field in self.schema.fields):
            return self.named(states)
        return self.named(
            states.mapInArrow(self.step(FinishPass, self.inner_layout, self.results), self.result)
        )

    def marked(self, frame: DataFrame) -> DataFrame:
        """Put back what the key's columns say of themselves, such as the watermark: Python drops it."""
        for name, field in zip(self.inner_keys, self.keys, strict=True):
            if field.metadata:
                frame = frame.withMetadata(name, field.metadata)
        return frame

    def named(self, frame: DataFrame) -> DataFrame:
        """Return results under the names that the user knows."""
        return self.marked(frame).toDF(*(field.name for field in [*self.keys, *self.schema.fields]))

    def reduce(self, layout: Layout, results: Records | None) -> Any:
        """Return the pass over balanced partitions, which is the one whose time is told."""
        return with_timing(self.step(ReducePass, layout, results), self.placed.control)

    def step(self, kind: type[Any], layout: Layout, results: Records | None) -> Any:
        """Return a pass over partitions."""
        names = self.result.names if results is not None else self.states.names
        return kind(self.using, layout, self.buffers, results, tuple(names))


def has_one_home(placed: Placed) -> bool:
    """Return whether every row of a key is on one worker, so that nothing is left to merge.

    Only a plan promises that: online, two sources may know of different owners for a while.
    """
    return placed.plan is not None and placed.plan.splits == 0


def _declared(using: Any, schema: Schema) -> tuple[T.StructType, T.StructType]:
    """Check an aggregator and what it declares; return its buffer and the output schema."""
    if isinstance(using, type) and issubclass(using, Aggregator):
        raise EvenflowError(f"using is the class {using.__name__}; pass an instance, {using.__name__}().")
    if not isinstance(using, Aggregator):
        raise EvenflowError(f"using is a {type(using).__name__}; pass an instance of a class of Aggregator.")
    name = type(using).__name__
    if not hasattr(using, "buffer"):
        raise EvenflowError(f'{name} has no buffer; declare the state\'s columns, as in buffer = "n long".')
    buffer = parse(using.buffer, f"{name}.buffer")
    check_rows(using.rows, f"{name}.rows")
    for method in ("zero", "reduce", *(["merge"] if using.merges is None else [])):
        if _inherits(using, method):
            raise EvenflowError(
                f"{name} has no {method}; define it"
                + (
                    " or say by merges which of Spark's aggregates merges each column."
                    if method == "merge"
                    else "."
                )
            )
    if using.merges is not None:
        _check_merges(name, using.merges, buffer)
    shape = Records(f"{name}.zero", as_arrow(buffer, f"{name}.buffer"), "buffer")
    shape.columns([shape.record(using.zero(), _before_any, 0)], _before_any)
    declared = parse(schema, "schema")
    as_arrow(declared, "schema")
    if _keeps_state(using) and _columns(declared) != _columns(buffer):
        raise EvenflowError(
            f"{name} has no finish, so its buffer ({buffer.simpleString()}) is the result, and the schema is "
            f"{declared.simpleString()}; make them the same or define finish."
        )
    return buffer, declared


def _inherits(using: Aggregator, method: str) -> bool:
    return getattr(type(using), method) is getattr(Aggregator, method)


def _keeps_state(using: Aggregator) -> bool:
    """Return whether the state is the result."""
    return _inherits(using, "finish")


def _columns(schema: T.StructType) -> list[tuple[str, T.DataType]]:
    return [(field.name, field.dataType) for field in schema.fields]


def _before_any(row: int) -> str:
    return "a key without rows"


def _check_merges(name: str, merges: Any, buffer: T.StructType) -> None:
    for field in buffer.names:
        if field not in merges:
            raise EvenflowError(
                f"{name}.merges does not say how {field!r} merges; name every column of the buffer."
            )
    for field, how in merges.items():
        if field not in buffer.names:
            raise EvenflowError(
                f"{name}.merges names {field!r}, which is no column of the buffer; remove it."
            )
        if not isinstance(how, str) and not callable(how):
            raise EvenflowError(
                f"{name}.merges has {how!r} for {field!r}; give the name of one of Spark's aggregates, such "
                'as "sum", or a function from a Column to a Column.'
            )


def _check_output_mode(output_mode: str | None, streaming: bool) -> None:
    if output_mode is None:
        return
    if not streaming:
        raise EvenflowError(f"output_mode is {output_mode!r}, but df is not a stream; leave it out.")
    if output_mode == "complete":
        raise EvenflowError(
            "output_mode is 'complete', which would write every key there ever was after each batch; use "
            "'update' into a table with keys, or 'append' with a watermark."
        )
    if output_mode not in OUTPUT_MODES:
        raise EvenflowError(f"output_mode is {output_mode!r}; choose one of {', '.join(OUTPUT_MODES)}.")


def _work(placed: Placed, using: Aggregator, buffer: T.StructType, schema: T.StructType) -> Work:
    inside = {field.name: field for field in placed.frame.schema.fields}
    keys = []
    for column in placed.keys:
        found = inside[column.frame_name]
        if (found.metadata or {}).get(_SESSION):
            raise EvenflowError(
                f"key holds {column.name!r}, a session window, which grows with its rows; use window(), or "
                "Spark's own groupBy."
            )
        keys.append(T.StructField(column.name, found.dataType, found.nullable, found.metadata))
    names = [field.name.lower() for field in keys]
    for name in [field.name for field in schema.fields] + [field.name for field in keys]:
        if [*names, *(field.name.lower() for field in schema.fields)].count(name.lower()) > 1:
            raise EvenflowError(
                f"the result would have the column {name!r} twice, since the key's columns come before those "
                "of the schema; rename one."
            )
    return Work(placed, using, tuple(keys), buffer, schema)


__test__ = {"aggregate": aggregate.__doc__}  # doctest does not look behind a decorator
