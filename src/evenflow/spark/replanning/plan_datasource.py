"""The plan of a streaming query as a small data source, which Spark rereads for every micro-batch.

One row per hot key: its hash and the cells of its homes (:class:`evenflow.plan.table.PlanTable`). The query
broadcasts it, so the plan is frozen for the batch. Without a readable file there are no rows: every key goes
to the home of its bucket, and a fallback is logged. Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from evenflow.control.directory import PLANS, Control
from evenflow.storage import Location

FORMAT = "evenflow-plan"
SCHEMA = "hash bigint, below array<int>, cut array<double>, above array<int>, serial bigint"


def plan_file(operator: str) -> str:
    """Return the path of an operator's plan, relative to the control directory."""
    return f"{PLANS}/{operator}.plan"


class PlanSource(DataSource):
    """Reads the plan from the control directory given by the option ``control``."""

    storage_options: ClassVar[dict[str, str]] = {}  # Spark shows options of a read, but not of a class

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return format_with(cls.storage_options)

    def schema(self) -> str:
        """Return the schema."""
        return SCHEMA

    def reader(self, schema: Any) -> PlanReader:
        """Return the reader."""
        place = Location(self.options["control"], self.storage_options)
        return PlanReader(place, self.options["operator"], int(self.options["workers"]))


def format_with(storage_options: dict[str, str]) -> str:
    """Return the name of the format for a control directory with these storage options."""
    if not storage_options:
        return FORMAT
    identity = repr(sorted(storage_options.items())).encode()
    return f"{FORMAT}-{hashlib.blake2b(identity, digest_size=6).hexdigest()}"


def registered_format(spark: Any, place: Location) -> str:
    """Return the name of the format for a control directory, which is registered if it is not yet."""
    if place.options:
        source: type[PlanSource] = type("PlanSource", (PlanSource,), {"storage_options": place.options})
        source.__module__ = "__main__"  # so that the class is sent, and not its name
        spark.dataSource.register(source)
    return format_with(place.options)


class PlanReader(DataSourceReader):
    """Reads on an executor, once per micro-batch."""

    def __init__(self, folder: str, operator: str, workers: int):
        self.folder = folder
        self.operator = operator
        self.workers = workers

    def partitions(self) -> list[InputPartition]:
        """Return one partition."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition | None) -> Iterator[tuple[Any, ...]]:
        """Yield the hot keys; without a valid plan, log a fallback and yield none."""
        control = Control(self.folder)
        found, why = control.read_with_reason(plan_file(self.operator), "plan")
        header, arrays = found or ({}, {})
        if found is not None and header.get("workers") != self.workers:
            why = f"the plan is for {header.get('workers')} workers, not {self.workers}"
        if why:
            control.note("fallback", operator=self.operator, why=why)
            return
        serial, starts = int(header["serial"]), arrays["starts"].tolist()
        keys = arrays["keys"].view("int64").tolist()
        cells = [arrays[name].tolist() for name in ("below", "cut", "above")]
        for i, key in enumerate(keys):
            yield (key, *(values[starts[i] : starts[i + 1]] for values in cells), serial)
