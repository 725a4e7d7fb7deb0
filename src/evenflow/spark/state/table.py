"""The state as a Delta table, on the driver: opening, committing and sweeping.

There is one commit per micro-batch: the state files of all workers, an application transaction with the batch
number, and as metadata all that a restart needs (staged outputs, owners, watermark). A commit creates the
next entry of the log, if absent, in one request; of two concurrent drivers one fails. A later commit without
a batch (another holder, a rewind) repeats the metadata, so the newest commit always has it. The table is
read when it is opened; what follows is known from this process's own commits. In an object store, what no
batch needs is done beside them, in the thread that renews the lease: checkpoints of the log, listings, and
the removal of files.

Delta's vacuum neither removes files that were never committed nor spares files that are about to be; files
are therefore swept here, while no task of the query can be writing, and never those of a later holder.
"""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from evenflow.errors import EvenflowError, first_line
from evenflow.spark.state.delta_checkpoint import declaration, last_checkpoint, outdated, write_checkpoint
from evenflow.spark.state.files import FOLDER, DamagedFile, StateFile, epoch_of, read_footer
from evenflow.spark.state.schema import StateLayout
from evenflow.spark.state.staged_outputs import OUTPUTS
from evenflow.storage import Storage, StorageError
from evenflow.storage.base import at_once
from evenflow.storage.delta import delta_options
from evenflow.storage.object_store import explained

