"""Fig. 13 and 14 of `choices`: throughput and latency on a cluster, by skew."""

from __future__ import annotations

from evenflow.papers.deployments import SPARK
from evenflow.papers.deployments.measure import deployed
from evenflow.papers.deployments.rules import (
    HANDED_IN,
    best_cut,
    best_times,
    near_prediction,
    near_shuffle,
    plot_bars,
    point,
    ratio,
    small_messages,
    subject,
)
from evenflow.papers.experiment import Claim, Experiment, Judgement, Row, Rows, Setting, share_of
from evenflow.papers.measures import zipf

SKEWS = (1.4, 1.7, 2.0)
SUBJECTS = [
    subject("key"),
    subject("partial-key"),
    subject("shuffle"),
    subject("d-choices", warm_up=False),
    subject("w-choices", warm_up=False),
    subject("fish"),
    subject("fill"),
]


def _points(setting: Setting) -> list[Row]:
    workers, sources, service = setting.pick((48, 12, 0.0004), (80, 48, 0.001))
    rows = []
    for z in SKEWS:
        stream = zipf(z, 1e4, setting.pick(workers * small_messages(z), 2_000_000))
        rows.append(point(setting, stream, None, workers, sources, service, SUBJECTS, {"z": z}))
    return rows


def _match_shuffle(rows: Rows) -> Judgement:
    checks = [ratio(rows, "throughput", label, "SG", z=z) >= 0.9 for z in SKEWS for label in ("D-C", "W-C")]
    return share_of(checks, "settings within 10 percent of SG's throughput")


_QUIET = (
    "nothing but skew slows these workers down, so KG and PKG lose all that it costs, where the paper's "
    "cluster was bound by other things as well"
)
_CAPTION = (
    "Zipf, 10^4 keys; small: 48 workers, 12 sources, 0.4 ms per message, paper: 80, 48, 1 ms. FISH and fill "
    f"join. {HANDED_IN} KG and PKG got a share of the messages (column share)."
)

EXPERIMENTS = [
    Experiment(
        "choices",
        "fig13",
        "Throughput by skew, on Spark",
        _CAPTION,
        _points,
        deployed,
        plot_bars("z", {"throughput": "messages per second"}, log=True),
        (
            Claim("V-B Q4", "D-C and W-C match SG's throughput", "equal", _match_shuffle),
            Claim(
                "V-B Q4",
                "at best D-C has 1.5 times PKG's throughput",
                "1.5x",
                best_times("throughput", "D-C", "PKG", "z", 1.5),
                _QUIET,
            ),
            Claim(
                "V-B Q4",
                "at best D-C has 2.3 times KG's throughput",
                "2.3x",
                best_times("throughput", "D-C", "KG", "z", 2.3),
                _QUIET,
            ),
            near_shuffle("D-C", "W-C", "FISH", "fill"),
            near_prediction(),
        ),
        on=SPARK,
    ),
    Experiment(
        "choices",
        "fig14",
        "Latency by skew, on Spark",
        _CAPTION,
        _points,
        deployed,
        plot_bars(
            "z",
            {
                "latency_mean": "mean, s",
                "latency_p99": "p99, s",
                "latency_worker": "slowest worker's mean, s",
            },
            log=True,
        ),
        (
            Claim(
                "V-B Q4",
                "at best D-C's p99 is 60 percent below PKG's",
                "-60 percent",
                best_cut("latency_p99", "D-C", "PKG", "z", 0.60),
            ),
            Claim(
                "V-B Q4",
                "at best D-C's p99 is 75 percent below KG's",
                "-75 percent",
                best_cut("latency_p99", "D-C", "KG", "z", 0.75),
            ),
        ),
        on=SPARK,
    ),
]
