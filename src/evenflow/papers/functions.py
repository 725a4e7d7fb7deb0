"""`functions`: its figures and tables as experiments."""

from __future__ import annotations

from evenflow.papers.experiment import Experiment

EXPERIMENTS: list[Experiment] = []
