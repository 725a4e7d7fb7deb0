"""`read_state`: the state of a `stateful` query as a DataFrame, now or as of a batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from evenflow.errors import EvenflowError
from evenflow.spark.grouped.schemas import as_arrow
from evenflow.spark.routing.key_columns import quoted
from evenflow.spark.state.files import DamagedFile, read_footer
from evenflow.spark.state.schema import BATCH, HASH, METADATA_SCHEMA, REMOVED
from evenflow.spark.state.staged_outputs import ReadFiles
from evenflow.spark.state.table import StateTable, history, live_files, open_table, read_description
from evenflow.storage import Storage, locate, open_storage


def read_state(spark: SparkSession, path: str | Path, batch: int | None = None) -> DataFrame:
    """Return the state of a `stateful` query as a DataFrame, one row per key.

    Parameters
    ----------
    spark : SparkSession
        The session to read with.
    path : str or Path
        The path passed to ``stateful`` as ``state``.
    batch : int, optional
        The micro-batch to read the state as of. Default: the last committed one.

    Returns
    -------
    DataFrame
        The key's columns, then the state's. A snapshot: it does not change while the query runs, and is
        readable as long as its batch is kept (see ``keep`` of `stateful`).
    """
    root = locate(path, "path")
    storage = open_storage(root)
    if not StateTable.exists(storage):
        raise EvenflowError(f"there is no state at {root}; check the path, or start the query first.")
    version, keys = _version(storage, batch)
    table = open_table(storage, version)
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()))
    shown = [field.name for field in schema.fields if field.name not in METADATA_SCHEMA.names]
    files = live_files(table)
    if not files:
        return spark.createDataFrame([], schema).select(*map(quoted, shown))
    runs = set()
    for name, size in files.items():
        try:
            footer = read_footer(storage, name, size)
        except DamagedFile as error:
            raise EvenflowError(
                f"the state file {root / name} is damaged or missing ({error.reason}); read an earlier "
                "batch, or restore the file from a backup."
            ) from error
        runs.add((footer.first, footer.last))
    work = ReadFiles(root, tuple(files.items()), as_arrow(schema, "state"))
    rows = spark.range(0, len(files), 1, len(files)).mapInArrow(work, schema)
    if len(runs) > 1:
        values = [F.col(quoted(name)) for name in shown if name not in keys]
        newest = F.max_by(F.struct(F.col(REMOVED), *values), F.col(BATCH)).alias(REMOVED)
        rows = rows.groupBy(HASH, *map(quoted, keys)).agg(newest).select(*map(quoted, keys), f"{REMOVED}.*")
    return rows.where(~F.col(REMOVED)).select(*map(quoted, shown))


def _version(storage: Storage, batch: int | None) -> tuple[int | None, list[str]]:
    """Return the table version of a batch, None for the newest, and the key's columns."""
    root = storage.location
    keys: list[str] = read_description(open_table(storage), root)["keys"]
    if batch is None:
        return None, keys
    kept = []
    for version, committed in history(storage):
        if committed.batch == batch and _is_complete(storage, version):
            return version, keys
        kept.append(committed.batch)
    choice = f"choose one of {min(kept)} to {max(kept)}" if kept else "no batch is kept"
    raise EvenflowError(f"batch is {batch}, which the state at {root} does not have in full; {choice}.")


def _is_complete(storage: Storage, version: int) -> bool:
    try:
        files = live_files(open_table(storage, version))
        return all(storage.size(name) == size for name, size in files.items())
    except (EvenflowError, FileNotFoundError):
        return False
