"""Whether a state and a checkpoint belong together, checked when a query starts and before every commit.

The state records its query, the last of Spark's batches it includes, and a digest of that batch's offsets.
The checkpoint records the same for the batch that Spark requests. There are four kinds of mismatch: the
checkpoint belongs to another query, the state is behind it, the state is ahead of it, or the batch numbers
match but the rows differ, because one of the two was restored from a backup and has continued since.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.spark.state.checkpoint import ABSENT, Checkpoint, UnreadableCheckpoint
from evenflow.spark.state.query_config import QueryConfig
from evenflow.spark.state.rewind import batch_to_rewind_to
from evenflow.spark.state.table import Committed, StateTable
from evenflow.storage import open_storage

log = logging.getLogger("evenflow.spark.state")


@dataclass(frozen=True)
class RequestedBatch:
    """The batch that Spark requests, or will request next."""

    batch: int  # Spark's number
    query: str | None  # None: the checkpoint is new
    offsets: str | None  # digest of the batch; None: unknown; ABSENT: not in the checkpoint yet
    at_state: str | None  # digest, in the checkpoint, of the last batch of the state; None: unknown
    checkpoint: Checkpoint
    unknown: str = ""  # why the query's id could not be read


@dataclass(frozen=True)
class Step:
    """The identity of a batch to commit: the state's number for it, its query and its offsets."""

    batch: int  # larger than in any earlier commit
    shift: int  # difference from Spark's number
    query: str | None
    offsets: str | None
    gap: dict[str, Any] | None = None  # the mismatch that ``accept_gap`` accepted


def check_start(config: QueryConfig, spark: SparkSession) -> None:
    """Refuse to start a query whose checkpoint does not continue from the state."""
    storage = open_storage(config.root, "state")
    committed = None
    if StateTable.exists(storage):
        committed = StateTable(storage, config.state, config.keep).committed
    requested = next_requested_batch(config, committed, spark)
    if requested is not None:
        next_step(config, committed, requested)


def next_requested_batch(
    config: QueryConfig, committed: Committed | None, spark: SparkSession
) -> RequestedBatch | None:
    """Return the batch that Spark will request first; None, and a log line, if it is unknown."""
    try:
        batch = Checkpoint(config.checkpoint, spark).next_batch()
    except UnreadableCheckpoint as error:
        _log_unreadable(config, str(error))
        return None
    return requested_batch(config, committed, batch, spark)


def requested_batch(
    config: QueryConfig,
    committed: Committed | None,
    batch: int,
    spark: SparkSession,
    before: RequestedBatch | None = None,
) -> RequestedBatch:
    """Return what the checkpoint records of a batch that Spark requests; log if it is unreadable.

    ``before`` is the last batch of this process. What cannot have changed since is not reread from a
    checkpoint that is read through Spark, where every file takes a job.
    """
    checkpoint, unknown = Checkpoint(config.checkpoint, spark), ""
    query = offsets = at_state = None
    try:
        unchanged = before is not None and not before.unknown and not checkpoint.is_local
        query = before.query if before is not None and unchanged else checkpoint.query()
        offsets = checkpoint.digest(batch)
        if committed is not None and not unchanged:
            at_state = checkpoint.digest(committed.spark_batch) or None
    except UnreadableCheckpoint as error:
        unknown = str(error)
        if before is None or not before.unknown:
            _log_unreadable(config, unknown)
    return RequestedBatch(batch, query, offsets, at_state, checkpoint, unknown)


def _log_unreadable(config: QueryConfig, reason: str) -> None:
    log.warning(
        "cannot read the checkpoint %s (%s); only its batch numbers are compared with the state at %s",
        config.checkpoint, reason, config.root,
    )  # fmt: skip
    Control(config.control).note("unchecked", checkpoint=config.checkpoint, why=reason)


