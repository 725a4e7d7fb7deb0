"""A frame with the worker of every row: the result of placement that operators build on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.routing.key_columns import KeyColumn, key_hash, quoted
from evenflow.spark.versions.placement import on_workers

_NAMED = 10  # keys that explain shows by value
_LOOKED_AT = 10_000  # rows of these keys


@dataclass(frozen=True)
class Placed:
    """A frame with the worker of every row: the user's columns, the key's helper columns, ``worker``."""

    frame: DataFrame
    worker: str
    workers: int
    keys: list[KeyColumn]
    columns: list[str]  # the user's, in order
    mode: str
    scheme: Scheme
    plan: Plan | None = None
    reasons: list[str] = field(default_factory=list)
    control: str | None = None
    direct: tuple[DataFrame, Column] | None = None  # the user's frame and worker, if it needs no helpers
    stays: bool = False  # every row is where it should be; there is no column for the worker

    @property
    def hears(self) -> bool:
        """Whether routers of the next micro-batch use what the workers of this one measure."""
        return self.mode == "online" and self.scheme.needs_reports

    def rows(self) -> DataFrame:
        """Return the user's columns, with every row on the partition of its worker."""
        if self.direct is not None:  # without a column for the worker, the shuffle writes smaller rows
            df, worker = self.direct
            return on_workers(df, self.workers, worker)
        return self.moved().drop(*self.helpers())

    def moved(self) -> DataFrame:
        """Return the frame with every row on the partition of its worker, helper columns included."""
        if self.stays:
            return self.frame
        return on_workers(self.frame, self.workers, F.col(quoted(self.worker)))

    def helpers(self) -> list[str]:
        """Return the names of the columns that evenflow added."""
        return [*(key.frame_name for key in self.keys if key.is_helper), self.worker]

    def _repr_html_(self) -> str:
        """Show in a notebook what was chosen and why, and the plan; this starts no job."""
        from evenflow.charts import notebook

        title = f"{self.mode} {self.scheme} on {self.workers} workers"
        plan = "" if self.plan is None else self.plan._repr_html_()
        return notebook.card(title, *map(notebook.paragraph, self.reasons), plan)

    def explain(self) -> str:
        """Return a description of what was chosen and why, and of the plan.

        In batch, a small job looks up the values of the hottest keys.
        """
        lines = [f"{self.mode} {self.scheme} on {self.workers} workers", *self.reasons]
        if self.plan is not None:
            lines.append(self.plan.explain(labels=self._labels()))
        return "\n".join(lines)

    def _labels(self) -> dict[int, str]:
        """Return the values of the hottest keys by hash, from the first rows that have one of them."""
        if self.plan is None or not self.plan.keys.size or self.frame.isStreaming:
            return {}
        hashes = self.plan.keys[:_NAMED].view(np.int64).tolist()
        hashed = key_hash(self.keys)
        values = [
            F.coalesce(F.col(quoted(key.frame_name)).cast("string"), F.lit("null")) for key in self.keys
        ]
        rows = self.frame.where(f"{hashed} in ({', '.join(map(str, hashes))})").limit(_LOOKED_AT)
        named = rows.select(F.expr(hashed).alias("hash"), F.concat_ws(", ", *values).alias("key"))
        return {row["hash"] % 2**64: repr(row["key"]) for row in named.distinct().collect()}
