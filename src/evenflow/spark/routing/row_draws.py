"""The draw of every row: by position if that is fixed, otherwise by content."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.spark.routing.draws import HOME, draw_by_content, draw_by_position
from evenflow.spark.routing.key_columns import KeyColumn, helper_name, quoted
from evenflow.spark.routing.row_content import row_content
from evenflow.spark.routing.row_order import has_fixed_order, sorted_by_content


def with_draw(
    keyed: DataFrame, df: DataFrame, keys: list[KeyColumn], order: str, seed: int, reasons: list[str]
) -> tuple[DataFrame, Column, list[str]]:
    """Return the frame, sorted if needed, the draw that picks one of a key's homes, and helper columns."""
    order = resolved_order(keys, df, order, reasons)
    if order == "content":
        content, hashed = row_content(keyed), helper_name(keyed, "content")
        hashed_rows = content.frame.select("*", content.hash(seed).alias(hashed)).drop(*content.added)
        return hashed_rows, F.expr(draw_by_content(quoted(hashed))), [hashed]
    if order == "sort":
        if df.isStreaming:
            raise EvenflowError("order is 'sort', but Spark does not sort streams; use 'content' or 'as-is'.")
        keyed = sorted_by_content(keyed, seed)
    return keyed, F.expr(draw_by_position(seed, HOME, df.isStreaming)), []


def resolved_order(keys: list[KeyColumn], df: DataFrame, order: str, reasons: list[str]) -> str:
    """Return how rows are drawn: as-is, by position; sort, by position once sorted; or content."""
    if order != "auto":
        return order
    if has_fixed_order(df):
        reasons.append("split keys are drawn by position: the input is a plain scan, whose order is fixed")
        return "as-is"
    if not df.isStreaming and all(name in {column.frame_name for column in keys} for name in df.columns):
        reasons.append("split keys are sorted, then drawn by position: the key is the whole row")
        return "sort"
    reasons.append(
        "split keys are drawn by content, since the order of rows is not fixed; identical rows stay "
        "together" + ("" if df.isStreaming else " (order='sort' would split them too)")
    )
    return "content"