APPLICATION = "evenflow"
VERSION = 1
_LOG = "_delta_log"
_LAST = f"{_LOG}/_last_checkpoint"
CHECKPOINT_EVERY = 20  # commits; bounds the number of log files read to open the table
_LIST_EVERY = 50  # sweeps, after which an object store is listed
_CREATIONS = 4  # attempts at creating the table
_CLAIMS = 5  # attempts at committing an epoch while the holder before still commits


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
    epoch: int = 0  # of the lease under which it was committed

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
    """The open table of one state."""

    def __init__(self, storage: Storage, layout: StateLayout, keep: float = 3600.0, epoch: int = 0):
        self.storage = storage
        self.root = storage.location
        self.layout = layout
        self.keep = keep
        self.epoch = epoch
        self._retired: dict[str, float] | None = None  # removed files, with the time of removal
        self._entries: dict[str, float] = {}  # of the log, with the time of writing
        self._outputs: list[str] = []  # staged by batches before the last
        self._strays: tuple[list[str], list[str]] = ([], [])  # state files and outputs in the last listing
        self._unlisted = 0  # sweeps since then
        self._doomed: set[str] = set()  # to be removed by `look_after`
        self._is_checkpoint_due = False
        self._changing = threading.Lock()  # what batches and `look_after` share
        self._newest_gone = False
        self._open()

    @staticmethod
    def exists(storage: Storage) -> bool:
        """Return whether there is a state; by names first, since a listing may be behind."""
        return any(storage.exists(name) for name in (_entry(0), _LAST)) or not storage.is_empty(_LOG)

    def _open(self) -> None:
        """Read the newest version."""
        if not self.exists(self.storage):
            self._create()
        table = open_table(self.storage)
        self._check_declaration(table)
        self.identity = str(table.metadata().id)  # copies share it
        self.version = int(table.version())
        self._declared = declaration(table)
        self.live = live_files(table)
        self.footers: dict[str, StateFile] = {}
        number = table.transaction_version(APPLICATION)
        while actions := list(_actions(self.storage, _entry(self.version + 1))):  # a listing may be behind
            self.version += 1
            number = self._replay(actions, number)
        self.check_newest()
        self.committed = committed_at(self.storage, self.version)
        if number is not None and (self.committed is None or self.committed.batch != number):
            raise EvenflowError(
                f"the state at {self.root} is at batch {number}, but its last commit has no metadata of that "
                "batch, because something else has written to the table; restore it, or use another path."
            )

    def _replay(self, actions: list[dict[str, Any]], number: int | None) -> int | None:
        """Apply an entry of the log to the live files; return the number of the last batch."""
        for action in actions:
            if "add" in action:
                self.live[action["add"]["path"]] = int(action["add"]["size"])
            elif "remove" in action:
                self.live.pop(action["remove"]["path"], None)
            elif action.get("txn", {}).get("appId") == APPLICATION:
                number = int(action["txn"]["version"])
        return number

    def _create(self) -> None:
        """Create the table; Delta does not repeat a conditional write that was not answered."""
        interval = f"interval {max(1, round(self.keep))} seconds"
        created = {"evenflow": VERSION, "keys": self.layout.key_names}
        for attempt in range(_CREATIONS):
            try:
                with _in_one_sentence(self.storage), contextlib.suppress(DeltaError):  # another was faster
                    DeltaTable.create(
                        str(self.root),
                        self.layout.schema,
                        description=json.dumps(created),
                        configuration={
                            "delta.logRetentionDuration": interval,
                            "delta.deletedFileRetentionDuration": interval,
                            "delta.checkpointInterval": str(CHECKPOINT_EVERY),
                        },
                        storage_options=delta_options(self.root),
                    )
            except StorageError:
                if self.storage.exists(_entry(0)):
                    return
                if attempt == _CREATIONS - 1:
                    raise
            else:
                return

    def _check_declaration(self, table: DeltaTable) -> None:
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

    def look_after(self) -> None:
        """Do beside the batches what an object store needs: see `check_newest`, `commit` and `sweep`."""
        self.look_for_newest()
        if self._unlisted >= _LIST_EVERY:
            self._list()
        if self._is_checkpoint_due and not self._newest_gone:
            self._checkpoint()
        with self._changing:
            doomed, self._doomed = self._doomed, set()
        self.storage.apart.delete(doomed)

    def look_for_newest(self) -> None:
        """See whether the newest version's log entry is there, for `check_newest`."""
        version = self.version
        is_gone = not self.storage.apart.exists(_entry(version))
        self._newest_gone = is_gone and version == self.version

    def check_newest(self, ask: bool = True) -> None:
        """Refuse to continue from a version whose log entry was removed: a restart would not find it.

        Without ``ask``, what `look_for_newest` found last counts for an object store.
        """
        if ask or self.root.is_local:
            self.look_for_newest()
        if self._newest_gone:
            raise EvenflowError(
                f"version {self.version} of the state at {self.root} has disappeared from its {_LOG} "
                "directory, because it was deleted or replaced by an older copy; stop the query, restore the "
                "state and the checkpoint together, and start again."
            )

    def claim(self) -> None:
        """Commit the epoch of this holder, so that every commit of the one before is refused."""
        for _ in range(_CLAIMS):
            known = None if self.committed is None else replace(self.committed, epoch=self.epoch)
            if self._append(known, [], []):
                return
            self._open()  # the holder before has committed meanwhile, and this is the state to go on from
        raise self._refused("its epoch was claimed")

    def files(self) -> list[StateFile]:
        """Return the files of the newest version; raise an error if one is missing or damaged."""
        unknown = [(name, size) for name, size in self.live.items() if name not in self.footers]
        try:
            found = at_once(lambda file: read_footer(self.storage, *file), unknown)
        except DamagedFile as error:
            raise self.damaged_file_error(error) from error
        self.footers |= {file.name: file for file in found}
        return [self.footers[name] for name in self.live]

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
        for version, committed in history(self.storage):
            try:
                files = live_files(open_table(self.storage, version))
                if damaged in files:
                    continue
                for name, size in files.items():
                    read_footer(self.storage, name, size)
            except (EvenflowError, DamagedFile):
                continue
            return committed.batch
        return None

    def commit(
        self, committed: Committed, added: Iterable[StateFile], removed: Iterable[StateFile] = ()
    ) -> None:
        """Commit files and metadata atomically; fails if another process has committed meanwhile."""
        self.check_newest(ask=False)
        committed = replace(committed, epoch=self.epoch)
        if not self._append(committed, list(added), list(removed)):
            raise self._refused(f"batch {committed.batch} ran")

    def _refused(self, meanwhile: str) -> EvenflowError:
        return EvenflowError(
            f"another query has written to the state at {self.root} while {meanwhile}, "
            "so this commit is refused; stop one of the two queries."
        )

    def _append(self, committed: Committed | None, added: list[StateFile], removed: list[StateFile]) -> bool:
        """Create the next entry of the log; return whether nobody else did."""
        now = int(time.time() * 1000)
        actions = _commit_actions(committed, added, removed, now)
        content = "\n".join(json.dumps(action) for action in actions).encode()
        if not self.storage.create(_entry(self.version + 1), content):
            return False
        with self._changing:
            self._replace(committed, added, removed, now / 1000)
        if self.version % CHECKPOINT_EVERY == 0:
            self._is_checkpoint_due = True
            if self.root.is_local:
                self._checkpoint()
        return True

    def _replace(
        self, committed: Committed | None, added: list[StateFile], removed: list[StateFile], now: float
    ) -> None:
        """Make the version that was appended the newest one known here."""
        self.version += 1
        self._entries[_entry(self.version)] = now
        staged = set() if committed is None else {output["name"] for output in committed.outputs}
        if self.committed is not None:
            self._outputs += [one["name"] for one in self.committed.outputs if one["name"] not in staged]
        self.committed = committed
        gone = {file.name for file in removed}
        self.live |= {file.name: file.bytes for file in added}
        self.live = {name: size for name, size in self.live.items() if name not in gone}
        self.footers |= {file.name: file for file in added}
        self.footers = {name: file for name, file in self.footers.items() if name in self.live}
        if self._retired is not None:
            self._retired |= dict.fromkeys(gone, now)

    def _checkpoint(self) -> None:
        """Write down the whole version, and remove old log entries; the next time if it fails."""
        with contextlib.suppress(DeltaError, OSError, EvenflowError):
            if self._retired is None or self._declared is None:
                table = open_table(self.storage, self.version)
                table.create_checkpoint()
                table.cleanup_metadata()
                self._is_checkpoint_due = False
                return
            now, apart = time.time(), self.storage.apart
            with self._changing:
                self._is_checkpoint_due = False
                known = None if self.committed is None else _transaction(self.committed, int(now * 1000))
                version, live, retired = self.version, dict(self.live), dict(self._retired)
            written = write_checkpoint(
                apart, version, self._declared, known, live, retired, int(now * 1000)
            )  # fmt: skip
            with self._changing:
                self._entries[written] = now
                names = outdated(self._entries, now - self.keep)
            apart.delete(names)
            with self._changing:
                for name in names:
                    del self._entries[name]

    def sweep(self) -> int:
        """Remove state files that no retained version needs, and outputs but the last; return how many.

        Called while no task of this query runs. A task of a killed query may still be writing, but its files
        are never committed. Files of a later holder, whom this process does not know of, are left alone. The
        first time, everything there is gets listed. From then on, an object store keeps what was swept until
        `look_after`, which also lists now and then, for the files of tasks that failed.
        """
        now = time.time()
        known, is_first = list[str](self._retired or []), self._retired is None
        if self._retired is None:
            self._retired = self._read_retired()
            self._list()
            with self._changing:
                last = last_checkpoint(self._entries)
            if self.version - last >= CHECKPOINT_EVERY:
                self._checkpoint()  # earlier runs were too short for it
        elif self.root.is_local:
            self._list()
            known = []
        self._unlisted += 1
        (files, staged), self._strays = self._strays, ([], [])
        needed = set() if self.committed is None else {output["name"] for output in self.committed.outputs}
        swept = {
            name
            for name in [*known, *files]
            if name not in self.live
            and epoch_of(name) <= self.epoch
            and now - self._retired.get(name, 0.0) > self.keep
        }
        outputs = {name for name in staged if name not in needed and epoch_of(name) <= self.epoch}
        gone = {*swept, *outputs, *self._outputs}
        if is_first or self.root.is_local:
            self.storage.delete(gone)
        else:
            with self._changing:
                self._doomed |= gone
        self._outputs = []
        for folder in (FOLDER, OUTPUTS):
            self.storage.remove_drafts(folder)
        self._retired = {name: when for name, when in self._retired.items() if now - when <= self.keep}
        return len(swept)

    def _list(self) -> None:
        """List state files and outputs; of an object store, the requests are no batch's."""
        apart = self.storage.apart
        files, outputs = ([entry.name for entry in apart.entries(folder)] for folder in (FOLDER, OUTPUTS))
        self._strays = [name for name in files if name.endswith(".parquet")], outputs
        self._unlisted = 0

    def _read_retired(self) -> dict[str, float]:
        """Return the files that commits in the log removed, with the time of removal; read once."""
        self._entries |= {entry.name: entry.modified for entry in self.storage.entries(_LOG)}
        names = [name for name in self._entries if name.endswith(".json")]
        retired: dict[str, float] = {}
        for actions in at_once(lambda name: list(_actions(self.storage, name)), names):
            for action in actions:
                if "remove" in action:
                    removed = action["remove"]
                    name, when = removed["path"], removed.get("deletionTimestamp", 0) / 1000
                    retired[name] = max(when, retired.get(name, 0.0))  # a rewind may have restored it
        return retired


