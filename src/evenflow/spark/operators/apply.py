"""`apply`: instead of ``groupBy(key).applyInArrow``, whole groups without two giants on one task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.grouped.apply_task import WholeGroups
from evenflow.spark.grouped.runs import Layout, check_rows
from evenflow.spark.grouped.schemas import Schema, as_arrow, parse
from evenflow.spark.monitoring.task_timing import with_timing
from evenflow.spark.operators.curried import curried
from evenflow.spark.operators.place import place
from evenflow.spark.routing.key_columns import Key, quoted
from evenflow.spark.routing.options import PlacementOptions
from evenflow.spark.routing.placed import Placed


@curried
def apply(
    df: DataFrame,
    key: Key,
    using: Callable[..., Any],
    schema: Schema,
    workers: int | None = None,
    scheme: str | Scheme = "fill",
    *,
    rows: str = "arrow",
    sample: float | None = None,
    seed: int = 0,
    plan: Plan | None = None,
    control: str | None = None,
    on_placed: Callable[[Placed], None] | None = None,
) -> DataFrame:
    """Call a function on every group, as ``groupBy(key).applyInArrow`` or ``applyInPandas`` do.

    Every group is whole and on one worker. The keys are counted first, and large groups are spread over the
    workers, so that no two giants meet.

    Parameters
    ----------
    df : DataFrame
        Batch only. Without it, ``apply("user_id", ...)`` returns a function for ``df.transform``.
    key : str, Column or list of them
        The key: names of columns, or Columns.
    using : callable
        Takes the group, or the key as a tuple and the group, and returns a table of the same kind.
    schema : str or StructType
        Columns of what ``using`` returns.
    workers : int, optional
        Number of partitions. Default: those of ``plan``, else ``spark.sql.shuffle.partitions``.
    scheme : str or Scheme
        A scheme that can be planned.
    rows : {"arrow", "pandas"}
        Whether a group is a pyarrow Table or a pandas DataFrame.
    sample, seed, plan, control, on_placed
        As for `balance`.

    Returns
    -------
    DataFrame
        The rows of all results.

    Examples
    --------
    >>> from evenflow.spark import apply
    >>> def largest(group):
    ...     return group.nlargest(1, "value")
    >>> best = apply(df, "user_id", largest, "user_id long, value long", workers=4, rows="pandas")
    >>> best.where("user_id = 0").collect()
    [Row(user_id=0, value=9998)]
    """
    if df.isStreaming:
        raise EvenflowError(
            "df is a stream, and a stream never has the whole group; use aggregate, or apply in foreachBatch."
        )
    check_rows(rows, "rows")
    name, takes_key = signature_of(using)
    declared = parse(schema, "schema")
    arrow = as_arrow(declared, "schema")
    options = PlacementOptions(  # planned: online, two sources may know of different owners for a while
        workers, scheme, "planned", split=False, sample=sample, seed=seed, plan=plan, control=control
    )
    placed = place(df, key, options)
    if on_placed is not None:
        on_placed(placed)
    frame, layout = laid_out(placed)
    by_key = [F.col(quoted(column.frame_name)) for column in placed.keys]
    work = WholeGroups(layout, using, name, takes_key, rows, arrow)
    return numbered(frame.sortWithinPartitions(*by_key)).mapInArrow(with_timing(work, control), declared)


def laid_out(placed: Placed) -> tuple[DataFrame, Layout]:
    """Return the rows on their workers, without the worker's number, and which columns are what."""
    helpers = [column.frame_name for column in placed.keys if column.is_helper]
    names = [*placed.columns, *helpers]
    layout = Layout(
        keys=tuple(names.index(column.frame_name) for column in placed.keys),
        key_names=tuple(column.name for column in placed.keys),
        rows=tuple(range(len(placed.columns))),
        row_names=tuple(placed.columns),
    )
    return placed.moved().drop(placed.worker), layout


def numbered(frame: DataFrame) -> DataFrame:
    """Return the frame with numbers for names: mapInArrow stumbles over dots and names that come twice."""
    return frame.toDF(*(f"column_{place}" for place in range(len(frame.columns))))


def signature_of(using: Any) -> tuple[str, bool]:
    """Return the name of a function over groups, and whether it takes the key."""
    if not callable(using):
        raise EvenflowError(
            f"using is {using!r}; pass a function that takes a group, or the key and the group."
        )
    name = getattr(using, "__name__", None) or type(using).__name__
    taken = [
        parameter
        for parameter in inspect.signature(using).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(taken) not in (1, 2):
        raise EvenflowError(
            f"{name} takes {len(taken)} arguments; it may take a group, or the key and the group."
        )
    return name, len(taken) == 2


__test__ = {"apply": apply.__doc__}  # doctest does not look behind a decorator
