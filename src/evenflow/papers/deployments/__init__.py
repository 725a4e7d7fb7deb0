"""The papers' deployments on Spark: throughput, latency and memory of each grouping on an engine.

One harness (:mod:`.harness`) runs the real pipeline: sources route, workers serve, an aggregator merges.
Figures are in a module per paper, with the claims of that paper and what must hold of evenflow itself.

Keep imports light: Spark's Python workers import :mod:`.work` through this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenflow.papers.experiment import Experiment

PAPERS = ("choices", "heterogeneous", "evolving", "dynamic")
SPARK = "spark"


def experiments() -> list[Experiment]:
    """Return every deployment, in the order of the papers."""
    found: list[Experiment] = []
    for name in PAPERS:
        found += importlib.import_module(f"{__name__}.{name}").EXPERIMENTS
    return found
