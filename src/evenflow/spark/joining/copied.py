"""Rows that are copied although the join wants them whether or not they match.

A copy without a match may have one in another cell, so copies are not results by themselves: the join leaves
them out, and the rows that no cell has matched are added once. Only the rows of keys that are copied are
looked at, which are few: other rows of the side go through the join as they are.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from evenflow.spark.joining.side import SideNames
from evenflow.spark.routing.key_columns import quoted


def is_copied(names: SideNames) -> Column:
    """Return whether a row has copies, false if the side has no row."""
    return F.coalesce(F.col(quoted(names.copies)) > 1, F.lit(False))


def unmatched_once(unmatched: DataFrame, names: SideNames) -> DataFrame:
    """Return the rows all of whose copies are in ``unmatched``, once."""
    copies = F.size(F.collect_set(quoted(names.copy)).over(_of_row(names)))
    everywhere = "__evenflow_everywhere"
    rows = unmatched.select("*", (copies == F.col(quoted(names.copies))).alias(everywhere))
    return rows.where(F.col(everywhere) & (F.col(quoted(names.copy)) == 0)).drop(everywhere)


def matched_once(matched: DataFrame, names: SideNames) -> DataFrame:
    """Return the rows with a copy in ``matched``, once."""
    first = "__evenflow_first"
    rows = matched.select("*", F.min(quoted(names.copy)).over(_of_row(names)).alias(first))
    return rows.where(F.col(first) == F.col(quoted(names.copy))).drop(first)


def _of_row(names: SideNames) -> WindowSpec:
    return Window.partitionBy(quoted(names.identity))
