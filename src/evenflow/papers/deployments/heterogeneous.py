"""Fig. 13 and 14 of `heterogeneous`: equal workers, of which a twelfth then falls to 30 percent.

Both are phases of one query: capacities change while it runs, and the schemes that hear of it adapt.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from evenflow.papers import rules as r
from evenflow.papers.deployments import common
from evenflow.papers.experiment import Claim, Row
from evenflow.papers.figures import Bars
from evenflow.papers.grid import at, grid
from evenflow.papers.heterogeneous.queues import memory_alike, memory_in_order
from evenflow.papers.table import Table

SUBJECTS = [*map(common.subject, ("key", "partial-key", "consistent", "shuffle", "fill"))]
EQUAL, SLOW = "equal", "slow"


def _point(small: bool, delay: float, **point: Any) -> Row:
    workers, sources, interval = (12, 4, 2.5) if small else (24, 8, 4.0)
    phases = {EQUAL: [1.0] * workers, SLOW: [0.3] * (workers // 12) + [1.0] * (workers - workers // 12)}
    return {"workers": workers, "sources": sources, "interval": interval, "service": delay / 1000,
            "phases": phases, **point, "labels": {"delay": delay}}  # fmt: skip


_POINTS = grid(_point, small=at(True, False), delay=at(1.0, (0.1, 0.5, 1.0)), subjects=[SUBJECTS],
               stream=lambda config: config.stream("TW"), messages=at(500_000, 2_000_000))  # fmt: skip


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


_PAIRS = "the paper's percentages include the engine; memory here is (key, worker) pairs per key"
_CAPTION = (
    "Small: 12 workers, 4 sources, 1 ms per message, a micro-batch every 2.5 s; paper: 24, 8, 0.1 to 1 ms, "
    f"4 s. fill added. {common.STREAMED} Latencies are compared at KG's rate."
)
_CHANGED = f"{_CAPTION} Speeds change while the query of fig13 runs; the next 6 intervals are not measured."
_METRICS = {"throughput": "messages per second", "latency_mean": "mean latency at KG's rate, s"}
_OTHERS = ("KG", "PKG", "SG")
_figure = partial(common.as_stream, "heterogeneous")

# fmt: off
EXPERIMENTS = [
    _figure("fig13", "Equal workers", _CAPTION, _POINTS,
            Bars(x="delay", y=_METRICS | {"memory": "pairs per key"},
                 rows=lambda t: t.only(phase=EQUAL, of="KG")),
        Claim("7.2 Q4", "PKG, SG and CG beat KG in throughput and latency", "better",
              r.graded(_over_key,
                       lambda found: all(more > 1.05 and less < 0.95 for more, less in found.values()),
                       text=_over_key_text), common.FLOOR),
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
                     "comparisons of throughput and mean latency with KG, PKG and SG"), common.FLOOR),
        Claim("7.2 Q4", "throughput up to 3.44 times KG's (abstract: 2)", ">= 2x",
              r.between(r.ratio("throughput", "CG", "KG", "delay", phase=SLOW), 2, 2 * 3.44, 1.05)),
        Claim("7.2 Q4", "latency up to 2 times better than KG's (abstract: 3.44)", ">= 2x",
              r.between(r.ratio("latency_mean", "KG", "CG", "delay", phase=SLOW, of="KG"), 2, 2 * 3.44, 1.05),
              common.FLOOR),
        common.near_prediction(),
    ),
]
