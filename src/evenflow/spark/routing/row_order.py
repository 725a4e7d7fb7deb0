"""Whether the order of a frame's rows is fixed, so that a row's position may decide its worker.

A plain scan of files, of a local table or of a stream's offsets repeats its rows in the same order when
retried; shuffles, joins, aggregates and databases do not. Unknown operators count as unordered.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.spark.routing.key_columns import helper_name, quoted
from evenflow.spark.routing.row_content import row_content

_ANALYZED = re.compile(r"== Analyzed Logical Plan ==\n[^\n]*\n(.*?)\n\n== ", re.DOTALL)  # columns come first
_OPERATOR = re.compile(r"^[\s:+\-~*]*('?\w+)")
_KEEPS_ORDER = frozenset(
    (
        *("Project", "Filter", "SubqueryAlias", "View", "Union", "Generate", "ResolvedHint"),
        *("EventTimeWatermark", "CollectMetrics"),
        # leaves
        *("Relation", "LocalRelation", "Range", "OneRowRelation"),
        *("StreamingRelation", "StreamingRelationV2"),
    )
)


def has_fixed_order(df: DataFrame) -> bool:
    """Return whether ``df`` always yields its rows in the same order; False if unknown."""
    return operators_keep_order(_analyzed(df))


def _analyzed(df: DataFrame) -> str:
    """Return the analyzed plan of a frame, with a line for each operator; empty if Spark does not say."""
    java: Any = getattr(df, "_jdf", None)
    if java is not None:
        return str(java.queryExecution().analyzed().treeString())
    try:  # Spark Connect shows it only beside the plans that follow from it
        text = df.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=df).collect()[0][0]
    except PySparkException:
        return ""
    found = _ANALYZED.search(text)
    return found.group(1) if found else ""


def operators_keep_order(analyzed: str) -> bool:
    """Return whether every operator of an analyzed plan preserves the order of its scan.

    >>> plan = "{} [k#1]\\n+- Range (0, 9)"
    >>> operators_keep_order(plan.format("Project")), operators_keep_order(plan.format("Aggregate"))
    (True, False)
    """
    lines = analyzed.splitlines()
    if any("JDBCRelation" in line for line in lines):
        return False
    named = [_OPERATOR.match(line) for line in lines if line.strip()]
    return bool(named) and all(name is not None and name.group(1) in _KEEPS_ORDER for name in named)


def sorted_by_content(df: DataFrame, seed: int) -> DataFrame:
    """Return ``df`` with each partition sorted by content, so that only identical rows tie.

    The first sort key is a hash; the others are compared only when hashes collide.
    """
    content = row_content(df)
    hashed = helper_name(content.frame, "content")  # a column, or every comparison would hash again
    rows = content.frame.select("*", content.hash(seed).alias(hashed))
    ordered = rows.sortWithinPartitions(F.col(quoted(hashed)), *content.ordering())
    return ordered.drop(hashed, *content.added)
