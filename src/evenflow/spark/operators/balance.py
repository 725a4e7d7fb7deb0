"""`balance`: rows by key, evenly over the partitions; a hot key is spread over several of them."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from evenflow.errors import EvenflowError
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.operators.curried import curried
from evenflow.spark.operators.place import place
from evenflow.spark.routing.key_columns import Key
from evenflow.spark.routing.options import PlacementOptions
from evenflow.spark.routing.placed import Placed


@curried
def balance(
    df: DataFrame,
    key: Key,
    workers: int | None = None,
    scheme: str | Scheme = "fill",
    mode: str = "auto",
    *,
    split: bool = True,
    sample: float | None = None,
    order: str = "auto",
    seed: int = 0,
    plan: Plan | None = None,
    sources: int | None = None,
    control: str | None = None,
    on_placed: Callable[[Placed], None] | None = None,
) -> DataFrame:
    """Distribute rows evenly over ``workers`` partitions; rows and schema are unchanged.

    A key is in one partition unless it is too hot for one: **a hot key is then in several partitions**.
    ``split=False`` keeps every key in one, as ``df.repartition(64, "user_id")`` does, and is the literal swap
    for it. A ``groupBy`` that follows would shuffle the rows again: use `apply` for whole groups and
    `aggregate` for work per key whose partial results can be merged.

    In batch, keys are counted when ``balance`` is called, in a job that Spark's UI describes as "evenflow:
    count the keys"; pass ``plan`` to skip it.

    Parameters
    ----------
    df : DataFrame
        Batch or stream. Without it, ``balance("user_id", workers=64)`` returns a function for
        ``df.transform``.
    key : str, Column or list of them
        The key: column names, or Columns.
    workers : int, optional
        Number of partitions. Default: that of ``plan``, else ``spark.sql.shuffle.partitions``.
    scheme : str or Scheme
        ``"fill"``, ``"d-choices"``, ``"explicit:algorithm=scan"``, ... ; ``evenflow schemes`` lists them.
    mode : {"auto", "planned", "online", "repartition"}
        "planned" counts the keys in an eager first pass, unless ``plan`` is given; "online" decides row by
        row as in the papers; "auto" is planned if the scheme supports it, else online. "repartition", with
        ``scheme="key"``, places rows as ``df.repartition(workers, key)`` does, to compare with.
    split : bool
        Whether a hot key may be on several partitions.
    sample : float, optional
        Fraction of the rows to count. Default: large enough for good balance.
    order : {"auto", "as-is", "sort", "content"}
        How rows of a split key are assigned to its partitions: by position after a sort in which only
        identical rows tie ("sort"), by content ("content"), or by position in input order ("as-is"). "as-is"
        is your promise that a retried task reads its rows in the same order. If the promise is broken while
        Spark's order-independent shuffle checksum is off, or before Spark 4.2, rows are silently lost and
        duplicated.
    seed : int
        Seed of hashes and draws.
    plan : Plan, optional
        An existing plan, such as ``placed.plan`` of an earlier run.
    sources : int, optional
        Number of input partitions, for online routers.
    control : str, optional
        Control directory of a stream, for plans, snapshots and the log: a path, or a URL such as
        ``s3://bucket/control``.
    on_placed : callable, optional
        Called with the `Placed`, which holds the plan and the reasons for each choice.

    Returns
    -------
    DataFrame
        The same rows, with those of worker w in partition w.

    Examples
    --------
    >>> from evenflow.spark import balance, loads
    >>> loads(df.repartition(4, "user_id"), "user_id", workers=4).max_over_mean > 2
    True
    >>> even = df.transform(balance("user_id", workers=4))
    >>> loads(even, "user_id", workers=4).max_over_mean < 1.1
    True
    >>> whole = balance(df, "user_id", workers=4, split=False)  # every user in one partition
    >>> loads(whole, "user_id", workers=4).memory
    1.0
    """
    options = PlacementOptions(
        workers, scheme, mode, split=split, sample=sample, order=order, seed=seed, plan=plan, sources=sources,
        control=control,
    )  # fmt: skip
    placed = place(df, key, options)
    _refuse_windows(placed)
    if on_placed is not None:
        on_placed(placed)
    return placed.rows()


def _refuse_windows(placed: Placed) -> None:
    for column in placed.keys:
        if column.is_window:
            raise EvenflowError(
                f"key contains {column.name!r}, a time window, for which Spark drops rows with a null time "
                "and duplicates rows in several windows; add it as a column first, or use aggregate."
            )


__test__ = {"balance": balance.__doc__}  # doctest does not see through the decorator
