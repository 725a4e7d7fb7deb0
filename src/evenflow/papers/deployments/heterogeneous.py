"""Fig. 13 and 14 of `heterogeneous`: equal workers, and two workers at 30 percent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evenflow.papers import rules as r
from evenflow.papers.deployments import common
from evenflow.papers.experiment import Claim, Row, RunConfig
from evenflow.papers.figures import Bars
from evenflow.papers.grid import at, grid
from evenflow.papers.heterogeneous.queues import memory_alike, memory_in_order
from evenflow.papers.table import Table

WORKERS = 24
GRACE = 8
SUBJECTS = [*map(common.subject, ("key", "partial-key", "consistent", "shuffle", "fill"))]


def _point(delay: float, **point: Any) -> Row:
    return {"workers": WORKERS, "sources": 8, "service": delay / 1000, **point, "labels": {"delay": delay}}


def _points(slow: int) -> Callable[[RunConfig], list[Row]]:
    """Return the points of a cluster with so many workers at 30 percent."""
    return grid(_point, delay=at(0.5, (0.1, 0.5, 1.0)), stream=lambda config: config.stream("TW"),
                messages=at(48_000, 600_000), subjects=[SUBJECTS],
                speeds=[[0.3] * slow + [1.0] * (WORKERS - slow)], grace=at(GRACE, 2 * GRACE))  # fmt: skip


def _longest(t: Table, column: str) -> Any:
    """Return a column by label at the longest delay."""
    return t.wide(column, delay=t["delay"].max()).iloc[0]


def _over_key(t: Table) -> dict[str, tuple[float, float]]:
    """Return throughput and mean latency relative to KG's."""
    throughput, latency = _longest(t, "throughput"), _longest(t, "latency_mean")
    names = ("PKG", "SG", "CG")
    return {name: (throughput[name] / throughput["KG"], latency[name] / latency["KG"]) for name in names}


def _over_key_text(found: dict[str, tuple[float, float]]) -> str:
    texts = (f"{name} {more:.2f}x, latency {less:.2f}" for name, (more, less) in found.items())
    return f"{', '.join(texts)} of KG's"


_PAIRS = "the paper's percentages include the engine; memory here is (key, worker) pairs per key"
_ONCE = (
    "all messages are submitted at once: latency cannot fall below half of the shortest run, and Spark's "
    "overhead is part of both sides"
)
_CAPTION = (
    "24 workers, 8 sources, 0.5 ms per message (paper: 0.1 to 1 ms). fill added. CG and fill receive "
    f"worker reports between the batches of a warm-up of {GRACE} batches. {common.SUBMITTED}"
)
_METRICS = {"throughput": "messages per second", "latency_mean": "mean latency, s", "memory": "pairs per key"}
_OTHERS = ("KG", "PKG", "SG")
_figure = partial(common.on_spark, "heterogeneous")

# fmt: off
EXPERIMENTS = [
    _figure("fig13", "Equal workers", _CAPTION, _points(0), Bars(x="delay", y=_METRICS),
        Claim("7.2 Q4", "PKG, SG and CG beat KG in throughput and latency", "better",
              r.graded(_over_key,
                       lambda found: all(more > 1.05 and less < 0.95 for more, less in found.values()),
                       text=_over_key_text), _ONCE),
        Claim("7.2 Q4", "memory of the cluster: KG 7, PKG and CG 8.5, SG 14 percent", "KG < PKG = CG < SG",
              r.graded(lambda t: _longest(t, "memory"),
                       lambda memory: memory_in_order(memory) and memory_alike(memory),
                       memory_in_order, r.named(".2f", names=("KG", "PKG", "CG", "SG", "fill"))),
              caveat=_PAIRS),
        common.near_prediction(),
    ),
    _figure("fig14", "Two of 24 workers at 30 percent", _CAPTION, _points(2), Bars(x="delay", y=_METRICS),
        Claim("7.2 Q4", "CG outperforms KG, PKG and SG in both", "all",
              r.each(r.all_of(r.below("throughput", _OTHERS, "CG", "delay", factor=1 / 0.98),
                              r.below("latency_mean", "CG", _OTHERS, "delay", factor=1.02)),
                     "comparisons of throughput and mean latency with KG, PKG and SG"), _ONCE),
        Claim("7.2 Q4", "throughput up to 3.44 times KG's (abstract: 2)", ">= 2x",
              r.between(r.ratio("throughput", "CG", "KG", "delay"), 2, 2 * 3.44, 1.05), _ONCE),
        Claim("7.2 Q4", "latency up to 2 times better than KG's (abstract: 3.44)", ">= 2x",
              r.between(r.ratio("latency_mean", "KG", "CG", "delay"), 2, 2 * 3.44, 1.05), _ONCE),
        common.near_prediction(),
    ),
]
