"""Whether a state and a checkpoint belong together: compared when a query starts and before every commit.

The state says which query it is of, which of Spark's batches it holds, and the digest of that batch's
offsets. The checkpoint says the same of the batch that Spark asks for. Four things can be wrong: the
checkpoint is another query's, the state is behind it, the state is ahead of it, or the numbers fit and the
batch is another one, since one of the two was restored from a copy and went on from there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from evenflow.errors import EvenflowError
from evenflow.spark.monitoring.control_dir import Control
from evenflow.spark.state.checkpoint import ABSENT, Checkpoint, UnreadableCheckpoint
from evenflow.spark.state.query_config import QueryConfig
from evenflow.spark.state.rewind import batch_to_rewind_to
from evenflow.spark.state.table import Committed, StateTable

log = logging.getLogger("evenflow.spark")


@dataclass(frozen=True)
class Asked:
    """The batch that Spark asks for, or will ask for next."""

    batch: int  # by Spark's numbers
    query: str | None  # None: the checkpoint is new
    offsets: str | None  # digest of the batch; None: unknown; ABSENT: Spark has not written it down yet
    at_state: str | None  # digest, in the checkpoint, of the batch that the state is at; None: unknown
    checkpoint: Checkpoint
    unknown: str = ""  # why the query's id could not be read


@dataclass(frozen=True)
class Step:
    """What a commit records of a batch: the state's number for it, and which batch of which query it is."""

    batch: int  # larger than that of every commit before
    shift: int  # how much larger than Spark's number
    query: str | None
    offsets: str | None
    gap: dict[str, Any] | None = None  # what ``accept_gap`` accepted


def check_start(config: QueryConfig, spark: SparkSession) -> None:
    """Refuse to start a query whose checkpoint does not go on where the state stands."""
    root = Path(config.root)
    committed = None
    if StateTable.exists(root):
        committed = StateTable(root, config.state, config.keep).committed
    asked = asked_next(config, committed, spark)
    if asked is not None:
        next_step(config, committed, asked)


def asked_next(config: QueryConfig, committed: Committed | None, spark: SparkSession) -> Asked | None:
    """Return what Spark will ask for when the query starts; None, and a line in the log, if unknown."""
    try:
        batch = Checkpoint(config.checkpoint, spark).next_batch()
    except UnreadableCheckpoint as error:
        _say_unknown(config, str(error))
        return None
    return asked_for(config, committed, batch, spark)


def asked_for(
    config: QueryConfig,
    committed: Committed | None,
    batch: int,
    spark: SparkSession,
    before: Asked | None = None,
) -> Asked:
    """Return what is known of a batch that Spark asks for; say so in the log if its query is not.

    ``before``: the batch that this process did last. What cannot have changed since is not read again from a
    checkpoint that is read through Spark, where every file is a job.
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
            _say_unknown(config, unknown)
    return Asked(batch, query, offsets, at_state, checkpoint, unknown)


def _say_unknown(config: QueryConfig, why: str) -> None:
    log.warning(
        "the checkpoint %s cannot be read (%s); only batch numbers are compared with the state at %s",
        config.checkpoint, why, config.root,
    )  # fmt: skip
    Control(config.control).note("unchecked", checkpoint=config.checkpoint, why=why)


def next_step(config: QueryConfig, committed: Committed | None, asked: Asked) -> Step | None:
    """Return how to commit the batch; None if it is committed. Refuse it if it does not fit the state."""
    wrong = mismatch(config, committed, asked)
    if wrong is not None and not config.accept_gap:
        raise EvenflowError(wrong)
    if committed is None:
        gap = None if wrong is None else _gap(None, asked, wrong)
        return Step(asked.batch, 0, asked.query, asked.offsets or None, gap)
    query = committed.query if asked.unknown else asked.query
    if wrong is None:
        if asked.batch == committed.spark_batch:
            return None
        return Step(asked.batch + committed.shift, committed.shift, query, asked.offsets or None)
    shift = committed.shift if query == committed.query else 0
    if asked.batch + shift <= committed.batch:  # a newer row of a key must have a larger number
        shift = committed.batch + 1 - asked.batch
    return Step(asked.batch + shift, shift, query, asked.offsets or None, _gap(committed, asked, wrong))


def _gap(committed: Committed | None, asked: Asked, wrong: str) -> dict[str, Any]:
    at = -1 if committed is None else committed.spark_batch
    same = committed is None or committed.query == asked.query
    skipped = [at + 1, asked.batch - 1] if same and asked.batch > at + 1 else None
    return {
        "state_query": None if committed is None else committed.query,
        "state_batch": None if committed is None else committed.spark_batch,
        "query": asked.query,
        "asked": asked.batch,
        "skipped": skipped,
        "why": wrong,
    }


def mismatch(config: QueryConfig, committed: Committed | None, asked: Asked) -> str | None:
    """Return the sentence that says why a batch cannot follow what is committed; None if it can."""
    checkpoint, root = config.checkpoint, config.root
    if committed is None:
        if asked.batch == 0:
            return None
        return (
            f"there is no state at {root}, and the checkpoint {checkpoint} of query {asked.query} asks for "
            f"batch {asked.batch}, so {_batches(0, asked.batch - 1)} would be missing; restore the state "
            f"of batch {asked.batch - 1} too, {_accept('go on without them')}, {_NEW}"
        )
    at, state = committed.spark_batch, f"the state at {root} is at batch {committed.spark_batch}"
    if not asked.unknown and committed.query is not None and asked.query != committed.query:
        other = "is new" if asked.query is None else f"belongs to query {asked.query}"
        return (
            f"{state} of query {committed.query}, and the checkpoint {checkpoint} {other} and asks for batch "
            f"{asked.batch}; restore that query's checkpoint too, "
            f"{_accept('go on from this state with the checkpoint as it is')}, {_NEW}"
        )
    asks = f"{state}, and the checkpoint {checkpoint} of query {asked.query} asks for batch {asked.batch}"
    if asked.batch > at + 1:
        return (
            f"{asks}, so {_batches(at + 1, asked.batch - 1)} would be missing; restore the state of batch "
            f"{asked.batch - 1} too, {_accept('go on without them')}, {_NEW}"
        )
    if asked.batch < at or (asked.batch == at and asked.offsets == ABSENT):
        return (
            f"{asks}, which is in the state already; restore the checkpoint of batch {at} too, "
            f"{_rewind(config, asked)}{_accept('process these rows again')}, {_NEW}"
        )
    found = asked.offsets if asked.batch == at else asked.at_state
    if found is not None and committed.offsets is not None and found != committed.offsets:
        return (
            f"{asks}, but batch {at} of the checkpoint ({found}) has other rows than batch {at} of the state "
            f"({committed.offsets}), since one of the two was restored from a copy; restore the other one "
            f"too, {_rewind(config, asked)}{_accept('go on all the same')}, {_NEW}"
        )
    return None


_NEW = "or start a new state: a new path for the state and for the checkpoint."


def _accept(what: str) -> str:
    return f"pass accept_gap=True to {what}, which is recorded"


def _batches(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"batches {first} to {last}"


def _rewind(config: QueryConfig, asked: Asked) -> str:
    """Name the batch of the state from which the checkpoint goes on, if the state can still go back there."""
    if asked.batch == 0 or asked.query is None:
        return ""
    try:
        offsets = asked.checkpoint.digest(asked.batch - 1) or None
    except UnreadableCheckpoint:
        return ""
    batch = batch_to_rewind_to(Path(config.root), asked.query, asked.batch - 1, offsets)
    return "" if batch is None else f"call rewind_state({config.root!r}, batch={batch}), "
