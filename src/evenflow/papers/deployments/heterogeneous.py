"""Fig. 13 and 14 of `heterogeneous`: equal workers, of which a twelfth then falls to 30 percent; section 8.

Both figures are phases of one query: capacities change while it runs, and the schemes that hear of it adapt.
The applications of section 8 are streams with the keys of their rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from evenflow.papers import rules as r
from evenflow.papers.deployments import common
from evenflow.papers.deployments.applications import application
from evenflow.papers.experiment import Claim, Row
from evenflow.papers.figures import Bars
from evenflow.papers.grid import at, grid
from evenflow.papers.heterogeneous.queues import memory_alike, memory_in_order
from evenflow.papers.page import OURS
from evenflow.papers.table import Table

SUBJECTS = [*map(common.subject, ("key", "partial-key", "consistent", "shuffle", "fill"))]
EQUAL, SLOW = "equal", "slow"


def _point(small: bool, delay: float, **point: Any) -> Row:
    workers, sources, interval = (12, 4, 2.0) if small else (24, 8, 4.0)
    phases = {EQUAL: [1.0] * workers, SLOW: [0.3] * (workers // 12) + [1.0] * (workers - workers // 12)}
    return {"workers": workers, "sources": sources, "interval": interval, "service": delay / 1000,
            "phases": phases, **point, "labels": {"delay": delay}}  # fmt: skip


_POINTS = grid(_point, small=at(True, False), delay=at(3.0, (0.1, 0.5, 1.0)), subjects=[SUBJECTS],
               stream=lambda config: config.stream("TW"), messages=at(500_000, 2_000_000))  # fmt: skip


APPS = {
    "naive-bayes": "documents:messages={rows},classes=4,length=12,seed=1",
    "decision-tree:depth=3,bins=32": "points:messages={rows},classes=3,dimensions=5,seed=1",
    "heavy-hitters:capacity=200": "zipf:z=1.1,keys=20000,messages={rows},seed=1",
}


def _app_point(app: tuple[str, str], small: bool) -> Row:
    name, source = app
    workers, sources, interval = (12, 4, 2.0) if small else (24, 8, 4.0)
    rows = 20_000 if small else 200_000
    return {"app": name, "source": source.format(rows=rows), "workers": workers, "sources": sources,
            "interval": interval, "service": common.service(small), "messages": 100_000, "subjects": SUBJECTS,
            "labels": {}}  # fmt: skip


_APP_POINTS = grid(_app_point, app=list(APPS.items()), small=at(True, False))


def _held(t: Table) -> dict[str, float]:
    """Return, by app, CG's state relative to SG's."""
    wide = common.at_own_rate(t).wide("held", "app")
    return {str(app): float(row["CG"] / row["SG"]) for app, row in wide.iterrows()}


def _as_right(t: Table) -> float:
    """Return by how much the share of right answers differs between the schemes, at most."""
    wide = common.at_own_rate(t).dropna(subset=["right"]).wide("right", "app")
    return float((wide.max(axis=1) - wide.min(axis=1)).max())


def _longest(t: Table, column: str, **where: Any) -> Any:
    """Return a column by label at the longest delay."""
    return t.wide(column, delay=t["delay"].max(), **where).iloc[0]


def _over_key(t: Table) -> dict[str, tuple[float, float]]:
    """Return throughput, and mean latency at KG's rate, relative to KG's."""
    throughput = _longest(t, "throughput", phase=EQUAL)
    latency = _longest(t, "latency_mean", phase=EQUAL, of="KG")
    names = ("PKG", "SG", "CG")
    return {name: (throughput[name] / throughput["KG"], latency[name] / latency["KG"]) for name in names}


def _over_key_text(found: dict[str, tuple[float, float]]) -> str:
    texts = (f"{name} {more:.2f}x, latency {less:.2f}" for name, (more, less) in found.items())
    return f"{', '.join(texts)} of KG's"


_WORST = (
    "at a rate that KG can serve, only the messages of its busiest worker are late, a small part of all; how "
    "late, above the empty run, is judged below"
)
_PAIRS = "the paper's percentages include the engine; memory here is (key, worker) pairs per key"
_CAPTION = (
    "Small: 12 workers, 4 sources, 3 ms per message, a micro-batch every 2 s; paper: 24, 8, 0.1 to 1 ms, "
    f"4 s. fill added. {common.STREAMED} Latencies are compared at KG's rate."
)
_CHANGED = f"{_CAPTION} Speeds change while the query of fig13 runs; the next 6 intervals are not measured."
_METRICS = {"throughput": "messages per second", "latency_mean": "mean latency at KG's rate, s"}
_OTHERS = ("KG", "PKG", "SG")
_SPLIT = "PoRC splits every key that meets a full virtual worker"
_figure = partial(common.as_stream, "heterogeneous")

# fmt: off
EXPERIMENTS = [
    _figure("fig13", "Equal workers", _CAPTION, _POINTS,
            Bars(x="delay", y=_METRICS | {"memory": "pairs per key"},
                 rows=lambda t: t.only(phase=EQUAL, of="KG")),
        Claim("7.2 Q4", "PKG, SG and CG beat KG in throughput and latency", "better",
              r.graded(_over_key,
                       lambda found: all(more > 1.05 and less < 0.95 for more, less in found.values()),
                       text=_over_key_text), _WORST),
        Claim(OURS, "above the empty run's, their worst worker's mean latency is below KG's", "<= 0.95 of it",
              r.each(r.below("above_worker", ("PKG", "SG", "CG"), "KG", "delay", factor=0.95, phase=EQUAL,
                             of="KG"), "comparisons")),
        Claim("7.2 Q4", "memory of the cluster: KG 7, PKG and CG 8.5, SG 14 percent", "KG < PKG = CG < SG",
              r.graded(lambda t: _longest(t, "memory", phase=EQUAL),
                       lambda memory: memory_in_order(memory) and memory_alike(memory),
                       memory_in_order, r.named(".2f", names=("KG", "PKG", "CG", "SG", "fill"))),
              caveat=_PAIRS),
    ),
    _figure("fig14", "A twelfth of the workers at 30 percent", _CHANGED, _POINTS,
            Bars(x="delay", y=_METRICS, rows=lambda t: t.only(phase=SLOW, of="KG")),
        Claim("7.2 Q4", "CG outperforms KG, PKG and SG in both", "all",
              r.each(r.all_of(r.below("throughput", _OTHERS, "CG", "delay", factor=1 / 0.98, phase=SLOW),
                              r.below("latency_mean", "CG", _OTHERS, "delay", factor=1.02, phase=SLOW,
                                      of="KG")),
                     "comparisons of throughput and mean latency with KG, PKG and SG"), _WORST),
        Claim("7.2 Q4", "throughput up to 3.44 times KG's (abstract: 2)", ">= 2x",
              r.between(r.ratio("throughput", "CG", "KG", "delay", phase=SLOW), 2, 2 * 3.44, 1.05)),
        Claim("7.2 Q4", "latency up to 2 times better than KG's (abstract: 3.44)", ">= 2x",
              r.between(r.ratio("latency_mean", "KG", "CG", "delay", phase=SLOW, of="KG"), 2, 2 * 3.44, 1.05),
              _WORST),
        Claim(OURS, "above the empty run's, the worst worker's mean latency is 2 times better", ">= 2x",
              r.at_least(r.ratio("above_worker", "KG", "CG", "delay", phase=SLOW, of="KG"), 2, 1.05,
                         "{:.2f}x")),
        common.near_prediction(),
    ),
    _figure("section8", "Applications",
            "Naive Bayes, decision tree and heavy hitters run with each scheme's online routers; then their "
            "rows as streams. Small: 12 workers, 4 sources; paper: 24, 8. "
            f"{common.SERVED.capitalize()}. Held: counters "
            "(of the same messages), histograms, counters of summaries. Right: of held-out rows. Error: mean "
            f"bound of a count, relative to the hottest key's. fill added. {common.STREAMED}",
            _APP_POINTS,
            Bars(x="app", y={"throughput": "messages per second", "held": "state held", "right": "right",
                             "error": "error"}, logy=("held",), rows=common.at_own_rate),
        Claim("8", "CG reduces the memory footprint of algorithms that use SG", "fewer",
              r.graded(_held, lambda found: max(found.values()) <= 0.75,
                       lambda found: max(found.values()) < 1, r.named(".2f", "CG's state of SG's: ")),
              _SPLIT),
        Claim("8", "while its load stays balanced, unlike KG's", "SG's throughput",
              r.each(r.below("throughput", "SG", "CG", "app", factor=1 / 0.9),
                     "apps in which CG has 0.9 of SG's throughput, or more")),
        Claim("8.2", "CG's error of heavy hitters is below SG's, since fewer summaries hold a key", "below",
              r.at_most(r.ratio("error", "CG", "SG", app="heavy-hitters"), 0.95, 1.0, "{:.2f} of SG's"),
              _SPLIT),
        Claim(OURS, "classifiers are as right under every scheme", "within 0.02",
              r.at_most(_as_right, 0.02, text="{:.3f} apart at most")),
        common.near_prediction(),
        measure=application,
    ),
]
