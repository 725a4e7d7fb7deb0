"""The state as a Delta table, on the driver: opening, committing and sweeping.

There is one commit per micro-batch: the state files of all workers, an application transaction with the batch
number, and as metadata all that a restart needs (staged outputs, owners, watermark). Delta rejects a second
commit of the same application on an outdated handle, so of two concurrent drivers one fails. A later commit
without a batch (merged files) repeats the metadata, so the newest commit always has it.

Delta's vacuum neither removes files that were never committed nor spares files that are about to be; files
are therefore swept here, while no task of the query can be writing.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from evenflow.errors import EvenflowError, first_line
from evenflow.spark.state.files import FOLDER, DamagedFile, StateFile, read_footer
from evenflow.spark.state.schema import StateLayout
from evenflow.spark.state.staged_outputs import OUTPUTS

APPLICATION = "evenflow"
VERSION = 1
_LOG = "_delta_log"
_CHECKPOINT_EVERY = 20  # commits; bounds the number of log files read to open the table


@dataclass(frozen=True)
class Committed:
    """The metadata committed with a batch."""

    batch: int
    query: str | None  # Spark's id of the query, which survives restarts
    workers: int
    outputs: list[dict[str, Any]]  # names and sizes of staged outputs
    ownership: str  # for the next batch
    plan: str | None  # of this batch, if it differs from that of ``ownership``
    asked: Any = None  # the ``workers`` argument of ``stateful``
    rescaled: int = 0  # serial number of the last rescale request applied
    latest: int | None = None  # event time in microseconds
    watermark: int | None = None
    now: int | None = None  # processing time of the batch
    loads: dict[str, Any] = field(default_factory=dict)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    migration: dict[str, Any] | None = None
    shift: int = 0  # ``batch`` minus Spark's number; not 0 after a change of checkpoints
    offsets: str | None = None  # digest of the batch's offsets in Spark's checkpoint
    gap: dict[str, Any] | None = None  # the mismatch that ``accept_gap`` accepted before this batch
    identity: str = ""  # unique id of this batch's commit
    rewound: int | None = None  # the version that a rewind restored
    rebalanced: int = 0  # serial number of the last request to balance at once

    @property
    def spark_batch(self) -> int:
        """Spark's number for the batch."""
        return self.batch - self.shift

    def to_json(self) -> str:
        """Return the metadata as JSON; owners and plan are compressed, since every commit includes them."""
        return json.dumps({**asdict(self), "ownership": _pack(self.ownership), "plan": _pack(self.plan)})

    @staticmethod
    def from_json(text: str) -> Committed:
        """Return metadata from the result of ``to_json``."""
        saved = json.loads(text)
        owners = {name: _unpack(saved[name]) for name in ("ownership", "plan")}
        return Committed(**{**saved, **owners})


def _pack(text: str | None) -> str | None:
    return None if text is None else base64.b85encode(zlib.compress(text.encode(), 6)).decode()


def _unpack(text: str | None) -> str | None:
    return None if text is None else zlib.decompress(base64.b85decode(text)).decode()


