"""Fig. 2, 4, 18-20 of `evolving`: streams that drift, on a cluster.

Fig. 4 asks whether the same work takes a worker the same time: ten workers, each with twelve batches of as
many messages, every message the same computation. Workers of one machine share its cores, so a batch's time
is the processor time that its worker used, not wall time. A worker's fluctuation is the difference between
its slowest and its fastest batch, relative to its mean.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import evenflow as ef
from evenflow.kernels import Float64Array
from evenflow.papers import rules as r
from evenflow.papers.deployments import common
from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.papers.deployments.common import subject
from evenflow.papers.deployments.finished import Finished
from evenflow.papers.deployments.harness import open_harness
from evenflow.papers.experiment import Claim, Row
from evenflow.papers.figures import Bars, Lines
from evenflow.papers.grid import at, grid, on_stream, streams
from evenflow.papers.table import Table

SERVICE = 0.0004
SUBJECTS = [*map(subject, ("key", "partial-key", "d-choices", "w-choices", "shuffle", "fish", "fill"))]
SKEWED = [entry for entry in SUBJECTS if entry[1] != "partial-key"]
COUNTERS = [
    subject("key", "FG"),
    *map(subject, ("partial-key", "shuffle")),
    *(
        subject(scheme, f"{label}{counters}", capacity=counters)
        for label, scheme in (("D-C", "d-choices"), ("W-C", "w-choices"))
        for counters in (100, 1000)
    ),
    subject("fill"),
]
BATCHES = 12


def _counter_point(workers: int, per_worker: int, **point: Any) -> Row:
    return {"messages": workers * per_worker, "workers": workers, "sources": 5, "service": SERVICE, **point}


def _cluster(small: bool) -> Row:
    workers, sources, per_worker = (48, 16, 2500) if small else (128, 32, 7500)
    return {"workers": workers, "sources": sources, "messages": workers * per_worker, "service": SERVICE}


def _cluster_point(data: tuple[str, str], small: bool) -> Row:
    return on_stream(data, subjects=SUBJECTS, **_cluster(small))


def _skew_point(z: float, small: bool) -> Row:
    cluster = _cluster(small)
    messages = cluster["workers"] * common.small_messages(z) if small else cluster["messages"]
    stream = f"evolving:z={z},keys=100000,messages={messages},seed=1"
    return {**cluster, "stream": stream, "messages": None, "subjects": SKEWED, "labels": {"z": z}}


_SMALL_RUN = at(True, False)
_COUNTER_POINTS = grid(_counter_point, workers=at((16, 48), (16, 32, 64, 128)), per_worker=at(2500, 5000),
                       stream=lambda config: config.stream("AM"), subjects=[COUNTERS], labels={})  # fmt: skip
_CLUSTER_POINTS = grid(_cluster_point, data=streams("MT", "AM"), small=_SMALL_RUN)
_SKEW_POINTS = grid(_skew_point, z=at((1.0, 1.5, 2.0), (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)), small=_SMALL_RUN)


def steadiness(messages: int, master: str | None = None) -> list[Row]:
    """Let ten workers compute twelve batches of ``messages`` messages each; a row per worker and batch."""
    stream = Messages.of(f"zipf:z=1,keys=10000,messages={10 * BATCHES * messages},seed=1")
    with open_harness() as harness:
        run = harness.run(ef.scheme("shuffle"), stream, Cluster(10, 5, 1e-4, kind="cpu"))
    return [
        {"worker": worker, "batch": batch, "seconds": float(seconds)}
        for worker, finished in enumerate(run.workers)
        for batch, seconds in enumerate(batch_seconds(finished, BATCHES))
    ]


def batch_seconds(finished: Finished, batches: int) -> Float64Array:
    """Return the processor seconds of each of ``batches`` equal parts of what a worker served.

    >>> batch_seconds(Finished(np.array([[0, 1, 3, 0.3], [1, 2, 1, 0.2]])), 2).tolist()
    [0.2, 0.3]
    """
    served, used = (np.concatenate([[0.0], np.cumsum(finished.slices[:, column])]) for column in (2, 3))
    ends = np.linspace(0, served[-1], batches + 1)
    found: Float64Array = np.diff(np.interp(ends, served, used)).round(9)
    return found


def _fluctuation(t: Table) -> tuple[float, float]:
    """Return (slowest - fastest) / mean of a worker's batches: the mean over the workers, and the largest."""
    seconds = t.groupby("worker")["seconds"]
    found = (seconds.max() - seconds.min()) / seconds.mean()
    return float(found.mean()), float(found.max())


