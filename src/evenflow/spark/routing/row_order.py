"""Whether the order of a frame's rows is fixed, so that a row's position may decide its worker.

A plain scan of files, of a local table or of a stream's offsets repeats its rows in the same order when
retried; shuffles, joins, aggregates and databases do not. Unknown operators count as unordered.
"""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.spark.routing.key_columns import helper_name, quoted
from evenflow.spark.routing.row_content import row_content

_ANALYZED = re.compile(r"== Analyzed Logical Plan ==\n(.*?)\n\n== ", re.DOTALL)
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
    try:
        text = df.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=df).collect()[0][0]
    except PySparkException:
        return False
    return operators_keep_order(text)


def operators_keep_order(explained: str) -> bool:
    """Return whether every operator of an explained plan preserves the order of its scan.

    >>> text = "== Analyzed Logical Plan ==\\nk: int\\n{} [k#1]\\n+- Range (0, 9)\\n\\n== "
    >>> operators_keep_order(text.format("Project")), operators_keep_order(text.format("Aggregate"))
    (True, False)
    """
    found = _ANALYZED.search(explained)
    if found is None:
        return False
    lines = found.group(1).splitlines()[1:]  # the first names the columns
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
