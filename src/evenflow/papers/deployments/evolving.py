"""Fig. 4, 18-20 of `evolving`: streams that drift, on a cluster.

Fig. 4 asks whether the same work takes a worker the same time. A worker's fluctuation is the difference
between its slowest and its fastest batch, relative to its mean. Streams repeat after six thousand messages
per worker, which FISH sees as one more change.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from evenflow.papers import rules as r
from evenflow.papers.deployments import common
from evenflow.papers.deployments.common import subject
from evenflow.papers.deployments.steadiness import steadiness
from evenflow.papers.experiment import Claim, Row, RunConfig
from evenflow.papers.figures import Bars, Lines
from evenflow.papers.grid import at, grid, on_stream, streams
from evenflow.papers.table import Table

PER_WORKER = 6000  # messages before a stream repeats
SUBJECTS = [*map(subject, ("key", "d-choices", "w-choices", "shuffle", "fish", "fill"))]


def _size(small: bool) -> Row:
    workers, sources, interval = (16, 4, 2.0) if small else (128, 32, 10.0)
    return {"messages": workers * PER_WORKER, "workers": workers, "sources": sources,
            "service": common.service(small), "interval": interval}  # fmt: skip


def _cluster_point(data: tuple[str, str], small: bool) -> Row:
    return on_stream(data, subjects=SUBJECTS, **_size(small))


def _cluster_streams(config: RunConfig) -> list[tuple[str, str]]:
    """Return MT, and AM where there is time for it."""
    return streams(*(("MT",) if config.small else ("MT", "AM")))(config)


def _skew_point(z: float, small: bool) -> Row:
    cluster = _size(small)
    stream = f"evolving:z={z},keys=100000,messages={cluster['messages']},seed=1"
    return {**cluster, "stream": stream, "messages": None, "subjects": SUBJECTS, "labels": {"z": z}}


_SMALL_RUN = at(True, False)
_CLUSTER_POINTS = grid(_cluster_point, data=_cluster_streams, small=_SMALL_RUN)
_SKEW_POINTS = grid(_skew_point, z=at((1.0, 2.0), (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)), small=_SMALL_RUN)


def _fluctuation(t: Table) -> tuple[float, float]:
    """Return (slowest - fastest) / mean of a worker's batches: the mean over the workers, and the largest."""
    seconds = t.groupby("worker")["seconds"]
    found = (seconds.max() - seconds.min()) / seconds.mean()
    return float(found.mean()), float(found.max())


_SMALL = "with so few messages SG has few pairs; its memory grows with the messages per key"
_ENOUGH = (
    "our D-C and W-C find the head on these streams: no balanced scheme can be far ahead of another, and "
    "latency is mostly the wait for the micro-batch"
)
_CAPTION = f"Small: 16 workers, 4 sources; paper: 128, 32; {common.SERVED}. fill added. {common.STREAMED}"
_CLUSTER = f"Small: MT alone. {_CAPTION}"
_BY_SCHEME = " Latencies are compared at 0.95 of each scheme's own throughput."
_figure = partial(common.as_stream, "evolving")
_OWN: Any = {"load": 0.95, "of": "own"}

# fmt: off
EXPERIMENTS = [
    common.on_spark("evolving", "fig4", "Fluctuation of a worker's speed",
            "10 workers, 12 micro-batches of 50,000 messages each, as in the paper, and the same computation "
            "for every message; processor time, since workers share cores.",
            grid(workers=10, sources=5, batches=12, size=50_000),
            Lines(x="batch", y="seconds", by="worker", ylabel="processor seconds of a batch"),
        Claim("3", "the same work takes a worker the same time", "4.37 percent on average",
              r.at_most(_fluctuation, 0.0437, 0.25, "{:.1%} on average, at most {:.1%}"),
              "workers share cores with each other and with everything else on this machine"),
        measure=steadiness,
    ),
    _figure("fig18", "Latency on MT and AM", _CLUSTER + _BY_SCHEME, _CLUSTER_POINTS,
            common.latencies("data"),
        Claim("6.6", "FISH's mean latency is far below W-C's", "-87.12 percent",
              common.best_cut("latency_mean", "FISH", "W-C", "data", 0.8712, **_OWN), _ENOUGH),
        Claim("6.6", "FISH's p99 is far below W-C's", "-76.34 percent",
              common.best_cut("latency_p99", "FISH", "W-C", "data", 0.7634, **_OWN), _ENOUGH),
    ),
    _figure("fig19", "Throughput on MT and AM", _CLUSTER, _CLUSTER_POINTS,
            Bars(x="data", y={"throughput": "messages per second"}, rows=common.at_own_rate),
        Claim("6.6", "FISH's throughput is 1.32 times W-C's", "1.32x",
              r.best_times("throughput", "FISH", "W-C", "data", paper=1.32), _ENOUGH),
        Claim("6.6", "FISH's throughput is 1.48 times D-C's", "1.48x",
              r.best_times("throughput", "FISH", "D-C", "data", paper=1.48), _ENOUGH),
        common.near_prediction(),
    ),
    _figure("fig20", "Memory by skew",
            f"Evolving Zipf, 10^5 keys; the ranks reverse for the last fifth. {_CAPTION}", _SKEW_POINTS,
            Lines(x="z", y={"pairs": "(key, worker) pairs", "throughput": "messages per second"},
                  xlabel="skew z", rows=common.at_own_rate),
        Claim("6.6", "at z = 1.0 FISH's memory is 3.34 percent of SG's", "3.34 percent",
              r.at_most(r.ratio("pairs", "FISH", "SG", z=1.0), 0.0334, 0.5), _SMALL),
        Claim("6.6", "FISH's memory is always below 16 percent of SG's", "< 16 percent",
              r.at_most(r.ratio("pairs", "FISH", "SG", "z"), 0.16, 0.5), _SMALL),
        common.near_shuffle("D-C", "W-C", "FISH", "fill"),
        common.near_prediction(),
    ),
]