_SMALL = "with so few messages SG has few pairs; its memory grows with the messages per key"
_MILD = "the stand-in streams are less skewed than the paper's: even one worker per key costs little"
_ENOUGH = (
    "our D-C and W-C find the head on these streams, and all messages are submitted at once: no balanced "
    "scheme can be far ahead of another"
)
_CAPTION = (
    f"Small: 48 workers, 16 sources; paper: 128, 32. 0.4 ms per message. fill added. {common.SUBMITTED}"
)
_LATENCY = {
    "latency_mean": "mean, s",
    "latency_p50": "p50, s",
    "latency_p95": "p95, s",
    "latency_p99": "p99, s",
}
_figure = partial(common.on_spark, "evolving")

# fmt: off
EXPERIMENTS = [
    _figure("fig2", "Latency on AM by the number of workers",
            f"5 sources, 0.4 ms per message. fill added. {common.SUBMITTED}",
            _COUNTER_POINTS, Lines(x="workers", y=_LATENCY),
        Claim("2.3", "one worker per key leads to a high p99 at the largest scale",
              "FG 3945 ms, PKG 2808 ms; SG far below",
              r.at_least(r.at_scale(r.ratio("latency_p99", "FG", "SG")), 10, 1.05), _MILD),
        common.near_prediction(),
    ),
    _figure("fig4", "Fluctuation of a worker's speed",
            "10 workers, 12 batches of identical computations each; processor time, since workers share "
            "cores.",
            grid(messages=at(200, 2000)),
            Lines(x="batch", y="seconds", by="worker", ylabel="processor seconds of a batch"),
        Claim("3", "the same work takes a worker the same time", "4.37 percent on average",
              r.at_most(_fluctuation, 0.0437, 0.25, "{:.1%} on average, at most {:.1%}"),
              "workers share cores with each other and with everything else on this machine"),
        measure=steadiness,
    ),
    _figure("fig18", "Latency on MT and AM", _CAPTION, _CLUSTER_POINTS,
            Bars(x="data", y={"latency_mean": "mean, s", "latency_p99": "p99, s"}),
        Claim("6.6", "FISH's mean latency is far below W-C's", "-87.12 percent",
              common.best_cut("latency_mean", "FISH", "W-C", "data", 0.8712), _ENOUGH),
        Claim("6.6", "FISH's p99 is far below W-C's", "-76.34 percent",
              common.best_cut("latency_p99", "FISH", "W-C", "data", 0.7634), _ENOUGH),
    ),
    _figure("fig19", "Throughput on MT and AM", _CAPTION, _CLUSTER_POINTS,
            Bars(x="data", y={"throughput": "messages per second"}),
        Claim("6.6", "FISH's throughput is 1.32 times W-C's", "1.32x",
              r.best_times("throughput", "FISH", "W-C", "data", paper=1.32), _ENOUGH),
        Claim("6.6", "FISH's throughput is 1.48 times D-C's", "1.48x",
              r.best_times("throughput", "FISH", "D-C", "data", paper=1.48), _ENOUGH),
        common.near_prediction(),
    ),
    _figure("fig20", "Memory by skew",
            f"Evolving Zipf, 10^5 keys; the ranks reverse for the last fifth. {_CAPTION}", _SKEW_POINTS,
            Lines(x="z", y={"pairs": "(key, worker) pairs", "throughput": "messages per second"},
                                xlabel="skew z"),
        Claim("6.6", "at z = 1.0 FISH's memory is 3.34 percent of SG's", "3.34 percent",
              r.at_most(r.ratio("pairs", "FISH", "SG", z=1.0), 0.0334, 0.5), _SMALL),
        Claim("6.6", "FISH's memory is always below 16 percent of SG's", "< 16 percent",
              r.at_most(r.ratio("pairs", "FISH", "SG", "z"), 0.16, 0.5), _SMALL),
        common.near_shuffle("D-C", "W-C", "FISH", "fill"),
        common.near_prediction(),
    ),
]
