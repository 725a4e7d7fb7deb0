"""Drop the records that a replayed micro-batch wrote twice."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.spark.kafka.sink import HEADERS
from evenflow.spark.operators.curried import curried


@curried
def deduplicated(df: DataFrame, within: str = "1 hour") -> DataFrame:
    """Return the records of a topic that evenflow wrote, each once.

    A reader of committed records needs this only if the topic was written at least once: by Spark's own
    writer with the headers of `KafkaSink`, or after the marks of a query expired (a week without a batch, by
    default of the broker).

    Parameters
    ----------
    df : DataFrame
        Records of Spark's Kafka source, read with ``includeHeaders`` "true".
    within : str
        How much later a duplicate may come, by the records' timestamps; on a stream this bounds the state.

    Returns
    -------
    DataFrame
        The same columns. Records without evenflow's headers are passed on as they are.
    """
    for column in ("headers", "timestamp", "topic", "partition", "offset"):
        if column not in df.columns:
            raise EvenflowError(
                f"df has no column {column!r}; pass the frame of Spark's Kafka source itself, read with "
                '.option("includeHeaders", "true").'
            )
    names = [f"_evenflow_{number}" for number in range(len(HEADERS))]
    value = "cast(element_at(filter(headers, header -> header.key = '{}'), 1).value as string)"
    own = F.concat_ws("-", "topic", "partition", "offset")  # tells records without headers apart
    keyed = df.withColumns(
        {
            name: F.coalesce(F.expr(value.format(header)), own)
            for name, header in zip(names, HEADERS, strict=True)
        }
    )
    if not df.isStreaming:
        return keyed.dropDuplicates(names).drop(*names)
    return keyed.withWatermark("timestamp", within).dropDuplicatesWithinWatermark(names).drop(*names)