class StateTable:
    """The open table of one state path."""

    def __init__(self, root: Path, layout: StateLayout, keep: float = 3600.0):
        self.root = root
        self.layout = layout
        self.keep = keep
        self.table = self._open()
        self.footers: dict[str, StateFile] = {}
        self.committed: Committed | None = None
        self._read_version = -1
        self.refresh()

    @staticmethod
    def exists(root: Path) -> bool:
        """Return whether there is a state at a path."""
        return bool(DeltaTable.is_deltatable(str(root)))

    def _open(self) -> DeltaTable:
        if not self.exists(self.root):
            interval = f"interval {max(1, round(self.keep))} seconds"
            self.root.mkdir(parents=True, exist_ok=True)
            created = {"evenflow": VERSION, "keys": self.layout.key_names}
            with contextlib.suppress(DeltaError):  # another process may have just created it
                DeltaTable.create(
                    str(self.root),
                    self.layout.schema,
                    description=json.dumps(created),
                    configuration={
                        "delta.logRetentionDuration": interval,
                        "delta.deletedFileRetentionDuration": interval,
                        "delta.checkpointInterval": str(_CHECKPOINT_EVERY),
                    },
                )
        table = open_table(self.root)
        description = read_description(table, self.root)
        stored = pa.schema(table.schema().to_arrow())
        differing = [
            name
            for name in [*stored.names, *(n for n in self.layout.schema.names if n not in stored.names)]
            if name not in self.layout.schema.names
            or name not in stored.names
            or not _equal_types(stored.field(name).type, self.layout.schema.field(name).type)
        ]
        if description["keys"] != self.layout.key_names or differing:
            raise EvenflowError(
                f"the state at {self.root} has the key {', '.join(description['keys'])} and the columns "
                f"{_column_list(stored)}, but this query has {', '.join(self.layout.key_names)} and "
                f"{_column_list(self.layout.schema)}; use the same declaration or another path."
            )
        return table

    @property
    def identity(self) -> str:
        """The id of the table, which copies share."""
        return str(self.table.metadata().id)

    def refresh(self) -> None:
        """Read newer commits."""
        self._check_newest()  # an older log in its place would fail in Delta's words
        self.table.update_incremental()
        self._check_newest()
        if self.table.version() != self._read_version:
            self.committed = committed_at(self.root, self.table.version())
            self._read_version = self.table.version()
        number = self.table.transaction_version(APPLICATION)
        if number is not None and (self.committed is None or self.committed.batch != number):
            raise EvenflowError(
                f"the state at {self.root} is at batch {number}, but its last commit has no metadata of that "
                "batch, because something else has written to the table; restore it, or use another path."
            )

    def _check_newest(self) -> None:
        """Refuse to continue from a version whose log entry was removed: a restart would not find it."""
        version = self.table.version()
        if not (self.root / _LOG / f"{version:020}.json").exists():
            raise EvenflowError(
                f"version {version} of the state at {self.root} has disappeared from its {_LOG} directory, "
                "because it was deleted or replaced by an older copy; stop the query, restore the state and "
                "the checkpoint together, and start again."
            )

    def files(self) -> list[StateFile]:
        """Return the files of the newest version; raise an error if one is missing or damaged."""
        live = live_files(self.table)
        try:
            for name, size in live.items():
                if name not in self.footers:
                    self.footers[name] = read_footer(self.root, name, size)
                elif (self.root / name).stat().st_size != size:
                    raise DamagedFile(name, "its size has changed")
        except FileNotFoundError as error:
            raise self.damaged_file_error(DamagedFile(name, "it is missing")) from error
        except DamagedFile as error:
            raise self.damaged_file_error(error) from error
        self.footers = {name: self.footers[name] for name in live}
        return list(self.footers.values())

    def damaged_file_error(self, damaged: DamagedFile) -> EvenflowError:
        """Return the error for a damaged file, with the last batch that is still readable."""
        intact = self._last_intact(damaged.name)
        if intact is None:
            advice = "no earlier batch is intact"
        else:
            advice = f"batch {intact} is the last intact one (read_state(spark, path, batch={intact}))"
        return EvenflowError(
            f"the state file {self.root / damaged.name} is damaged or missing ({damaged.reason}); restore it "
            f"from a backup to continue. Nothing was overwritten, and {advice}."
        )

    def _last_intact(self, damaged: str) -> int | None:
        for version, committed in history(self.root):
            try:
                files = live_files(DeltaTable(str(self.root), version=version))
                if damaged in files:
                    continue
                for name, size in files.items():
                    read_footer(self.root, name, size)
            except (DeltaError, DamagedFile):
                continue
            return committed.batch
        return None

    def commit(
        self, committed: Committed, added: Iterable[StateFile], removed: Iterable[StateFile] = ()
    ) -> None:
        """Commit files and metadata atomically; fails if another process has committed meanwhile."""
        self._check_newest()
        now = int(time.time() * 1000)
        new = list(added)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.name, file.bytes, {}, now, True, json.dumps({"numRecords": file.rows}))
            for file in new
        ]
        actions += [RemoveAction(file.name, True, now, file.bytes) for file in removed]
        properties = CommitProperties(
            custom_metadata={"evenflow": committed.to_json()},
            max_commit_retries=0,
            app_transactions=[Transaction(APPLICATION, committed.batch)],
        )
        try:
            self.table.create_write_transaction(
                actions, "append", self.layout.schema, commit_properties=properties
            )
        except CommitFailedError as error:
            raise EvenflowError(
                f"another query has written to the state at {self.root} while batch {committed.batch} ran, "
                "so this commit is refused; stop one of the two queries."
            ) from error
        self.footers |= {file.name: file for file in new}
        self.table.update_incremental()
        self.committed, self._read_version = committed, self.table.version()

    def sweep_outputs(self, batch: int) -> None:
        """Remove staged outputs before the uncommitted ``batch`` runs.

        Those of the previous batch are kept; those of failed attempts at this batch are removed.
        """
        for folder in (self.root / OUTPUTS).glob("*"):
            if folder.name != str(batch - 1):
                shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> int:
        """Remove state files that no retained version needs; return how many.

        Called while no task of this query runs. A task of a killed query may still be writing, but its files
        are never committed.
        """
        live, retired, swept = live_files(self.table), self._retired(), 0
        for path in (self.root / FOLDER).glob("*.parquet"):
            name = f"{FOLDER}/{path.name}"
            if name not in live and time.time() - retired.get(name, 0.0) > self.keep:
                path.unlink(missing_ok=True)
                swept += 1
        return swept

    def _retired(self) -> dict[str, float]:
        """Return the files that commits in the log removed, with the time of removal."""
        retired: dict[str, float] = {}
        for path in (self.root / _LOG).glob("*.json"):
            for action in _actions(path):
                if "remove" in action:
                    removed = action["remove"]
                    name, when = removed["path"], removed.get("deletionTimestamp", 0) / 1000
                    retired[name] = max(
                        when, retired.get(name, 0.0)
                    )  # a rewind may have restored it in between
        return retired


