"""The metrics of a run: after every message, at every mark, at the end of every period, and at the end.

Definitions, with t messages so far (`choices` II, `heterogeneous` 3 and 7, `dynamic` Eq. 7-8):

* I(t) = (max load - mean load) / t, at every 1 percent of the stream; ``imbalance`` is the last value,
  ``imbalance_mean`` the mean of all. After a rescale, loads and t are counted from there: a new worker's
  missing past is not an imbalance.
* ``replicas``: distinct (key, worker) pairs so far; ``memory`` = ``distribution_cost`` = replicas / distinct
  keys.
* ``standard_deviation``: of the workers' loads, in percent of all messages.
* With queueing, over the workers: spread = max - min of queue length, of mean latency and of busy share since
  the previous mark; ``imbalance_queue`` = max - mean of queue / capacity; ``imbalance_utilisation`` = max -
  mean of work sent so far / work the worker could have done so far.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array
from evenflow.schemes import Router
from evenflow.simulator.metrics import KeyOwners, Pairs, Partials, keys_by_worker
from evenflow.simulator.migration import Migrations
from evenflow.simulator.queueing import Queues
from evenflow.simulator.setup import SimulationSetup

Columns = dict[str, npt.NDArray[Any]]
Rows = dict[str, list[float]]


class Observer:
    """Measures one run."""

    def __init__(self, setup: SimulationSetup, queues: Queues | None):
        self.setup = setup
        self.queues = queues
        self.workers = setup.workers
        n = setup.most_workers
        self.pairs = Pairs(n)
        self.head = setup.head
        self.head_loads = np.zeros(n, np.int64)
        self.aggregation = setup.aggregation
        self.partials = Partials(n, self.aggregation.every) if self.aggregation is not None else None
        can_move = setup.scheme.rescales or setup.scheme.needs_load or setup.costs is not None
        self.owners = KeyOwners() if setup.scheme.one_owner and can_move else None
        self.migrations = Migrations(self.pairs, self.owners, setup.costs)
        self._loads_before = np.zeros(n, np.int64)  # at the last rescale
        self._messages_before = 0
        self._over_time: Rows = defaultdict(list)
        self._periods: Rows = defaultdict(list)
        self._aggregator_free = 0.0
        self._aggregator_busy = 0.0
        self._at_mark = (0.0, np.zeros(n), np.zeros(n, np.int64), np.zeros(n))

    @property
    def in_order(self) -> bool:
        """Whether messages must be observed in stream order."""
        return self.queues is not None or self.owners is not None

    def make_room(self, keys: int) -> None:
        """Make room for ``keys`` keys."""
        self.pairs.make_room(keys, self.setup.most_keys)
        if self.partials is not None:
            self.partials.make_room(keys, self.setup.most_keys)
        if self.owners is not None:
            self.owners.make_room(keys)
        if self.head is not None and self.head.size < keys:
            self.head = np.concatenate([self.head, np.zeros(keys - self.head.size, np.bool_)])

    def count(self, ids: Int32Array, workers: Int32Array) -> None:
        """Count messages whose order does not matter."""
        if self.head is None:
            self.pairs.count(ids, workers)
        else:
            self.pairs.count_marked(ids, workers, self.head, self.head_loads)
        if self.partials is not None:
            self.partials.count(ids, workers)

    def rescaled(self, workers: int, routers: Sequence[Router], message: int, hashes: UInt64Array) -> None:
        """Record a new number of workers of ``routers``, from ``message`` on."""
        self.migrations.rescaled(self.workers, routers, message, hashes)
        self.workers = workers
        self._loads_before = self.pairs.loads.copy()
        self._messages_before = message

    def _current_loads(self, message: int) -> tuple[Int64Array, int]:
        loads = (self.pairs.loads - self._loads_before)[: self.workers]
        return loads, message - self._messages_before

    def mark(self, message: int, now: float, routers: Sequence[Router]) -> None:
        """Record all metrics after ``message`` messages, at the time ``now`` of the last one."""
        loads, messages = self._current_loads(message)
        row: dict[str, float] = {
            "messages": message,
            "workers": self.workers,
            "imbalance": (int(loads.max()) - messages / self.workers) / messages,
            "max_load": int(loads.max()),
            "keys": self.pairs.keys,
            "replicas": self.pairs.ever,
        }
        choices = [router.choices for router in routers if router.choices is not None]
        if choices:
            row["choices"] = float(np.mean(choices))
        if self.queues is not None:
            row |= self._queue_metrics(self.queues, now)
        for name, value in row.items():
            self._over_time[name].append(value)

    def _queue_metrics(self, queues: Queues, now: float) -> dict[str, float]:
        queues.settle(now)
        n, state = self.workers, queues.state
        then, busy_then, finished_then, latency_then = self._at_mark
        busy = queues.busy_until(now)
        self._at_mark = (now, busy, state.finished.copy(), state.latency.copy())
        finished = (state.finished - finished_then)[:n]
        total = (state.latency - latency_then)[:n]
        with np.errstate(invalid="ignore", divide="ignore"):
            latency = (total / finished)[finished > 0]
            share = (busy - busy_then)[:n] / (now - then)
            use = (state.work / queues.offered(now))[:n]
        for shares in (share, use):
            shares[~np.isfinite(shares)] = np.nan  # no time has passed
        length = state.length[:n]
        per_capacity = length * self.setup.work / state.capacity[:n]
        return {
            "time": now,
            "queue_mean": float(length.mean()),
            "queue_max": float(length.max()),
            "queue_spread": float(length.max() - length.min()),
            "latency_mean": float(total.sum()) / int(finished.sum()) if latency.size else float("nan"),
            "latency_spread": float(latency.max() - latency.min()) if latency.size else float("nan"),
            "utilisation_mean": float(share.mean()),
            "utilisation_spread": float(share.max() - share.min()),
            "imbalance_queue": float(per_capacity.max() - per_capacity.mean()),
            "imbalance_utilisation": float(use.max() - use.mean()),
        }

    def close_period(self, message: int, now: float) -> None:
        """Send the partial results of a period to the aggregator."""
        assert self.aggregation is not None
        assert self.partials is not None
        partials = self.partials.close()
        row: dict[str, float] = {"messages": message, "partials": partials}
        if self.queues is not None:
            seconds = partials * self.aggregation.cost
            self._aggregator_free = max(self._aggregator_free, now) + seconds
            self._aggregator_busy += seconds
            row |= {"time": now, "seconds": seconds, "lag": self._aggregator_free - now}
        for name, value in row.items():
            self._periods[name].append(value)

    def finish(self, message: int, routers: Sequence[Router]) -> dict[str, Any]:
        """Return all measurements, by the names of the fields of a Result."""
        quantiles: tuple[dict[str, float], Columns] = ({}, {})
        if self.queues is not None:
            self.queues.settle(float("inf"))
            quantiles = self.queues.latencies.quantiles()
        numbers = self._numbers(message)
        numbers["router_bytes"] = sum(router.nbytes for router in routers)
        if self.queues is not None:
            numbers |= self._queue_numbers(self.queues, message, quantiles[0])
        return {
            "numbers": numbers,
            "over_time": {name: np.array(values) for name, values in self._over_time.items()},
            "by_worker": self._by_worker(quantiles[1]),
            "rescales": self.migrations.columns(),
            "periods": {name: np.array(values) for name, values in self._periods.items()},
        }

    def _numbers(self, message: int) -> dict[str, float]:
        loads, messages = self._current_loads(message)
        marks = self._over_time["imbalance"]
        memory = self.pairs.ever / self.pairs.keys
        numbers: dict[str, float] = {
            "keys": self.pairs.keys,
            "imbalance": marks[-1],
            "imbalance_mean": float(np.mean(marks)),
            "max_over_mean": int(loads.max()) * self.workers / messages,
            "replicas": self.pairs.ever,
            "memory": memory,
            "standard_deviation": float(np.std(100.0 * loads / messages)),
            "distribution_cost": memory,
        }
        if self.head is not None:
            numbers["head_keys"] = int(np.count_nonzero(self.head))
            numbers["head_share"] = int(self.head_loads.sum()) / message
        if self._periods:
            numbers["partials"] = int(sum(self._periods["partials"]))
            numbers["partials_per_period"] = float(np.mean(self._periods["partials"]))
        return numbers | self.migrations.numbers() | self.migrations.balance(self.workers)

    def _queue_numbers(self, queues: Queues, message: int, quantiles: dict[str, float]) -> dict[str, float]:
        state = queues.state
        numbers = {
            "latency_mean": float(state.measured_latency.sum() / state.measured.sum()),
            "latency_worst_mean": float(np.nanmax(self._mean_latencies(queues))),
            **{f"latency_{name}": value for name, value in quantiles.items()},
            "throughput": message / queues.makespan,
            "makespan": queues.makespan,
            "utilisation": float(np.mean(queues.utilisation()[: self.workers])),
            "queue_max": max(self._over_time["queue_max"]),
            "imbalance_utilisation": self._over_time["imbalance_utilisation"][-1],
        }
        if self.aggregation is not None:
            end = max(queues.makespan, self._aggregator_free)
            numbers["aggregator_utilisation"] = self._aggregator_busy / end
            numbers["aggregator_lag"] = max(self._periods["lag"])
        return numbers

    def _mean_latencies(self, queues: Queues) -> Float64Array:
        """Return each worker's mean latency, NaN where it finished nothing."""
        with np.errstate(invalid="ignore"):
            means: Float64Array = queues.state.measured_latency / queues.state.measured
        return means

    def _by_worker(self, quantiles: Columns) -> Columns:
        columns: Columns = {
            "worker": np.arange(self.setup.most_workers),
            "messages": self.pairs.loads.copy(),
            "keys": keys_by_worker(self.pairs),
        }
        if self.head is not None:
            columns |= {"head": self.head_loads, "tail": self.pairs.loads - self.head_loads}
        if self.queues is not None:
            state = self.queues.state
            columns |= {
                "capacity": state.capacity / self.setup.work,
                "utilisation": self.queues.utilisation(),
                "latency_mean": self._mean_latencies(self.queues),
                **{f"latency_{name}": values for name, values in quantiles.items()},
            }
        return columns