def _transaction(committed: Committed, now: int) -> dict[str, Any]:
    return {"appId": APPLICATION, "version": committed.batch, "lastUpdated": now}


def _commit_actions(
    committed: Committed | None, added: list[StateFile], removed: list[StateFile], now: int
) -> list[dict[str, Any]]:
    """Return the lines of a log entry; no two are equal, so that a writer knows its own."""
    info: dict[str, Any] = {
        "timestamp": now, "operation": "WRITE", "operationParameters": {"mode": "Append"}, "id": uuid4().hex,
    }  # fmt: skip
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if committed is not None:
        info["evenflow"] = committed.to_json()
        actions.append({"txn": _transaction(committed, now)})
    for file in added:
        add = {
            "path": file.name, "partitionValues": {}, "size": file.bytes, "modificationTime": now,
            "dataChange": True, "stats": json.dumps({"numRecords": file.rows}),
        }  # fmt: skip
        actions.append({"add": add})
    for file in removed:
        remove = {
            "path": file.name, "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True,
            "partitionValues": {}, "size": file.bytes,
        }  # fmt: skip
        actions.append({"remove": remove})
    return actions


def _entry(version: int) -> str:
    """Return the name of a log entry."""
    return f"{_LOG}/{version:020}.json"


@contextlib.contextmanager
def _in_one_sentence(storage: Storage) -> Iterator[None]:
    """Turn what Delta says of a store that cannot be reached into a sentence without secrets."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot read the state at {storage.location} ({explained(error, storage.location)}); check the "
            "bucket, its endpoint and the credentials of this process, and try again."
        ) from None


def open_table(storage: Storage, version: int | None = None) -> DeltaTable:
    """Return the table of a state."""
    root = storage.location
    try:
        with _in_one_sentence(storage):
            return DeltaTable(root.url, version=version, storage_options=delta_options(root))
    except DeltaError as error:
        raise EvenflowError(
            f"the {_LOG} directory of the state at {root} has missing or damaged files "
            f"({first_line(error):.200}); restore the state and the checkpoint together from a backup."
        ) from error


def read_description(table: DeltaTable, root: str) -> dict[str, Any]:
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


def history(storage: Storage) -> Iterator[tuple[int, Committed]]:
    """Yield the versions in the log with their metadata, newest first.

    Versions that a rewind has undone are skipped.
    """
    newest: int | None = None
    names = (entry.name.rpartition("/")[2] for entry in storage.entries(_LOG))
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    for version in sorted((int(stem) for stem in stems if stem.isdigit()), reverse=True):
        if newest is None or version <= newest:
            committed = committed_at(storage, version)
            if committed is not None:
                yield version, committed
                newest = newest if committed.rewound is None else committed.rewound


def committed_at(storage: Storage, version: int) -> Committed | None:
    """Return the metadata of a version; None for the one that created the table."""
    for action in _actions(storage, _entry(version)):
        text = action.get("commitInfo", {}).get("evenflow")
        if text is not None:
            try:
                return Committed.from_json(text)
            except (TypeError, ValueError, KeyError, zlib.error) as error:
                raise EvenflowError(
                    f"version {version} of the state at {storage.location} was written by an incompatible "
                    f"evenflow ({error}); use the evenflow that wrote it."
                ) from error
    return None


def _actions(storage: Storage, name: str) -> Iterator[dict[str, Any]]:
    try:
        lines = storage.read(name).decode().splitlines()
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
