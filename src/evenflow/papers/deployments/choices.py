"""Fig. 13 and 14 of `choices`: throughput and latency on a cluster, by skew."""

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
from evenflow.papers.experiment import Claim, Row, RunConfig
from evenflow.papers.figures import Bars
from evenflow.papers.measures import zipf
from evenflow.papers.rules import below, best_times, each

SUBJECTS = [
    *map(subject, ("key", "partial-key", "shuffle")),
    *(subject(name, warm_up=False) for name in ("d-choices", "w-choices")),
    *map(subject, ("fish", "fill")),
]


def _points(config: RunConfig) -> list[Row]:
    workers, sources, service = config.pick((48, 12, 0.0004), (80, 48, 0.001))
    streams = {z: zipf(z, 1e4, config.pick(workers * small_messages(z), 2_000_000)) for z in (1.4, 1.7, 2.0)}
    return [
        point(config, stream, None, workers, sources, service, SUBJECTS, {"z": z})
        for z, stream in streams.items()
    ]


_QUIET = (
    "nothing but skew slows these workers down, so KG and PKG lose all that it costs, where the paper's "
    "cluster was bound by other things as well"
)
_CAPTION = (
    "Zipf, 10^4 keys; small: 48 workers, 12 sources, 0.4 ms per message, paper: 80, 48, 1 ms. FISH and fill "
    f"join. {HANDED_IN} KG and PKG got a share of the messages (column share)."
)
_figure = partial(on_spark, "choices")

# fmt: off
EXPERIMENTS = [
    _figure("fig13", "Throughput by skew", _CAPTION, _points,
            Bars(x="z", y={"throughput": "messages per second"}, logy=True),
        Claim("V-B Q4", "D-C and W-C match SG's throughput", "equal",
              each(below("throughput", "SG", ("D-C", "W-C"), "z", factor=1 / 0.9),
                   "settings within 10 percent of SG's throughput")),
        Claim("V-B Q4", "at best D-C has 1.5 times PKG's throughput", "1.5x",
              best_times("throughput", "D-C", "PKG", "z", paper=1.5), _QUIET),
        Claim("V-B Q4", "at best D-C has 2.3 times KG's throughput", "2.3x",
              best_times("throughput", "D-C", "KG", "z", paper=2.3), _QUIET),
        near_shuffle("D-C", "W-C", "FISH", "fill"),
        near_prediction(),
    ),
    _figure("fig14", "Latency by skew", _CAPTION, _points,
            Bars(x="z", y={"latency_mean": "mean, s", "latency_p99": "p99, s",
                           "latency_worker": "slowest worker's mean, s"}, logy=True),
        Claim("V-B Q4", "at best D-C's p99 is 60 percent below PKG's", "-60 percent",
              best_cut("latency_p99", "D-C", "PKG", "z", 0.60)),
        Claim("V-B Q4", "at best D-C's p99 is 75 percent below KG's", "-75 percent",
              best_cut("latency_p99", "D-C", "KG", "z", 0.75)),
    ),
]
