"""Fig. 2, 4, 18-20 of `evolving`: streams that drift, on a cluster."""

from __future__ import annotations

from functools import partial

from evenflow.papers.deployments.common import (
    HANDED_IN,
    best_cut,
    near_prediction,
    near_shuffle,
    on_spark,
    point,
    small_messages,
    subject,
)
from evenflow.papers.deployments.steadiness import fluctuation, steadiness
from evenflow.papers.experiment import Claim, Row, RunConfig
from evenflow.papers.figures import Bars, Lines
from evenflow.papers.rules import at_least, at_most, at_scale, best_times, ratio

SERVICE = 0.0004
SUBJECTS = [
    *map(subject, ("key", "partial-key", "d-choices", "w-choices", "shuffle", "fish", "fill")),
]
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
SKEWED = [entry for entry in SUBJECTS if entry[1] != "partial-key"]


def _counter_points(config: RunConfig) -> list[Row]:
    per_worker = config.pick(2500, 5000)
    return [
        point(config, config.stream("AM"), workers * per_worker, workers, 5, SERVICE, COUNTERS)
        for workers in config.pick((16, 48), (16, 32, 64, 128))
    ]


def _steady_points(config: RunConfig) -> list[Row]:
    return [{"messages": config.pick(200, 2000), "master": getattr(config, "master", None)}]


def _cluster_points(config: RunConfig) -> list[Row]:
    workers, sources = config.pick((48, 16), (128, 32))
    messages = workers * config.pick(2500, 7500)
    return [
        point(config, config.stream(name), messages, workers, sources, SERVICE, SUBJECTS, {"data": name})
        for name in ("MT", "AM")
    ]


def _skew_points(config: RunConfig) -> list[Row]:
    workers, sources = config.pick((48, 16), (128, 32))
    rows = []
    for z in config.pick((1.0, 1.5, 2.0), (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)):
        messages = workers * config.pick(small_messages(z), 7500)
        stream = f"evolving:z={z},keys=100000,messages={messages},seed=1"
        rows.append(point(config, stream, None, workers, sources, SERVICE, SKEWED, {"z": z}))
    return rows


_SMALL = "so few messages give SG few pairs; its memory grows with the messages per key"
_MILD = "the streams that stand in are less skewed than the paper's: even one worker per key loses little"
_ENOUGH = (
    "D-C and W-C as read here find the head on these streams, and all messages are handed in at once: no "
    "scheme that is balanced can be far ahead of another"
)
_CAPTION = f"Small: 48 workers, 16 sources; paper: 128, 32. 0.4 ms per message. fill joins. {HANDED_IN}"
_LATENCY = {
    "latency_mean": "mean, s",
    "latency_p50": "p50, s",
    "latency_p95": "p95, s",
    "latency_p99": "p99, s",
}
_figure = partial(on_spark, "evolving")

# fmt: off
EXPERIMENTS = [
    _figure("fig2", "Latency on AM by the number of workers",
            f"5 sources, 0.4 ms per message. fill joins. {HANDED_IN}",
            _counter_points, Lines(x="workers", y=_LATENCY),
        Claim("2.3", "one worker per key gives a high p99 at the largest scale",
              "FG 3945 ms, PKG 2808 ms; SG far below",
              at_least(at_scale(ratio("latency_p99", "FG", "SG")), 10, 1.05), _MILD),
        near_prediction(),
    ),
    _figure("fig4", "Fluctuation of a worker's speed",
            "10 workers, 12 batches each of equal computations; "
            "processor time, as the workers share the cores.",
            _steady_points, Lines(x="batch", y="seconds", by="worker", ylabel="processor seconds of a batch"),
        Claim("3", "the same work takes a worker the same time", "4.37 percent on average",
              at_most(fluctuation, 0.0437, 0.25, "{:.1%} on average, at most {:.1%}"),
              "workers share cores with each other and with whatever else this machine does"),
            measure=steadiness,
    ),
    _figure("fig18", "Latency on MT and AM", _CAPTION, _cluster_points,
            Bars(x="data", y={"latency_mean": "mean, s", "latency_p99": "p99, s"}),
        Claim("6.6", "FISH's mean latency is far below W-C's", "-87.12 percent",
              best_cut("latency_mean", "FISH", "W-C", "data", 0.8712), _ENOUGH),
        Claim("6.6", "FISH's p99 is far below W-C's", "-76.34 percent",
              best_cut("latency_p99", "FISH", "W-C", "data", 0.7634), _ENOUGH),
    ),
    _figure("fig19", "Throughput on MT and AM", _CAPTION, _cluster_points,
            Bars(x="data", y={"throughput": "messages per second"}),
        Claim("6.6", "FISH's throughput is 1.32 times W-C's", "1.32x",
              best_times("throughput", "FISH", "W-C", "data", paper=1.32), _ENOUGH),
        Claim("6.6", "FISH's throughput is 1.48 times D-C's", "1.48x",
              best_times("throughput", "FISH", "D-C", "data", paper=1.48), _ENOUGH),
        near_prediction(),
    ),
    _figure("fig20", "Memory by skew",
            f"Evolving Zipf, 10^5 keys; the ranks reverse for the last fifth. {_CAPTION}", _skew_points,
            Lines(x="z", y={"pairs": "pairs of key and worker", "throughput": "messages per second"},
                                xlabel="skew z"),
        Claim("6.6", "at z = 1.0 FISH's memory is 3.34 percent of SG's", "3.34 percent",
              at_most(ratio("pairs", "FISH", "SG", z=1.0), 0.0334, 0.5), _SMALL),
        Claim("6.6", "always below 16 percent of SG's", "< 16 percent",
              at_most(ratio("pairs", "FISH", "SG", "z"), 0.16, 0.5), _SMALL),
        near_shuffle("D-C", "W-C", "FISH", "fill"),
        near_prediction(),
    ),
]