def next_step(config: QueryConfig, committed: Committed | None, requested: RequestedBatch) -> Step | None:
    """Return the identity to commit a batch under; None if it is already committed. Refuse a mismatch."""
    refusal = mismatch(config, committed, requested)
    if refusal is not None and not config.accept_gap:
        raise EvenflowError(refusal)
    if committed is None:
        gap = None if refusal is None else _gap(None, requested, refusal)
        return Step(requested.batch, 0, requested.query, requested.offsets or None, gap)
    query = committed.query if requested.unknown else requested.query
    if refusal is None:
        if requested.batch == committed.spark_batch:
            return None
        return Step(requested.batch + committed.shift, committed.shift, query, requested.offsets or None)
    shift = committed.shift if query == committed.query else 0
    if requested.batch + shift <= committed.batch:  # batch numbers order a key's rows, so they must increase
        shift = committed.batch + 1 - requested.batch
    return Step(
        requested.batch + shift, shift, query, requested.offsets or None, _gap(committed, requested, refusal)
    )


def _gap(committed: Committed | None, requested: RequestedBatch, refusal: str) -> dict[str, Any]:
    at = -1 if committed is None else committed.spark_batch
    same = committed is None or committed.query == requested.query
    skipped = [at + 1, requested.batch - 1] if same and requested.batch > at + 1 else None
    return {
        "state_query": None if committed is None else committed.query,
        "state_batch": None if committed is None else committed.spark_batch,
        "query": requested.query,
        "asked": requested.batch,
        "skipped": skipped,
        "why": refusal,
    }


def mismatch(config: QueryConfig, committed: Committed | None, requested: RequestedBatch) -> str | None:
    """Return the error message for a batch that does not continue the committed state; None if it does."""
    checkpoint, root = config.checkpoint, config.root
    if committed is None:
        if requested.batch == 0:
            return None
        return (
            f"there is no state at {root}, but the checkpoint {checkpoint} of query {requested.query} "
            f"continues with batch {requested.batch}, so {_batches(0, requested.batch - 1)} would be "
            f"missing; restore the state of batch {requested.batch - 1} too, "
            f"{_accept('continue without them')}, {_NEW}"
        )
    at, state = committed.spark_batch, f"the state at {root} is at batch {committed.spark_batch}"
    if not requested.unknown and committed.query is not None and requested.query != committed.query:
        is_new = requested.query is None
        other = "is new and starts" if is_new else f"belongs to query {requested.query} and continues"
        return (
            f"{state} of query {committed.query}, but the checkpoint {checkpoint} {other} with batch "
            f"{requested.batch}; restore that query's checkpoint too, "
            f"{_accept('continue from this state with this checkpoint')}, {_NEW}"
        )
    both = (
        f"{state}, but the checkpoint {checkpoint} of query {requested.query} continues with batch "
        f"{requested.batch}"
    )
    if requested.batch > at + 1:
        return (
            f"{both}, so {_batches(at + 1, requested.batch - 1)} would be missing; restore the state of "
            f"batch {requested.batch - 1} too, {_accept('continue without them')}, {_NEW}"
        )
    if requested.batch < at or (requested.batch == at and requested.offsets == ABSENT):
        return (
            f"{both}, which the state already includes; restore the checkpoint of batch {at} too, "
            f"{_rewind(config, requested)}{_accept('process these rows again')}, {_NEW}"
        )
    found = requested.offsets if requested.batch == at else requested.at_state
    if found is not None and committed.offsets is not None and found != committed.offsets:
        return (
            f"{both}, and batch {at} of the checkpoint ({found}) has different rows than batch {at} of the "
            f"state ({committed.offsets}), because one of the two was restored from a backup; restore the "
            f"other too, {_rewind(config, requested)}{_accept('continue nevertheless')}, {_NEW}"
        )
    return None


_NEW = "or start afresh with new paths for the state and the checkpoint."


def _accept(action: str) -> str:
    return f"pass accept_gap=True to {action} (the gap is recorded)"


def _batches(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"batches {first} to {last}"


def _rewind(config: QueryConfig, requested: RequestedBatch) -> str:
    """Return the advice to rewind to the batch before the checkpoint's, if the state still has it."""
    if requested.batch == 0 or requested.query is None:
        return ""
    try:
        offsets = requested.checkpoint.digest(requested.batch - 1) or None
    except UnreadableCheckpoint:
        return ""
    batch = batch_to_rewind_to(open_storage(config.root), requested.query, requested.batch - 1, offsets)
    return "" if batch is None else f"call rewind_state({str(config.root)!r}, batch={batch}), "
