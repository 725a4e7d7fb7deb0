"""What an application is: parameters, what it makes of rows, the Aggregator that works, what a person sees.

An app is one file with one frozen dataclass of parameters, marked with ``@register``. Its rows are placed on
balanced workers, reduced there and merged by key (`evenflow.spark.aggregate`). What came out of a micro-batch
is folded into a **view**: plain data that is shown, kept in a file beside the checkpoint, and printed by
``--json``. PySpark is imported inside methods only, so that the list of apps loads without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from evenflow.errors import EvenflowError
from evenflow.schemes.base import Scheme

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from evenflow.report.tables import Table
    from evenflow.spark.grouped.aggregator import Aggregator

AnyApp = TypeVar("AnyApp", bound="App")
View = dict[str, Any]

VIEW_FILE = "view.json"
_APPS: dict[str, type[App]] = {}


@dataclass(frozen=True)
class AppSetup:
    """Where an app runs: the key's columns, the workers, and the folder in which its view is kept.

    ``exam`` is what `App.exam` returned: rows that are not learned from.
    """

    key: list[str]
    workers: int
    scheme: Scheme
    mode: str
    folder: Path
    top: int = 10
    exam: Any = None
    at_once: bool = False  # all rows are read, perhaps again, not in micro-batches

    @property
    def control(self) -> str:
        """The control directory of the app's operator."""
        return str(self.folder / "control")


class App(ABC):
    """An application. Subclasses are frozen dataclasses: their fields are its parameters."""

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]  # what it runs on if nobody says
    keys: ClassVar[tuple[str, ...]] = ("key",)  # columns that are the key if nobody says; (): makes its own
    schema: ClassVar[str]  # of what the aggregator finishes
    writes_rows: ClassVar[bool] = True  # a sink gets the keys that changed; False: the answer

    @abstractmethod
    def aggregator(self) -> Aggregator:
        """Return who works on the rows of a key."""

    @abstractmethod
    def rows(self, frame: DataFrame, setup: AppSetup) -> tuple[DataFrame, Sequence[str | Column]]:
        """Return the rows to work on, and the columns that they are grouped by."""

    def results(self, frame: DataFrame, setup: AppSetup) -> DataFrame:
        """Return one row per key with what is known of it, in batch or streaming."""
        from evenflow.spark.operators.aggregate import aggregate

        rows, by = self.rows(frame, setup)
        return aggregate(
            rows, by, self.aggregator(), self.schema, setup.workers, setup.scheme, setup.mode,
            output_mode="update" if frame.isStreaming else None, control=setup.control,
        )  # fmt: skip

    def exam(self, table: DataFrame | None, key: list[str]) -> Any:
        """Return what the app is tested with; ``table``: all rows there are now, None if they never end."""
        return None

    @abstractmethod
    def fold(self, view: View, changed: DataFrame, setup: AppSetup) -> View:
        """Return the view after a micro-batch; ``changed`` has the keys that got rows, as of now."""

    def goes_on(self, view: View) -> bool:
        """Say whether a job that reads all rows at once should read them once more."""
        return False

    @abstractmethod
    def tables(self, view: View, top: int) -> list[Table]:
        """Return what a person wants to see."""

    def answer(self, view: View) -> View:
        """Return what a program wants to read."""
        return view


def register(kind: type[AnyApp]) -> type[AnyApp]:
    """Make an app known by its name (a class decorator)."""
    known = _APPS.get(kind.name)
    if known is not None and known.__qualname__ != kind.__qualname__:
        raise EvenflowError(f"an app named {kind.name!r} is known already; choose another name.")
    _APPS[kind.name] = kind
    return kind


def known_apps() -> dict[str, type[App]]:
    """Return every app by name."""
    return dict(sorted(_APPS.items()))


def column(frame: DataFrame, app: App, parameter: str) -> Column:
    """Return the column that an app's parameter names, or say how to name another."""
    from pyspark.sql import functions as F

    from evenflow.spark.routing.key_columns import quoted

    name = getattr(app, parameter)
    if name not in frame.columns:
        raise EvenflowError(
            f"{app.name} needs a column for {parameter}, and there is no {name!r}; say which it is, as in "
            f"--app {app.name}:{parameter}={frame.columns[-1]} (there are {', '.join(frame.columns)})."
        )
    return F.col(quoted(name))


def key_column(frame: DataFrame, name: str) -> Column:
    """Return a column of the key, which may be a field inside another."""
    from pyspark.sql import functions as F

    from evenflow.spark.routing.key_columns import quoted

    return F.col(quoted(name) if name in frame.columns else name)


def key_text(row: Any, setup: AppSetup) -> str:
    """Return the key of a result for people."""
    return ", ".join(str(row[name]) for name in setup.key)
