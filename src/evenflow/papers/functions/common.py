"""What the figures of `functions` share: approaches, points, and figures of migration and imbalance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from evenflow.papers.experiment import Row, RunConfig
from evenflow.papers.figures import Lines
from evenflow.papers.functions.growth import UNIFORM, keeps_keys_whole

OURS = ("scan", "redist", "readj")  # the paper's own algorithms
CONSISTENT = "consistent-hash"
APPROACHES = (UNIFORM, CONSISTENT, *OURS)
COMBINATIONS = ("CCL", "LCL", "LLL", "LQL")
WIDE_SKEWS = [round(0.1 * step, 1) for step in range(1, 11)]
NARROW_SKEWS = [0.25, 0.3, 0.35, 0.4, 0.45, 0.5]  # quadratic resources are out of reach beyond
SIGMAS = [0.008, 0.016, 0.031, 0.0625, 0.1, 0.25, 0.5, 1.0]
CHANNELS = [2, 4, 8, 12, 16, 20, 24, 28, 32]
DEFAULTS = "10^6 keys, z = 1, N = 10, LCL, sigma = 0.1 where not varied; grown from N = 1."
FILL = "fill (ours, no key split) evens messages alone, so it joins where all resources are linear."

Both = partial(Lines, y={"migration": "relative migration", "imbalance": "relative imbalance"}, logy="auto",
               level=1.0, columns=2, ylabel="relative value")  # fmt: skip


def points(config: RunConfig, names: Sequence[str], **varied: Any) -> list[Row]:
    """Return a point per run, with all its parameters, so that figures share what they both measure."""
    joining = [name for name in config.schemes(*names)[len(names) :] if keeps_keys_whole(name)]
    usual = {"workers": [10], "domain": 10**6, "z": 1.0, "resources": "LCL", "sigma": 0.1, "utility": "APM"}
    point = {"approaches": [*names, *joining], **usual, **varied}
    return [{**point, "seed": seed} for seed in range(config.pick(3, 5))]


def with_fill(resources: str) -> tuple[str, ...]:
    """Return the approaches of a resource combination."""
    return (*APPROACHES, "fill") if resources == "LLL" else APPROACHES
