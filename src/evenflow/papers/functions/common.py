"""What the figures of `functions` share: approaches, points, and figures of migration and imbalance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from evenflow.papers.experiment import Row, RunConfig
from evenflow.papers.figures import Lines
from evenflow.papers.functions.growth import UNIFORM, keeps_keys_whole
from evenflow.papers.grid import at, grid

OURS = ("scan", "redist", "readj")  # the paper's own algorithms
CONSISTENT = "consistent-hash"
BY_ROUND = "readj-round"  # Algorithm 4 by its text; readj is Algorithm 4 as printed
APPROACHES = (UNIFORM, CONSISTENT, *OURS)
COMBINATIONS = ("CCL", "LCL", "LLL", "LQL")
WIDE_SKEWS = [round(0.1 * step, 1) for step in range(1, 11)]
NARROW_SKEWS = [0.25, 0.3, 0.35, 0.4, 0.45, 0.5]  # quadratic resources are out of reach beyond
SIGMAS = [0.008, 0.016, 0.031, 0.0625, 0.1, 0.25, 0.5, 1.0]
DEFAULT_POINT: Row = {"workers": [10], "domain": 10**6, "z": 1.0, "resources": "LCL", "sigma": 0.1,
                      "utility": "APM"}  # fmt: skip
CHANNELS = [2, 4, 8, 12, 16, 20, 24, 28, 32]
DEFAULTS = "10^6 keys, z = 1, N = 10, LCL, sigma = 0.1 where not varied; grown from N = 1."
FILL = "fill (ours, not splitting keys) balances messages only: added where all resources are linear."

Both = partial(Lines, y={"migration": "relative migration", "imbalance": "relative imbalance"}, logy="auto",
               level=1.0, columns=2, ylabel="relative value")  # fmt: skip


def growths(names: Sequence[str], **axes: Any) -> Callable[[RunConfig], list[Row]]:
    """Return a grid of growths, some runs of each combination of the axes.

    A point has all parameters, so that figures share what they both measure. ``fill`` among the names joins
    where all resources are linear; a user's scheme joins wherever it keeps a key on one worker.
    """

    def point(joining: tuple[str, ...], run: int, **varied: Any) -> Row:
        point = {**DEFAULT_POINT, **varied, "seed": run}
        own = [name for name in names if name != "fill" or point["resources"] == "LLL"]
        return {"approaches": [*own, *(name for name in joining if name not in own)], **point}

    def joining(config: RunConfig) -> list[tuple[str, ...]]:
        return [tuple(name for name in config.joining if keeps_keys_whole(name))]

    return grid(point, joining=joining, **axes, run=at((0, 1, 2), (0, 1, 2, 3, 4)))
