"""The interface of an app: parameters, input rows, an Aggregator, and the results to show.

An app is one file with a frozen dataclass of parameters, decorated with ``@register``. Its rows are placed on
balanced workers, reduced there and merged by key (`evenflow.spark.aggregate`). The results of each
micro-batch are folded into a **view**: plain data that is displayed, stored next to the checkpoint, and
printed by ``--json``. PySpark is imported inside methods only, so that apps can be listed without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from evenflow.errors import EvenflowError
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from evenflow.report.tables import Table
    from evenflow.spark.grouped.aggregator import Aggregator

AnyApp = TypeVar("AnyApp", bound="App")
View = dict[str, Any]

_ROTATION = 7  # seed
VIEW_FILE = "view.json"
_APPS: dict[str, type[App]] = {}


@dataclass(frozen=True)
class AppSetup:
    """Settings of an app's run: key columns, workers, and the folder of its view.

    ``exam`` is the result of `App.exam`: rows held out for evaluation. ``plan`` is for the first micro-batch
    of a stream, which has none before it to learn from.
    """

    key: list[str]
    workers: int
    scheme: Scheme
    mode: str
    folder: Path
    top: int = 10
    exam: Any = None
    at_once: bool = False  # passes over all rows instead of micro-batches
    plan: Plan | None = None

    @property
    def control(self) -> str:
        """The control directory of the app's operator."""
        return str(self.folder / "control")


class App(ABC):
    """An application. Subclasses are frozen dataclasses with the parameters as fields."""

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]  # default source
    keys: ClassVar[tuple[str, ...]] = ("key",)  # default key columns; () if the app makes its own keys
    schema: ClassVar[str]  # of the aggregator's results
    writes_rows: ClassVar[bool] = True  # the sink gets the changed keys; False: the answer

    @abstractmethod
    def aggregator(self) -> Aggregator:
        """Return the aggregator for the rows of a key."""

    @abstractmethod
    def rows(self, frame: DataFrame, setup: AppSetup) -> tuple[DataFrame, Sequence[str | Column]]:
        """Return the rows to aggregate and the columns to group them by."""

    def results(self, frame: DataFrame, setup: AppSetup) -> DataFrame:
        """Return one row per key with its results, in batch or streaming."""
        from evenflow.spark.operators.aggregate import aggregate

        rows, by = self.rows(frame, setup)
        return aggregate(
            rows, by, self.aggregator(), self.schema, setup.workers, setup.scheme, setup.mode,
            output_mode="update" if frame.isStreaming else None, control=setup.control, plan=setup.plan,
        )  # fmt: skip

    def exam(self, table: DataFrame | None, key: list[str]) -> Any:
        """Return the data to evaluate the app on; ``table`` has all rows, None for unbounded sources."""
        return None

    @abstractmethod
    def fold(self, view: View, changed: DataFrame, setup: AppSetup) -> View:
        """Return the view after a micro-batch; ``changed`` has the current results of keys with new rows."""

    def needs_another_pass(self, view: View) -> bool:
        """Return whether a batch job should read all rows again."""
        return False

    @abstractmethod
    def tables(self, view: View, top: int) -> list[Table]:
        """Return the results as tables."""

    def answer(self, view: View) -> View:
        """Return the results for JSON."""
        return view


def register(kind: type[AnyApp]) -> type[AnyApp]:
    """Register an app by its name (a class decorator)."""
    known = _APPS.get(kind.name)
    if known is not None and known.__qualname__ != kind.__qualname__:
        raise EvenflowError(f"app {kind.name!r} is already registered; choose another name.")
    _APPS[kind.name] = kind
    return kind


def apps() -> dict[str, type[App]]:
    """Return every app by name."""
    return dict(sorted(_APPS.items()))


def column(frame: DataFrame, app: App, parameter: str) -> Column:
    """Return the column given by an app's parameter."""
    from pyspark.sql import functions as F

    from evenflow.spark.routing.key_columns import quoted

    name = getattr(app, parameter)
    if name not in frame.columns:
        raise EvenflowError(
            f"{app.name} needs a column for {parameter}, but there is no {name!r}; name it, as in "
            f"--app {app.name}:{parameter}={frame.columns[-1]} (the columns are {', '.join(frame.columns)})."
        )
    return F.col(quoted(name))


def rotated(frame: DataFrame, array: Column) -> DataFrame:
    """Return ``frame`` with an array column ``rotated``, which starts at an element drawn for each row.

    Rows that are exploded into equally many elements would otherwise reach a round robin in step: with as
    many features as workers, or a multiple of it, every feature would be sent to one worker only. The draw
    depends on the row's position, as round robin does, and decides nothing but the order.
    """
    from pyspark.sql import functions as F

    size = F.greatest(F.size(array), F.lit(1))
    start = F.floor(F.col("draw") * size).cast("int")
    turned = F.concat(F.slice(array, start + 1, size), F.slice(array, F.lit(1), start))
    return frame.withColumn("draw", F.rand(_ROTATION)).withColumn("rotated", turned).drop("draw")


def key_column(frame: DataFrame, name: str) -> Column:
    """Return a key column, which may be a nested field."""
    from pyspark.sql import functions as F

    from evenflow.spark.routing.key_columns import quoted

    return F.col(quoted(name) if name in frame.columns else name)


def key_text(row: Any, setup: AppSetup) -> str:
    """Return the key of a result as text."""
    return ", ".join(str(row[name]) for name in setup.key)
