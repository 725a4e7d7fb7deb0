"""The balance of queries as Prometheus metrics, read from their control directories when they are scraped.

Names follow Prometheus' conventions: counters end in ``_total``, units are seconds, bytes and ratios, and
nothing is labelled by key, so that the number of series is bounded by the number of workers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from evenflow.history.query import QueryHistory
from evenflow.history.watch import Watched

MAX_WORKERS = 256  # with a series each, unless the caller decides
RANKS = 5  # hottest keys with a series each
PREFIX = "evenflow_"

_Value = Callable[[QueryHistory, dict[str, Any]], float | None]


def _of(name: str) -> _Value:
    return lambda history, summary: summary.get(name)


def _total(name: str) -> _Value:
    return lambda history, summary: summary["totals"][name]


def _plan_age(history: QueryHistory, summary: dict[str, Any]) -> float | None:
    return None if history.plan_time is None else max(0.0, time.time() - history.plan_time)


_COUNTERS: dict[str, tuple[str, _Value]] = {
    "rows": ("Rows placed.", _total("rows")),
    "batches": ("Micro-batches with rows.", _total("batches")),
    "batch_seconds": ("Duration of all micro-batches.", _total("seconds")),
    "plan_changes": ("New plans that moved keys.", _total("plans")),
    "migrations": ("Batches before which keyed state moved to new owners.", _total("migrations")),
    "migrated_keys": ("Keys whose state moved to a new owner.", _total("moved_keys")),
    "late_rows": ("Rows below the watermark.", _total("late")),
    "fallbacks": ("Plans that could not be read, so that rows were placed by hash.", _of("fallbacks")),
}
_GAUGES: dict[str, tuple[str, _Value]] = {
    "workers": ("Workers in the last batch.", _of("workers")),
    "last_batch_rows": ("Rows of the last batch.", _of("rows")),
    "last_batch_duration_seconds": ("Duration of the last batch.", _of("seconds")),
    "last_batch_timestamp_seconds": ("When the last batch was logged, in seconds since 1970.", _of("time")),
    "max_over_mean_ratio": ("Rows of the fullest worker over the mean.", _of("max_over_mean")),
    "hashed_max_over_mean_ratio": (
        "The same if Spark's hashing had placed the rows of the last batch that was compared.",
        _of("hashed_max_over_mean"),
    ),
    "busy_over_mean_ratio": ("Busy time of the busiest worker over the mean.", _of("busy_over_mean")),
    "keys": ("Distinct keys in the last batch.", _of("keys")),
    "key_homes_ratio": ("Workers per key in the last batch; 1 is key grouping.", _of("memory")),
    "source_backlog_rows": (
        "Rows that wait in Kafka after the last batch.", _of("waiting"),
    ),
    "plan_age_seconds": ("Time since the plan last moved keys.", _plan_age),
    "state_bytes": ("Size of the keyed state.", _of("state_bytes")),
    "state_keys": ("Keys with state.", _of("state_keys")),
}  # fmt: skip


class Metrics(Collector):
    """A collector for `prometheus_client`, over one or more watched paths.

    Parameters
    ----------
    watched
        What to report; a function is asked again at every scrape until it returns something.
    per_worker
        Whether every worker has series of its own. Default: if there are at most 256 workers.
    """

    def __init__(
        self,
        watched: Sequence[Watched] | Callable[[], Sequence[Watched]],
        per_worker: bool | None = None,
    ):
        self._find = watched if callable(watched) else None
        self._watched = list(watched) if not callable(watched) else []
        self.per_worker = per_worker
        self._lock = threading.Lock()

    def watch(self, watched: Watched) -> None:
        """Report another path, too."""
        with self._lock:
            self._watched.append(watched)

    def describe(self) -> Iterator[Any]:
        """Return nothing: registering must not wait for a batch."""
        return iter(())

    def collect(self) -> Iterator[Any]:
        """Read what is new and yield every metric."""
        with self._lock:
            if self._find is not None and not self._watched:
                self._watched = list(self._find())
            for watched in self._watched:
                watched.poll()
            shown = [(one, one.summary()) for watched in self._watched for one in watched.histories()]
        for name, (text, value) in _COUNTERS.items():
            yield _family(CounterMetricFamily, name, text, shown, value)
        for name, (text, value) in _GAUGES.items():
            yield _family(GaugeMetricFamily, name, text, shown, value)
        yield from self._hot_keys(shown)
        yield from self._workers(shown)

    def _hot_keys(self, shown: list[tuple[QueryHistory, dict[str, Any]]]) -> Iterator[Any]:
        """Yield the hottest keys by rank: their names would be series without bound."""
        text = "Keys with at least a quarter of a worker's share."
        count = GaugeMetricFamily(f"{PREFIX}hot_keys", text, labels=["query"])
        share = GaugeMetricFamily(
            f"{PREFIX}hot_key_share_ratio", "Share of the rows of the hottest keys.", labels=["query", "rank"]
        )
        homes = GaugeMetricFamily(
            f"{PREFIX}hot_key_homes", "Workers of the hottest keys.", labels=["query", "rank"]
        )
        for history, _ in shown:
            hot = history.hot()
            count.add_metric([history.name], len(hot))
            for rank, key in enumerate(hot[:RANKS], 1):
                share.add_metric([history.name, str(rank)], key["share"])
                homes.add_metric([history.name, str(rank)], max(1, key["home_count"]))
        yield from (count, share, homes)

    def _workers(self, shown: list[tuple[QueryHistory, dict[str, Any]]]) -> Iterator[Any]:
        labels = ["query", "worker"]
        rows = CounterMetricFamily(f"{PREFIX}worker_rows", "Rows placed on a worker.", labels=labels)
        busy = CounterMetricFamily(
            f"{PREFIX}worker_busy_seconds", "Time that a worker spent on rows.", labels=labels
        )
        queue = GaugeMetricFamily(
            f"{PREFIX}worker_queue_rows", "Rows that the last batch put before a worker.", labels=labels
        )
        for history, _ in shown:
            last = [] if history.last is None else history.last["rows"]
            wanted = len(last) <= MAX_WORKERS if self.per_worker is None else self.per_worker
            if not wanted:
                continue
            for worker, value in enumerate(last):
                queue.add_metric([history.name, str(worker)], value)
            for worker, value in enumerate(history.worker_rows):
                rows.add_metric([history.name, str(worker)], value)
            for worker, seconds in enumerate(history.worker_busy):
                busy.add_metric([history.name, str(worker)], seconds)
        yield from (rows, busy, queue)


def _family(
    kind: Any, name: str, text: str, shown: list[tuple[QueryHistory, dict[str, Any]]], value: _Value
) -> Any:
    family = kind(f"{PREFIX}{name}", text, labels=["query"])
    for history, summary in shown:
        number = value(history, summary)
        if number is not None:
            family.add_metric([history.name], float(number))
    return family


def serve(metrics: Metrics, port: int, host: str = "127.0.0.1") -> Callable[[], None]:
    """Serve metrics for Prometheus to scrape; return the function that ends that."""
    from prometheus_client import start_http_server

    from evenflow.errors import EvenflowError

    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        raise EvenflowError(
            f"cannot serve metrics on {host} port {port} ({error}); use another --metrics-port."
        ) from None

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
