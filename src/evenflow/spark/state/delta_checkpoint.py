"""Delta checkpoints of the state's log, written from what the driver knows, without reading the log again.

A checkpoint is a Parquet file with the actions of a whole version. Two requests write it; a library that does
not know the version would read every entry since the last one first.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from evenflow.storage import Storage

LOG = "_delta_log"
_OPTIONS = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(), "partitionValues": _OPTIONS, "size": pa.int64(),
                "modificationTime": pa.int64(), "dataChange": pa.bool_(),
            }
        ),
        "remove": pa.struct(
            {"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()}
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(), "name": pa.string(), "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _OPTIONS}),
                "schemaString": pa.string(), "partitionColumns": pa.list_(pa.string()),
                "createdTime": pa.int64(), "configuration": _OPTIONS,
            }
        ),
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
    }
)  # fmt: skip


def declaration(table: DeltaTable) -> dict[str, Any] | None:
    """Return protocol and metadata of a table as actions; None if it has features unknown here."""
    protocol, found = table.protocol(), table.metadata()
    if protocol.reader_features or protocol.writer_features:
        return None
    return {
        "protocol": {
            "minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version,
        },
        "metaData": {
            "id": str(found.id), "name": found.name, "description": found.description,
            "format": {"provider": "parquet", "options": []}, "schemaString": table.schema().to_json(),
            "partitionColumns": [], "createdTime": found.created_time,
            "configuration": list(found.configuration.items()),
        },
    }  # fmt: skip


def write_checkpoint(
    storage: Storage,
    version: int,
    declared: Mapping[str, Any],
    transaction: Mapping[str, Any] | None,
    live: Mapping[str, int],
    removed: Mapping[str, float],
    now: int,
) -> str:
    """Write down a version of known files; return the name of the checkpoint."""
    rows: list[dict[str, Any]] = [{name: action} for name, action in declared.items()]
    if transaction is not None:
        rows.append({"txn": dict(transaction)})
    for name, size in live.items():
        add = {
            "path": name, "partitionValues": [], "size": size, "modificationTime": now, "dataChange": False,
        }  # fmt: skip
        rows.append({"add": add})
    for name, when in removed.items():
        if name not in live:
            gone = {"path": name, "deletionTimestamp": int(when * 1000), "dataChange": False}
            rows.append({"remove": gone})
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), sink)
    name = f"{LOG}/{version:020}.checkpoint.parquet"
    storage.put(name, sink.getvalue())
    storage.put(f"{LOG}/_last_checkpoint", json.dumps({"version": version, "size": len(rows)}).encode())
    return name


def outdated(entries: Mapping[str, float], cut: float) -> list[str]:
    """Return the entries of a log that no version after a moment needs: those before its last checkpoint.

    >>> entry = "_delta_log/{:020}{}".format
    >>> log = {entry(n, ".json"): float(n) for n in range(6)} | {entry(3, ".checkpoint.parquet"): 3.5}
    >>> len(outdated(log, 3.0)), [name[-7:] for name in outdated(log, 4.0)]
    (0, ['00.json', '01.json', '02.json'])
    """
    first = last_checkpoint(name for name, when in entries.items() if when < cut)
    return [name for name in entries if _version(name) < first]


def last_checkpoint(entries: Iterable[str]) -> int:
    """Return the version of the last checkpoint among the entries of a log; 0 if there is none."""
    return max((_version(name) for name in entries if ".checkpoint." in name), default=0)


def _version(name: str) -> int:
    stem = name.rpartition("/")[2].partition(".")[0]
    return int(stem) if stem.isdigit() else 1 << 62
