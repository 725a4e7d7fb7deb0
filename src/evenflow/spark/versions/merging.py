"""State per key on a stream: ``transformWithState``, and what does the same where Spark lacks it.

Spark 4.0 has only ``transformWithStateInPandas``. pandas has no integers beside nulls and no nested types of
its own, so the columns of a row pass it as one pickled value.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from evenflow.spark.versions import known
from evenflow.spark.versions.arrow import to_arrow_schema

_PICKLED = "pickled"


def with_state(
    rows: DataFrame,
    key: str,
    processor: StatefulProcessor,
    returns: T.StructType,
    mode: str,
    time: str | None,
) -> DataFrame:
    """Return what ``processor`` yields for the rows of each ``key``, a text; ``time`` has the watermark."""
    time_mode = "None" if time is None else "EventTime"
    if known.version_of(rows.sparkSession) >= known.HAS_TRANSFORM_WITH_STATE:
        return rows.groupBy(key).transformWithState(processor, returns, mode, time_mode)
    kept = [rows.schema[key], *([] if time is None else [rows.schema[time]])]
    bytes_ = T.StructField(_PICKLED, T.BinaryType())
    pickled = rows.mapInArrow(_Pickle(tuple(field.name for field in kept)), T.StructType([*kept, bytes_]))
    if time is not None:
        pickled = pickled.withMetadata(time, rows.schema[time].metadata)
    made = pickled.groupBy(key).transformWithStateInPandas(
        _OverPandas(processor), T.StructType([bytes_]), mode, time_mode
    )
    return made.mapInArrow(_Unpickle(to_arrow_schema(returns)), returns)


@dataclass(frozen=True)
class _Pickle:
    """Rows as the columns ``kept`` and all columns pickled."""

    kept: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = zip(
                *(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True
            )
            pickled = pa.array([pickle.dumps((batch.schema.names, row)) for row in values], pa.binary())
            columns = [*(batch.column(name) for name in self.kept), pickled]
            yield pa.RecordBatch.from_arrays(columns, names=[*self.kept, _PICKLED])


@dataclass(frozen=True)
class _Unpickle:
    """Rows from their pickled values."""

    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [pickle.loads(value) for value in batch.column(0).to_pylist()]
            columns = [
                pa.array([_pairs_of_maps(row[index], field.type) for row in rows], field.type)
                for index, field in enumerate(self.schema)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _pairs_of_maps(value: Any, kind: pa.DataType) -> Any:
    """Return a value with maps as pairs, as Arrow takes them."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [
            (_pairs_of_maps(key, kind.key_type), _pairs_of_maps(item, kind.item_type))
            for key, item in dict(value).items()
        ]
    if pa.types.is_list(kind):
        return [_pairs_of_maps(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        named = value.asDict() if isinstance(value, Row) else value
        return {field.name: _pairs_of_maps(named[field.name], field.type) for field in kind}
    return value


class _OverPandas(StatefulProcessor):
    """A processor of rows as one of frames of pickled rows."""

    def __init__(self, processor: StatefulProcessor):
        self.processor = processor

    def init(self, handle: Any) -> None:
        self.processor.init(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        unpickled = (Row(*names)(*row) for names, row in _unpickled(rows))
        yield from _frames(self.processor.handleInputRows(key, unpickled, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        yield from _frames(self.processor.handleExpiredTimer(key, timerValues, expiredTimerInfo))

    def close(self) -> None:
        self.processor.close()


def _unpickled(frames: Any) -> Iterator[Any]:
    for frame in frames:
        yield from map(pickle.loads, frame[_PICKLED])


def _frames(rows: Iterable[Any]) -> Iterator[Any]:
    import pandas as pd

    made = [pickle.dumps(tuple(row)) for row in rows]
    if made:
        yield pd.DataFrame({_PICKLED: made})
