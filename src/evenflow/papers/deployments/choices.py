"""Fig. 13 and 14 of `choices`: throughput and latency on a cluster, by skew, of a stream.

Latencies are compared at one rate, the highest at which every scheme is stable: 0.95 of key grouping's.
"""

from __future__ import annotations

from functools import partial

from evenflow.papers import rules as r
from evenflow.papers.deployments import common
from evenflow.papers.deployments.common import subject
from evenflow.papers.experiment import Claim, Row
from evenflow.papers.figures import Bars
from evenflow.papers.grid import at, grid
from evenflow.papers.measures import zipf

SUBJECTS = [*map(subject, ("key", "partial-key", "shuffle", "d-choices", "w-choices", "fill"))]


def _point(z: float, small: bool) -> Row:
    workers, sources, interval = (12, 4, 2.0) if small else (80, 48, 10.0)
    return {"stream": zipf(z, 1e4, 500_000 if small else 2_000_000), "workers": workers, "sources": sources,
            "service": common.service(small), "interval": interval, "subjects": SUBJECTS,
            "labels": {"z": z}}  # fmt: skip


_POINTS = grid(_point, z=at((1.4, 2.0), (1.4, 1.7, 2.0)), small=at(True, False))
_QUIET = (
    "only skew slows these workers down, so KG and PKG pay its full cost, whereas the paper's cluster had "
    "other bottlenecks as well"
)
_FLOOR = f"{common.FLOOR}: judged below"
_CAPTION = (
    f"Zipf, 10^4 keys, {common.SERVED}; small: 12 workers, 4 sources, a micro-batch every 2 s, paper: 80, "
    f"48, 10 s. fill added. {common.STREAMED}"
)
_figure = partial(common.as_stream, "choices")

# fmt: off
EXPERIMENTS = [
    _figure("fig13", "Throughput by skew", _CAPTION, _POINTS,
            Bars(x="z", y={"throughput": "messages per second"}, logy=True),
        Claim("V-B Q4", "D-C and W-C match SG's throughput", "equal",
              r.each(r.below("throughput", "SG", ("D-C", "W-C"), "z", factor=1 / 0.9),
                     "settings within 10 percent of SG's throughput")),
        Claim("V-B Q4", "D-C has up to 1.5 times PKG's throughput", "1.5x",
              r.best_times("throughput", "D-C", "PKG", "z", paper=1.5), _QUIET),
        Claim("V-B Q4", "D-C has up to 2.3 times KG's throughput", "2.3x",
              r.best_times("throughput", "D-C", "KG", "z", paper=2.3), _QUIET),
        common.near_shuffle("D-C", "W-C", "fill"),
        common.near_prediction(),
    ),
    _figure("fig14", "Latency by skew", _CAPTION, _POINTS, common.latencies("z"),
        Claim("V-B Q4", "D-C's p99 is up to 60 percent below PKG's", "-60 percent",
              common.best_cut("latency_p99", "D-C", "PKG", "z", 0.60, of="KG"), _FLOOR),
        Claim("V-B Q4", "D-C's p99 is up to 75 percent below KG's", "-75 percent",
              common.best_cut("latency_p99", "D-C", "KG", "z", 0.75, of="KG"), _FLOOR),
        common.cut_above("p99", "D-C", "PKG", "z", 0.60, of="KG"),
        common.cut_above("p99", "D-C", "KG", "z", 0.75, of="KG"),
    ),
]
