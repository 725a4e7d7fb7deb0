"""The writer that ``stateful`` returns, and the running query that its ``start`` returns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from evenflow.control.decisions import decisions
from evenflow.control.directory import Control
from evenflow.errors import EvenflowError, own_sentence
from evenflow.spark.replanning.listener import batch_listener
from evenflow.spark.state.commit_protocol import MicroBatches, Sink
from evenflow.spark.state.continuity import check_start
from evenflow.spark.state.lease import release_lease, take_lease, track_lease_holder
from evenflow.spark.state.query_config import QueryConfig
from evenflow.spark.state.requests import request_rebalance, request_rescale
from evenflow.spark.state.table import history
from evenflow.storage import open_storage

BATCH_COLUMN = "batch"


@dataclass(frozen=True)
class StateLoads:
    """The load of each worker in the last micro-batch; lists have one value per worker."""

    batch: int
    rows: list[int]
    seconds: list[float]  # busy time
    keys: list[int]  # touched
    written: list[int]  # bytes of state
    read: list[int]  # bytes of state files, excluding what was cached in memory
    late: int  # rows
    expired: int  # keys
    state_keys: int  # total number of keys with state
    requests: int  # to the stores of state and control since the commit before, by the driver and all workers

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.rows)

    def _repr_html_(self) -> str:
        """Show the loads in a notebook."""
        from evenflow.charts import notebook

        title = f"batch {self.batch}: {sum(self.rows):,} rows on {self.workers} workers"
        facts = (
            ("keys with state", self.state_keys),
            ("requests to stores", self.requests),
            ("late rows", self.late),
            ("expired", self.expired),
        )
        return notebook.card(
            title,
            notebook.bars(self.rows, "Rows per worker"),
            notebook.bars(self.seconds, "Busy seconds per worker"),
            notebook.table(("", "value"), facts),
        )


@dataclass(frozen=True)
class WriteTo:
    """A sink that writes each batch to its own directory; idempotent, since a replay overwrites it."""

    path: str
    format: str

    def __call__(self, outputs: DataFrame, batch: int) -> None:
        """Write the outputs of one batch."""
        outputs.write.format(self.format).mode("overwrite").save(f"{self.path}/{BATCH_COLUMN}={batch}")


class StatefulWriter:
    """A stateful query that has not been started."""

    def __init__(self, frame: DataFrame, config: QueryConfig):
        self.frame = frame
        self.config = config

    def start(
        self, sink: Sink | str | Path, format: str | None = None, *, name: str | None = None, **trigger: Any
    ) -> StatefulQuery:
        """Start the query. ``sink(df, batch_id)`` gets the outputs of each micro-batch.

        It may be called again for the last batch after a restart, with exactly the same rows, so it must be
        idempotent. If ``sink`` is a path, each batch is written to its own directory ``batch=N`` below it, in
        ``format`` ("parquet" by default). ``trigger`` is as for ``DataStreamWriter.trigger``:
        ``processingTime="5 seconds"``, ``availableNow=True``.
        """
        config, root = self.config, self.config.root
        batches = MicroBatches(config, self._sink(sink, format))
        spark = self.frame.sparkSession
        remote = "connect" in type(spark).__module__
        take_lease(root, config.token)
        try:
            check_start(config, spark)
            if remote:  # the server process that commits takes the lease
                release_lease(root, config.token)
            else:
                batches.table().files()
            writer = self.frame.writeStream.foreachBatch(batches)
            writer = writer.option("checkpointLocation", config.checkpoint)
            if name is not None:
                writer = writer.queryName(name)
            listener = batch_listener(spark)
            query = (writer.trigger(**trigger) if trigger else writer).start()
        except BaseException:
            release_lease(root, config.token)
            raise
        track_lease_holder(root, config.token, lambda: bool(query.isActive))
        listener.log_end(str(query.runId), Control(config.control))
        return StatefulQuery(query, config)

    def _sink(self, sink: Any, format: str | None) -> Sink:
        if isinstance(sink, str | Path):
            if BATCH_COLUMN in (field.name.lower() for field in self.config.output.fields):
                raise EvenflowError(
                    f"schema has a column {BATCH_COLUMN!r}, which names the directories below "
                    f"{str(sink)!r}; rename it."
                )
            return WriteTo(str(sink), format or "parquet")
        if not callable(sink):
            raise EvenflowError(
                f"sink is {sink!r}; pass a function of a DataFrame and a batch id, or a path."
            )
        if format is not None:
            raise EvenflowError(f"format is {format!r} but sink is a function; omit format, or pass a path.")
        return sink


class FailedQueryError(EvenflowError, StreamingQueryException):
    """A query failed with an error of evenflow's: its sentence first, then what Spark says around it."""

    def __init__(self, sentence: str, text: str):
        StreamingQueryException.__init__(self, message=f"{sentence}\n\n{text}")


