"""`read_state`: the state of a `stateful` query as a DataFrame, now or as of a batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from evenflow.errors import EvenflowError
from evenflow.spark.monitoring.control_dir import local_path
from evenflow.spark.routing.key_columns import quoted
from evenflow.spark.state.files import DamagedFile, read_footer
from evenflow.spark.state.schema import BATCH, HASH, OURS, REMOVED
from evenflow.spark.state.table import described, history, live_files


def read_state(spark: SparkSession, path: str | Path, batch: int | None = None) -> DataFrame:
    """Return the state of a `stateful` query as a DataFrame, one row per key.

    Parameters
    ----------
    spark : SparkSession
        The session to read with.
    path : str or Path
        The path that ``stateful`` was given as ``state``.
    batch : int, optional
        Read the state as of this micro-batch; default: the last committed one.

    Returns
    -------
    DataFrame
        The key's columns, then the state's. It does not change while the query goes on, as long as its batch
        is kept (see ``keep`` of `stateful`).
    """
    root = local_path(path)
    if not DeltaTable.is_deltatable(str(root)):
        raise EvenflowError(f"there is no state at {root}; check the path, or start the query first.")
    version, keys = _version(root, batch)
    table = DeltaTable(str(root)) if version is None else DeltaTable(str(root), version=version)
    schema = spark_schema(pa.schema(table.schema().to_arrow()))
    shown = [field.name for field in schema.fields if field.name not in OURS.names]
    files = live_files(table)
    if not files:
        return spark.createDataFrame([], schema).select(*map(quoted, shown))
    runs = set()
    for name, size in files.items():
        try:
            footer = read_footer(root, name, size)
        except DamagedFile as error:
            raise EvenflowError(
                f"the state file {root / name} is damaged or missing ({error.why}); read an earlier batch, "
                "or restore the file from a copy."
            ) from error
        runs.add((footer.first, footer.last))
    rows = spark.read.schema(schema).parquet(*(str(root / name) for name in files))
    if len(runs) > 1:
        every = [F.col(quoted(name)) for name in shown if name not in keys]
        newest = F.max_by(F.struct(F.col(REMOVED), *every), F.col(BATCH)).alias(REMOVED)
        rows = rows.groupBy(HASH, *map(quoted, keys)).agg(newest).select(*map(quoted, keys), f"{REMOVED}.*")
    return rows.where(~F.col(REMOVED)).select(*map(quoted, shown))


def spark_schema(schema: pa.Schema) -> T.StructType:
    """Return the Spark types of a state table."""
    return from_arrow_schema(schema)


def _version(root: Path, batch: int | None) -> tuple[int | None, list[str]]:
    """Return the version of the table after a batch, and the key's columns."""
    try:
        keys: list[str] = described(DeltaTable(str(root)), root)["keys"]
    except DeltaError as error:
        raise EvenflowError(f"the state at {root} cannot be read ({error}).") from error
    if batch is None:
        return None, keys
    kept = []
    for version, committed in history(root):
        if committed.batch == batch and _is_whole(root, version):
            return version, keys
        kept.append(committed.batch)
    known = f"{min(kept)} to {max(kept)} are" if kept else "no batch is"
    raise EvenflowError(
        f"batch is {batch}, and the state at {root} does not have it whole any more; {known} known."
    )


def _is_whole(root: Path, version: int) -> bool:
    try:
        files = live_files(DeltaTable(str(root), version=version))
        return all((root / name).stat().st_size == size for name, size in files.items())
    except (DeltaError, OSError):
        return False
