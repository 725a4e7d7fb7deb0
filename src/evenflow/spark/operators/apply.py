"""`apply`: a balanced ``groupBy(key).applyInArrow``, with large groups on different tasks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.grouped.apply_task import WholeGroups
from evenflow.spark.grouped.runs import Layout, check_rows
from evenflow.spark.grouped.schemas import Schema, as_arrow, check_exchangeable, parse
from evenflow.spark.monitoring.task_timing import with_timing
from evenflow.spark.operators.curried import curried
from evenflow.spark.operators.place import place
from evenflow.spark.routing.key_columns import Key, quoted
from evenflow.spark.routing.options import PlacementOptions
from evenflow.spark.routing.placed import Placed
from evenflow.spark.worker_python import check_worker_python


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
    """Apply a function to every group, like ``groupBy(key).applyInArrow`` or ``applyInPandas``.

    Groups are not split. Keys are counted first, and large groups are placed on different workers.

    Parameters
    ----------
    df : DataFrame
        Batch only. Without it, ``apply("user_id", ...)`` returns a function for ``df.transform``.
    key : str, Column or list of them
        The key: column names, or Columns.
    using : callable
        Takes the group, or the key as a tuple and the group, and returns a table of the same type. A
        function written for ``applyInPandas`` works unchanged with ``rows="pandas"``.
    schema : str or StructType
        Columns of the result of ``using``.
    workers : int, optional
        Number of partitions. Default: that of ``plan``, else ``spark.sql.shuffle.partitions``.
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
            "df is a stream, in which no group is ever complete; use aggregate, or apply in foreachBatch."
        )
    check_rows(rows, "rows")
    name, takes_key = signature_of(using)
    check_group_type(using, name, rows)
    declared = parse(schema, "schema")
    arrow = as_arrow(declared, "schema")
    check_exchangeable(df.schema, "df")
    check_worker_python(df.sparkSession)
    options = (
        PlacementOptions(  # planned, since online routers may temporarily choose different owners for a key
            workers, scheme, "planned", split=False, sample=sample, seed=seed, plan=plan, control=control
        )
    )
    placed = place(df, key, options)
    if on_placed is not None:
        on_placed(placed)
    frame, layout = rows_and_layout(placed)
    by_key = [F.col(quoted(column.frame_name)) for column in placed.keys]
    work = WholeGroups(layout, using, name, takes_key, rows, arrow)
    return number_columns(frame.sortWithinPartitions(*by_key)).mapInArrow(
        with_timing(work, control), declared
    )


def rows_and_layout(placed: Placed) -> tuple[DataFrame, Layout]:
    """Return the rows on their workers, without the worker column, and their layout."""
    helpers = [column.frame_name for column in placed.keys if column.is_helper]
    names = [*placed.columns, *helpers]
    check_exchangeable(placed.frame.select(*(quoted(name) for name in helpers)).schema, "key")
    layout = Layout(
        keys=tuple(names.index(column.frame_name) for column in placed.keys),
        key_names=tuple(column.name for column in placed.keys),
        rows=tuple(range(len(placed.columns))),
        row_names=tuple(placed.columns),
    )
    return placed.moved().drop(placed.worker), layout


def number_columns(frame: DataFrame) -> DataFrame:
    """Return the frame with numbered columns: mapInArrow fails on names with dots and on duplicates."""
    return frame.toDF(*(f"column_{index}" for index in range(len(frame.columns))))


def signature_of(using: Any) -> tuple[str, bool]:
    """Return the name of a function over groups, and whether it takes the key."""
    if not callable(using):
        raise EvenflowError(
            f"using is {using!r}; pass a function that takes a group, or the key and the group."
        )
    name = getattr(using, "__name__", None) or type(using).__name__
    required = _required_parameters(inspect.signature(using))
    if len(required) not in (1, 2):
        raise EvenflowError(
            f"{name} takes {len(required)} arguments; it must take the group, or the key and the group."
        )
    return name, len(required) == 2


def _required_parameters(signature: inspect.Signature) -> list[inspect.Parameter]:
    return [
        parameter
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def check_group_type(using: Callable[..., Any], name: str, rows: str) -> None:
    """Refuse a function whose annotation of the group, or else of the result, contradicts ``rows``."""
    try:
        signature = inspect.signature(using, eval_str=True)
    except Exception:  # a name that exists only for type checkers; the annotation stays text
        signature = inspect.signature(using)
    group = _required_parameters(signature)[-1].annotation
    annotation = signature.return_annotation if group is inspect.Parameter.empty else group
    found = _ANNOTATED.match(_type_name(annotation))
    if found is None:
        return
    wanted = "pandas" if found["library"] in ("pandas", "pd") else "arrow"
    if wanted != rows:
        given = "pyarrow Tables" if rows == "arrow" else "pandas DataFrames"
        raise EvenflowError(
            f'{name} is annotated with {found[0]}, but with rows="{rows}" groups are {given}; pass '
            f'rows="{wanted}".'
        )


_ANNOTATED = re.compile(r"(?P<library>pandas|pd|pyarrow|pa)\.(?:\w+\.)*\w+")


def _type_name(annotation: Any) -> str:
    if isinstance(annotation, type):
        return f"{annotation.__module__.partition('.')[0]}.{annotation.__qualname__}"
    return annotation if isinstance(annotation, str) else ""


__test__ = {"apply": apply.__doc__}  # doctest does not see through the decorator
