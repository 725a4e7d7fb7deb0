"""The inputs and outputs of an aggregate, and the column names between its steps."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as T

from evenflow.spark.grouped.aggregator import Aggregator
from evenflow.spark.grouped.record_columns import Records
from evenflow.spark.grouped.runs import Layout
from evenflow.spark.grouped.schemas import as_arrow
from evenflow.spark.routing.placed import Placed


@dataclass(frozen=True)
class AggregateLayout:
    """One aggregate: the placed rows, the aggregator and the schemas."""

    placed: Placed
    using: Aggregator
    keys: tuple[T.StructField, ...]  # named as in the result
    buffer: T.StructType
    schema: T.StructType

    @property
    def name(self) -> str:
        """The name of the aggregator's class."""
        return type(self.using).__name__

    @property
    def buffers(self) -> Records:
        """States as records."""
        argument = f"{self.name}.buffer"
        return Records(self.name, as_arrow(self.buffer, argument), "buffer")

    @property
    def results(self) -> Records:
        """Results as records."""
        return Records(f"{self.name}.finish", as_arrow(self.schema, "schema"), "schema")

    @property
    def inner_keys(self) -> list[str]:
        """Names of the key's columns between steps."""
        return [f"key_{index}" for index in range(len(self.keys))]

    @property
    def inner_states(self) -> list[str]:
        """Names of the state's columns between steps."""
        return [f"state_{index}" for index in range(len(self.buffer.fields))]

    @property
    def inner_layout(self) -> Layout:
        """The layout of states between steps."""
        width = len(self.keys)
        return Layout(
            keys=tuple(range(width)),
            key_names=tuple(field.name for field in self.keys),
            rows=tuple(range(width, width + len(self.buffer.fields))),
            row_names=tuple(self.inner_states),
        )

    @property
    def states(self) -> T.StructType:
        """The schema of states between steps."""
        names = [*self.inner_keys, *self.inner_states]
        fields = [*self.keys, *self.buffer.fields]
        return T.StructType(
            [T.StructField(name, field.dataType, True) for name, field in zip(names, fields, strict=True)]
        )

    @property
    def result(self) -> T.StructType:
        """The schema of results, with internal names."""
        keys = [
            T.StructField(name, field.dataType, field.nullable)
            for name, field in zip(self.inner_keys, self.keys, strict=True)
        ]
        values = [
            T.StructField(f"result_{index}", field.dataType, field.nullable)
            for index, field in enumerate(self.schema.fields)
        ]
        return T.StructType([*keys, *values])