@contextmanager
def _sentence_first() -> Iterator[None]:
    try:
        yield
    except StreamingQueryException as error:
        sentence = own_sentence(str(error))
        if sentence is None:
            raise
        raise FailedQueryError(sentence, str(error)) from None


class StatefulQuery:
    """A running stateful query: all attributes of Spark's StreamingQuery, and those defined here."""

    def __init__(self, query: Any, config: QueryConfig):
        self.query = query
        self.config = config

    def __getattr__(self, name: str) -> Any:
        if name in ("query", "config"):  # not set yet, as while unpickling
            raise AttributeError(name)
        return getattr(self.query, name)

    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until all rows that are there have been processed; raise the error of a query that failed."""
        with _sentence_first():
            self.query.processAllAvailable()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802
        """Wait until the query ends, as Spark's method does; raise its error if it failed."""
        with _sentence_first():
            ended: bool | None = self.query.awaitTermination(timeout)
            return ended

    def stop(self) -> None:
        """Stop the query and release the lease on its state."""
        self.query.stop()
        release_lease(self.config.root, self.config.token)

    def rescale(self, workers: int) -> None:
        """Change the number of workers from the next micro-batch on; the change survives restarts."""
        request_rescale(open_storage(self.config.root), Control(self.config.control), workers)

    def rebalance(self) -> None:
        """Balance the keys anew from the next micro-batch on, even if that costs more than it gains."""
        request_rebalance(open_storage(self.config.root), Control(self.config.control))

    def loads(self) -> StateLoads:
        """Return the load of each worker in the last committed batch."""
        for _, committed in history(open_storage(self.config.root)):
            loads = committed.loads
            return StateLoads(
                batch=committed.batch,
                rows=loads["rows"],
                seconds=loads["seconds"],
                keys=loads["touched"],
                written=loads["state_bytes"],
                read=loads["bytes_read"],
                late=sum(loads["late"]),
                expired=sum(loads["expired"]),
                state_keys=loads["state_keys"],
                requests=loads.get("requests", 0),
            )
        raise EvenflowError("no batch has been committed yet; wait for one.")

    def migrations(self) -> list[dict[str, Any]]:
        """Return the migrations of keys to new owners, oldest first: batch, workers, keys, bytes.

        ``part`` is the share of all keys that moved, ``ideal`` the share that had to (that of the workers
        that joined or left, at least one worker's), and ``relative_migration`` the one divided by the other.
        """
        return list(decisions(Control(self.config.control), "migration"))

    def gaps(self) -> list[dict[str, Any]]:
        """Return the gaps that ``accept_gap=True`` accepted, oldest first: batches and ids of both sides."""
        return list(decisions(Control(self.config.control), "gap"))

    def decisions(self) -> list[dict[str, Any]]:
        """Return the decisions of the adaptivity loop, oldest first, with its measurements."""
        return list(decisions(Control(self.config.control), "decision"))
