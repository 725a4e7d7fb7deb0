"""Points of figures as declared grids: every combination of some axes, each perhaps other at scale small."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from evenflow.papers.experiment import Row, RunConfig


def at(small: Any, paper: Any) -> Callable[[RunConfig], Any]:
    """Return an axis of a grid that depends on the scale."""
    return lambda config: config.pick(small, paper)


def schemes(*names: str) -> Callable[[RunConfig], Any]:
    """Return an axis of schemes: those of the figure and those that join it."""
    return lambda config: config.schemes(*names)


def streams(*names: str) -> Callable[[RunConfig], Any]:
    """Return an axis of data sets, each as its name in the paper and the stream that stands in for it."""
    return lambda config: [(name, config.stream(name)) for name in names]


def grid(point: Callable[..., Row] = dict, **axes: Any) -> Callable[[RunConfig], list[Row]]:
    """Return the points of a figure: one for every combination of the axes, the last axis varying fastest.

    An axis is a tuple or list of values, a single value, or a function of the run's config that returns
    either; ``point`` turns one value of each axis into the parameters and labels of a point.

    >>> grid(workers=(5, 10), z=at(1.4, (1.4, 2.0)))(RunConfig("small"))
    [{'workers': 5, 'z': 1.4}, {'workers': 10, 'z': 1.4}]
    """

    def points(config: RunConfig) -> list[Row]:
        found = [axis(config) if callable(axis) else axis for axis in axes.values()]
        values = [axis if isinstance(axis, tuple | list) else (axis,) for axis in found]
        return [point(**dict(zip(axes, combination, strict=True))) for combination in product(*values)]

    return points


def joined(*parts: Callable[[RunConfig], list[Row]]) -> Callable[[RunConfig], list[Row]]:
    """Return the points of several grids."""
    return lambda config: [point for part in parts for point in part(config)]


def on_stream(data: tuple[str, str], **point: Any) -> Row:
    """Return a point on a data set, labelled with its name."""
    name, stream = data
    return {"stream": stream, **point, "labels": {"data": name}}
