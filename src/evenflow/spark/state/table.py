"""The state as a Delta table, on the driver: what is committed, what a batch adds, what may go.

One commit per micro-batch: the state files of all workers, the application transaction with the batch's
number, and, as metadata, all that a restart needs (outputs to emit again, owners, watermark). Delta refuses a
second commit of the same application on an older handle: of two drivers, one is refused. Every later commit
without a batch of its own (merged files) repeats the metadata, so the newest one always has it.

Delta's vacuum neither removes files that were never committed nor spares those that are about to be; so files
are swept here, when no task of ours can be writing.
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

from evenflow.errors import EvenflowError
from evenflow.spark.state.files import FOLDER, DamagedFile, StateFile, read_footer
from evenflow.spark.state.schema import StateLayout
from evenflow.spark.state.staged_outputs import OUTPUTS

APPLICATION = "evenflow"
VERSION = 1
_LOG = "_delta_log"
_CHECKPOINT_EVERY = 20  # commits; so many small files are read, at most, to open the table


@dataclass(frozen=True)
class Committed:
    """What is committed with a batch, beside its state."""

    batch: int
    query: str | None  # Spark's id of the query, which stays over restarts
    workers: int
    outputs: list[dict[str, Any]]  # names and sizes of staged outputs
    ownership: str  # for the next batch
    plan: str | None  # that this batch ran with, if it is another
    asked: Any = None  # the number of workers that ``stateful`` was given
    rescaled: int = 0  # the last request for another number that was followed
    latest: int | None = None  # event time in microseconds
    watermark: int | None = None
    now: int | None = None  # processing time of the batch
    loads: dict[str, Any] = field(default_factory=dict)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    migration: dict[str, Any] | None = None
    shift: int = 0  # how much larger ``batch`` is than Spark's number; not 0 after a change of checkpoints
    offsets: str | None = None  # digest of what Spark's checkpoint says of the batch
    gap: dict[str, Any] | None = None  # what was accepted before this batch, by ``accept_gap``
    identity: str = ""  # of this batch's commit, and of no other
    rewound: int | None = None  # the version that the state went back to

    @property
    def spark_batch(self) -> int:
        """Spark's number of the batch."""
        return self.batch - self.shift

    def to_json(self) -> str:
        """Return all of it; owners are packed, since there is one such text in every commit."""
        return json.dumps({**asdict(self), "ownership": _pack(self.ownership), "plan": _pack(self.plan)})

    @staticmethod
    def from_json(text: str) -> Committed:
        """Read what ``to_json`` returned."""
        saved = json.loads(text)
        owners = {name: _unpack(saved[name]) for name in ("ownership", "plan")}
        return Committed(**{**saved, **owners})


def _pack(text: str | None) -> str | None:
    return None if text is None else base64.b85encode(zlib.compress(text.encode(), 6)).decode()


def _unpack(text: str | None) -> str | None:
    return None if text is None else zlib.decompress(base64.b85decode(text)).decode()


