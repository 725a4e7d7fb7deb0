"""The rows of a figure as a DataFrame: what claims select from and figures are drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

SUBJECTS = ("symbol", "label", "approach", "algorithm", "scheme")  # columns that name what is compared

_DataFrame: Any = pd.DataFrame  # untyped: pandas' types know nothing of the columns


class Table(_DataFrame):  # type: ignore[misc]
    """Rows with the selections that claims need; a selection that finds nothing raises ``KeyError``."""

    @property
    def _constructor(self) -> type[Table]:
        return Table

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Table:
        """Make a table of rows; where a row lacks a column, its value is missing."""
        return cls(pd.DataFrame(list(rows)))

    @property
    def subject(self) -> str:
        """The column that names what is compared: schemes, labelled variants, approaches or algorithms."""
        return next(name for name in SUBJECTS if name in self.columns)

    def only(self, query: str = "", **where: Any) -> Table:
        """Select rows by a pandas query and by the values of columns; a tuple means any of its values.

        >>> Table.of_rows([{"z": 1.0, "n": 5}, {"z": 2.0, "n": 6}]).only(z=2.0)["n"].tolist()
        [6]
        """
        chosen: Any = self.query(query) if query else self
        for name, value in where.items():
            values = value if isinstance(value, tuple | list) else [value]
            chosen = chosen[np.logical_or.reduce([_equal(chosen[name], wanted) for wanted in values])]
        if chosen.empty:
            raise KeyError(f"rows with {query} {where}".strip())
        return Table(chosen)

    def value(self, column: str, query: str = "", **where: Any) -> Any:
        """Return the value of a column in the first row selected."""
        return self.only(query, **where)[column].iloc[0]

    def average(self, column: str, query: str = "", **where: Any) -> float:
        """Return the mean of a column over the rows selected, such as the runs of one configuration."""
        return float(self.only(query, **where)[column].mean())

    def curve(self, column: str, x: str, query: str = "", **where: Any) -> dict[Any, float]:
        """Return the mean of a column for each value of ``x``, in rising order."""
        return {at: float(mean) for at, mean in self.only(query, **where).groupby(x)[column].mean().items()}

    def wide(self, column: str, *by: str, query: str = "", subject: str = "", **where: Any) -> Table:
        """Return one row per combination of ``by`` and one column per subject, with means over all else.

        >>> rows = [{"scheme": s, "z": z, "load": z * len(s)} for z in (1, 2) for s in ("key", "fill")]
        >>> Table.of_rows(rows).wide("load", "z")["fill"].tolist()
        [4.0, 8.0]
        """
        own: Any = self.only(query, **where).assign(_all=0)
        found = own.pivot_table(column, list(by) or ["_all"], subject or self.subject, sort=False)
        return Table(found.rename_axis(columns=None))


def _equal(column: Any, wanted: Any) -> Any:
    if isinstance(wanted, float) and column.dtype.kind in "if":
        return np.isclose(column, wanted, rtol=1e-9, atol=0)
    return column == wanted