def open_table(root: Path, version: int | None = None) -> DeltaTable:
    """Return the table of a state."""
    try:
        return DeltaTable(str(root), version=version)
    except DeltaError as error:
        raise EvenflowError(
            f"the {_LOG} directory of the state at {root} has missing or damaged files "
            f"({first_line(error):.200}); restore the state and the checkpoint together from a backup."
        ) from error


def read_description(table: DeltaTable, root: Path) -> dict[str, Any]:
    """Return the description that evenflow stored in a table."""
    try:
        description = json.loads(table.metadata().description or "")
        if description["evenflow"] != VERSION:
            raise EvenflowError(
                f"the state at {root} has format {description['evenflow']}, but this evenflow reads format "
                f"{VERSION}; use the evenflow that wrote it."
            )
    except (ValueError, KeyError, TypeError) as error:
        raise EvenflowError(
            f"the Delta table at {root} was not created by evenflow; use another path for the state."
        ) from error
    return dict(description)


def live_files(table: DeltaTable) -> dict[str, int]:
    """Return the names and sizes of a version's files."""
    adds = pa.table(table.get_add_actions(flatten=True))
    return dict(zip(adds.column("path").to_pylist(), adds.column("size_bytes").to_pylist(), strict=True))


def history(root: Path) -> Iterator[tuple[int, Committed]]:
    """Yield the versions in the log with their metadata, newest first.

    Versions that a rewind has undone are skipped.
    """
    newest: int | None = None
    for path in sorted((root / _LOG).glob("*.json"), reverse=True):
        if path.stem.isdigit() and (newest is None or int(path.stem) <= newest):
            committed = committed_at(root, int(path.stem))
            if committed is not None:
                yield int(path.stem), committed
                newest = newest if committed.rewound is None else committed.rewound


def committed_at(root: Path, version: int) -> Committed | None:
    """Return the metadata of a version; None for the one that created the table."""
    for action in _actions(root / _LOG / f"{version:020}.json"):
        text = action.get("commitInfo", {}).get("evenflow")
        if text is not None:
            try:
                return Committed.from_json(text)
            except (TypeError, ValueError, KeyError, zlib.error) as error:
                raise EvenflowError(
                    f"version {version} of the state at {root} was written by an incompatible evenflow "
                    f"({error}); use the evenflow that wrote it."
                ) from error
    return None


def _actions(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        if line.strip():
            yield json.loads(line)


def _equal_types(left: pa.DataType, right: pa.DataType) -> bool:
    """Compare types, ignoring the names of list elements and map entries, which depend on the reader."""
    if left.equals(right):
        return True
    if left.num_fields != right.num_fields or left.id != right.id or not left.num_fields:
        return left.id == right.id and not left.num_fields and str(left) == str(right)
    return all(
        _equal_types(left.field(index).type, right.field(index).type)
        and (not pa.types.is_struct(left) or left.field(index).name == right.field(index).name)
        for index in range(left.num_fields)
    )


def _column_list(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name} {field.type}" for field in schema if not field.name.startswith("__evenflow_")
    )