class StateTable:
    """One state path, opened."""

    def __init__(self, root: Path, layout: StateLayout, keep: float = 3600.0):
        self.root = root
        self.layout = layout
        self.keep = keep
        self.table = self._open()
        self.known: dict[str, StateFile] = {}
        self.committed: Committed | None = None
        self._read_version = -1
        self.refresh()

    @staticmethod
    def exists(root: Path) -> bool:
        """Say whether there is a state at a path."""
        return bool(DeltaTable.is_deltatable(str(root)))

    def _open(self) -> DeltaTable:
        if not self.exists(self.root):
            interval = f"interval {max(1, round(self.keep))} seconds"
            self.root.mkdir(parents=True, exist_ok=True)
            made = {"evenflow": VERSION, "keys": self.layout.key_names}
            with contextlib.suppress(DeltaError):  # another process may have made it a moment ago
                DeltaTable.create(
                    str(self.root),
                    self.layout.schema,
                    description=json.dumps(made),
                    configuration={
                        "delta.logRetentionDuration": interval,
                        "delta.deletedFileRetentionDuration": interval,
                        "delta.checkpointInterval": str(_CHECKPOINT_EVERY),
                    },
                )
        table = opened(self.root)
        said = described(table, self.root)
        stored = pa.schema(table.schema().to_arrow())
        differing = [
            name
            for name in [*stored.names, *(n for n in self.layout.schema.names if n not in stored.names)]
            if name not in self.layout.schema.names
            or name not in stored.names
            or not _same_type(stored.field(name).type, self.layout.schema.field(name).type)
        ]
        if said["keys"] != self.layout.key_names or differing:
            raise EvenflowError(
                f"the state at {self.root} has the key {', '.join(said['keys'])} and the columns "
                f"{_listed(stored)}; this query's are {', '.join(self.layout.key_names)} and "
                f"{_listed(self.layout.schema)}. Use the same declaration, or another path for the state."
            )
        return table

    @property
    def identity(self) -> str:
        """The id of the table, which a copy of it has, too."""
        return str(self.table.metadata().id)

    def refresh(self) -> None:
        """See what was committed since."""
        self._check_newest()  # an older log in its place would fail in Delta's words
        self.table.update_incremental()
        self._check_newest()
        if self.table.version() != self._read_version:
            self.committed = committed_at(self.root, self.table.version())
            self._read_version = self.table.version()
        number = self.table.transaction_version(APPLICATION)
        if number is not None and (self.committed is None or self.committed.batch != number):
            raise EvenflowError(
                f"the state at {self.root} is at batch {number}, but its last commit does not say so; "
                "something else has written to this table. Restore it, or use another path."
            )

    def _check_newest(self) -> None:
        """Refuse to go on from a version whose log entry was removed: the next start would not find it."""
        version = self.table.version()
        if not (self.root / _LOG / f"{version:020}.json").exists():
            raise EvenflowError(
                f"version {version} of the state at {self.root} is gone from its {_LOG} folder: it was "
                "removed, or an older copy was put in its place; stop the query, restore the state and the "
                "checkpoint together and start again."
            )

    def files(self) -> list[StateFile]:
        """Return the files of the newest version; one that is missing or damaged is refused."""
        live = live_files(self.table)
        try:
            for name, size in live.items():
                if name not in self.known:
                    self.known[name] = read_footer(self.root, name, size)
                elif (self.root / name).stat().st_size != size:
                    raise DamagedFile(name, "its size has changed")
        except FileNotFoundError as error:
            raise self.refusal(DamagedFile(name, "it is missing")) from error
        except DamagedFile as error:
            raise self.refusal(error) from error
        self.known = {name: self.known[name] for name in live}
        return list(self.known.values())

    def refusal(self, damaged: DamagedFile) -> EvenflowError:
        """Return the sentence for a damaged file; nothing is written."""
        whole = self._last_whole(damaged.name)
        if whole is None:
            advice = "no earlier batch is kept whole; restore the file from a copy"
        else:
            advice = (
                f"batch {whole} is the last one that is whole: read_state(spark, path, batch={whole}) "
                "reads it; restore the file from a copy to go on"
            )
        return EvenflowError(
            f"the state file {self.root / damaged.name} is damaged or missing ({damaged.why}); {advice}. "
            "Nothing was overwritten."
        )

    def _last_whole(self, damaged: str) -> int | None:
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
        """Commit files and metadata, all or nothing; refused if anyone else has committed meanwhile."""
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
                f"another query has written to the state at {self.root} while batch {committed.batch} ran; "
                "its commit stands and this one is refused. Stop one of the two."
            ) from error
        self.known |= {file.name: file for file in new}
        self.table.update_incremental()
        self.committed, self._read_version = committed, self.table.version()

    def sweep_outputs(self, batch: int) -> None:
        """Remove staged outputs that nobody needs when ``batch``, which is not committed, begins.

        Those of the batch before stay, and whatever an attempt at this one has left goes.
        """
        for folder in (self.root / OUTPUTS).glob("*"):
            if folder.name != str(batch - 1):
                shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> int:
        """Remove state files that no version needs which is to be kept; return how many.

        Called while no task of this query runs; a task of one that was killed may still write, but what it
        writes is never committed.
        """
        live, retired, swept = live_files(self.table), self._retired(), 0
        for path in (self.root / FOLDER).glob("*.parquet"):
            name = f"{FOLDER}/{path.name}"
            if name not in live and time.time() - retired.get(name, 0.0) > self.keep:
                path.unlink(missing_ok=True)
                swept += 1
        return swept

    def _retired(self) -> dict[str, float]:
        """Return files that a commit removed, and when, as far as the log goes back."""
        retired: dict[str, float] = {}
        for path in (self.root / _LOG).glob("*.json"):
            for action in _actions(path):
                if "remove" in action:
                    removed = action["remove"]
                    name, when = removed["path"], removed.get("deletionTimestamp", 0) / 1000
                    retired[name] = max(when, retired.get(name, 0.0))  # a rewind may have brought it back
        return retired


