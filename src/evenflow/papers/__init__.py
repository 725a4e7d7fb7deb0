"""Is it true? One module per paper: every figure and table as an experiment with the paper's claims."""

from __future__ import annotations

import importlib

from evenflow.errors import EvenflowError, nearest
from evenflow.papers.experiment import Experiment

PAPERS = ("choices", "heterogeneous", "functions", "evolving", "dynamic")
ON_TOPICS = ("dynamic",)  # on Spark, from a topic of Kafka to another

__all__ = ["PAPERS", "experiments", "find"]


def experiments(paper: str | None = None, on: str = "simulator") -> list[Experiment]:
    """Return the experiments of one paper, or of all, in the order of the papers.

    ``on`` is "simulator", "spark", or "topics" for deployments from a topic of Kafka to another.
    """
    papers = {"simulator": PAPERS, "spark": PAPERS, "topics": ON_TOPICS}[on]
    package = __name__ if on == "simulator" else f"{__name__}.deployments"
    names = papers if paper is None else (paper,)
    modules = [importlib.import_module(f"{package}.{name}") for name in names]
    listed = "ON_TOPICS" if on == "topics" else "EXPERIMENTS"
    return [experiment for module in modules for experiment in getattr(module, listed)]


def find(wanted: list[str], on: str = "simulator") -> list[Experiment]:
    """Return the experiments named by PAPER or PAPER/FIGURE; all if none is named."""
    everything = experiments(on=on)
    if not wanted:
        return everything
    chosen: list[Experiment] = []
    for name in wanted:
        own = [experiment for experiment in everything if name in (experiment.paper, experiment.name)]
        if not own:
            names = [*PAPERS, *(experiment.name for experiment in everything)]
            raise EvenflowError(f"there is no figure {name!r}; {nearest(name, names)}")
        chosen += [experiment for experiment in own if experiment not in chosen]
    return chosen
