"""Fig. 2, 4, 18-20 of `evolving`: streams that drift, on a cluster."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.papers.deployments import SPARK
from evenflow.papers.deployments.measure import deployed
from evenflow.papers.deployments.rules import (
    HANDED_IN,
    best_cut,
    best_times,
    near_prediction,
    near_shuffle,
    plot_bars,
    plot_by,
    point,
    ratio,
    small_messages,
    subject,
)
from evenflow.papers.deployments.steadiness import fluctuation, plot, steadiness
from evenflow.papers.experiment import Claim, Experiment, Judgement, Row, Rows, Setting, at_least, at_most

SERVICE = 0.0004
SUBJECTS = [
    subject("key"),
    subject("partial-key"),
    subject("d-choices"),
    subject("w-choices"),
    subject("shuffle"),
    subject("fish"),
    subject("fill"),
]
COUNTERS = [
    subject("key", "FG"),
    subject("partial-key"),
    subject("shuffle"),
    *(
        subject(scheme, f"{label}{counters}", capacity=counters)
        for label, scheme in (("D-C", "d-choices"), ("W-C", "w-choices"))
        for counters in (100, 1000)
    ),
    subject("fill"),
]
SKEWED = [one for one in SUBJECTS if one[1] != "partial-key"]


def _counter_points(setting: Setting) -> list[Row]:
    return [
        point(
            setting,
            setting.stream("AM"),
            workers * setting.pick(2500, 5000),
            workers,
            5,
            SERVICE,
            COUNTERS,
        )
        for workers in setting.pick((16, 48), (16, 32, 64, 128))
    ]


def _steady_points(setting: Setting) -> list[Row]:
    return [{"messages": setting.pick(200, 2000), "master": getattr(setting, "master", None)}]


def _cluster_points(setting: Setting) -> list[Row]:
    workers, sources = setting.pick((48, 16), (128, 32))
    messages = workers * setting.pick(2500, 7500)
    return [
        point(setting, setting.stream(name), messages, workers, sources, SERVICE, SUBJECTS, {"data": name})
        for name in ("MT", "AM")
    ]


def _skew_points(setting: Setting) -> list[Row]:
    workers, sources = setting.pick((48, 16), (128, 32))
    rows = []
    for z in setting.pick((1.0, 1.5, 2.0), (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)):
        messages = workers * setting.pick(small_messages(z), 7500)
        stream = f"evolving:z={z},keys=100000,messages={messages},seed=1"
        rows.append(point(setting, stream, None, workers, sources, SERVICE, SKEWED, {"z": z}))
    return rows


def _high_latency(rows: Rows) -> Judgement:
    workers = max(row["workers"] for row in rows)
    return at_least(ratio(rows, "latency_p99", "FG", "SG", workers=workers), 10, loosely=1.05)


def _of_shuffle(limit: float, z: float | None = None) -> Callable[[Rows], Judgement]:
    def judged(rows: Rows) -> Judgement:
        skews = [z] if z is not None else sorted({row["z"] for row in rows})
        return at_most(max(ratio(rows, "pairs", "FISH", "SG", z=one) for one in skews), limit, loosely=0.5)

    return judged


_SMALL = "so few messages give SG few pairs; its memory grows with the messages per key"
_MILD = "the streams that stand in are less skewed than the paper's: even one worker per key loses little"
_ENOUGH = (
    "D-C and W-C as read here find the head on these streams, and all messages are handed in at once: no "
    "scheme that is balanced can be far ahead of another"
)
_CAPTION = f"Small: 48 workers, 16 sources; paper: 128, 32. 0.4 ms per message. fill joins. {HANDED_IN}"

EXPERIMENTS = [
    Experiment(
        "evolving",
        "fig2",
        "Latency on AM by the number of workers, on Spark",
        f"5 sources, 0.4 ms per message. fill joins. {HANDED_IN}",
        _counter_points,
        deployed,
        plot_by(
            "workers",
            "workers",
            {
                "latency_mean": "mean, s",
                "latency_p50": "p50, s",
                "latency_p95": "p95, s",
                "latency_p99": "p99, s",
            },
        ),
        (
            Claim(
                "2.3",
                "one worker per key gives a high p99 at the largest scale",
                "FG 3945 ms, PKG 2808 ms; SG far below",
                _high_latency,
                _MILD,
            ),
            near_prediction(),
        ),
        on=SPARK,
    ),
    Experiment(
        "evolving",
        "fig4",
        "Fluctuation of a worker's speed, on Spark",
        "10 workers, 12 batches each of equal computations; processor time, as the workers share the cores.",
        _steady_points,
        steadiness,
        plot,
        (
            Claim(
                "3",
                "the same work takes a worker the same time",
                "4.37 percent on average",
                fluctuation,
                "workers share cores with each other and with whatever else this machine does",
            ),
        ),
        on=SPARK,
    ),
    Experiment(
        "evolving",
        "fig18",
        "Latency on MT and AM, on Spark",
        _CAPTION,
        _cluster_points,
        deployed,
        plot_bars("data", {"latency_mean": "mean, s", "latency_p99": "p99, s"}),
        (
            Claim(
                "6.6",
                "FISH's mean latency is far below W-C's",
                "-87.12 percent",
                best_cut("latency_mean", "FISH", "W-C", "data", 0.8712),
                _ENOUGH,
            ),
            Claim(
                "6.6",
                "FISH's p99 is far below W-C's",
                "-76.34 percent",
                best_cut("latency_p99", "FISH", "W-C", "data", 0.7634),
                _ENOUGH,
            ),
        ),
        on=SPARK,
    ),
    Experiment(
        "evolving",
        "fig19",
        "Throughput on MT and AM, on Spark",
        _CAPTION,
        _cluster_points,
        deployed,
        plot_bars("data", {"throughput": "messages per second"}),
        (
            Claim(
                "6.6",
                "FISH's throughput is 1.32 times W-C's",
                "1.32x",
                best_times("throughput", "FISH", "W-C", "data", 1.32),
                _ENOUGH,
            ),
            Claim(
                "6.6",
                "FISH's throughput is 1.48 times D-C's",
                "1.48x",
                best_times("throughput", "FISH", "D-C", "data", 1.48),
                _ENOUGH,
            ),
            near_prediction(),
        ),
        on=SPARK,
    ),
    Experiment(
        "evolving",
        "fig20",
        "Memory by skew, on Spark",
        f"Evolving Zipf, 10^5 keys; the ranks reverse for the last fifth. {_CAPTION}",
        _skew_points,
        deployed,
        plot_by("z", "skew z", {"pairs": "pairs of key and worker", "throughput": "messages per second"}),
        (
            Claim(
                "6.6",
                "at z = 1.0 FISH's memory is 3.34 percent of SG's",
                "3.34 percent",
                _of_shuffle(0.0334, 1.0),
                _SMALL,
            ),
            Claim("6.6", "always below 16 percent of SG's", "< 16 percent", _of_shuffle(0.16), _SMALL),
            near_shuffle("D-C", "W-C", "FISH", "fill"),
            near_prediction(),
        ),
        on=SPARK,
    ),
]