def opened(root: Path, version: int | None = None) -> DeltaTable:
    """Open a state's table, or say why its log cannot be read."""
    try:
        return DeltaTable(str(root), version=version)
    except DeltaError as error:
        why = str(error).strip().partition("\n")[0]
        raise EvenflowError(
            f"the {_LOG} folder of the state at {root} has missing or damaged files ({why:.200}); restore "
            "the state and the checkpoint together from a copy."
        ) from error


def described(table: DeltaTable, root: Path) -> dict[str, Any]:
    """Return what the table says of itself, or a sentence if it is not ours."""
    try:
        said = json.loads(table.metadata().description or "")
        if said["evenflow"] != VERSION:
            raise EvenflowError(
                f"the state at {root} was written by another evenflow (version {said['evenflow']}); "
                "use that one."
            )
    except (ValueError, KeyError, TypeError) as error:
        raise EvenflowError(
            f"there is a Delta table at {root} that evenflow did not make; use another path for the state."
        ) from error
    return dict(said)


def live_files(table: DeltaTable) -> dict[str, int]:
    """Return the names and sizes of a version's files."""
    adds = pa.table(table.get_add_actions(flatten=True))
    return dict(zip(adds.column("path").to_pylist(), adds.column("size_bytes").to_pylist(), strict=True))


def history(root: Path) -> Iterator[tuple[int, Committed]]:
    """Yield versions and what was committed with them, newest first, as far as the log goes back.

    What a rewind has undone is left out.
    """
    newest: int | None = None
    for path in sorted((root / _LOG).glob("*.json"), reverse=True):
        if path.stem.isdigit() and (newest is None or int(path.stem) <= newest):
            committed = committed_at(root, int(path.stem))
            if committed is not None:
                yield int(path.stem), committed
                newest = newest if committed.rewound is None else committed.rewound


def committed_at(root: Path, version: int) -> Committed | None:
    """Return what was committed with a version; None for the one that made the table."""
    for action in _actions(root / _LOG / f"{version:020}.json"):
        text = action.get("commitInfo", {}).get("evenflow")
        if text is not None:
            try:
                return Committed.from_json(text)
            except (TypeError, ValueError, KeyError, zlib.error) as error:
                raise EvenflowError(
                    f"version {version} of the state at {root} was written by another evenflow ({error}); "
                    "use that one."
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


def _same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Compare types without the names that readers give to elements of lists and maps."""
    if one.equals(other):
        return True
    if one.num_fields != other.num_fields or one.id != other.id or not one.num_fields:
        return one.id == other.id and not one.num_fields and str(one) == str(other)
    return all(
        _same_type(one.field(place).type, other.field(place).type)
        and (not pa.types.is_struct(one) or one.field(place).name == other.field(place).name)
        for place in range(one.num_fields)
    )


def _listed(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name} {field.type}" for field in schema if not field.name.startswith("__evenflow_")
    )
