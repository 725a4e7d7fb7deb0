"""Measurements that several papers share; each returns rows of plain values."""

from __future__ import annotations

from typing import Any

import evenflow as ef
from evenflow.papers.experiment import Row
from evenflow.simulate import Queueing, simulate


def zipf(z: float, keys: float, messages: float, seed: int = 1) -> str:
    """Spell a Zipf stream.

    >>> zipf(1.4, 1e4, 1e6)
    'zipf:z=1.4,keys=10000,messages=1000000,seed=1'
    """
    return f"zipf:z={z},keys={int(keys)},messages={int(messages)},seed={seed}"


def simulated(
    scheme: str,
    stream: str,
    workers: int,
    sources: int = 5,
    seed: int = 0,
    parameters: dict[str, Any] | None = None,
    queueing: dict[str, Any] | None = None,
    over_time: bool = False,
    labels: dict[str, Any] | None = None,
) -> list[Row]:
    """Simulate one configuration: one row with its numbers and ``labels``, or one row per mark."""
    result = simulate(
        ef.scheme(scheme, **(parameters or {})),
        stream,
        workers=workers,
        sources=sources,
        seed=seed,
        queueing=Queueing(**queueing) if queueing is not None else None,
    )
    row = {**result.row(), **(labels or {})}
    row.pop("messages_per_second")  # the only number that another run does not repeat
    if not over_time:
        return [row]
    marks = result.table().to_pylist()
    same = {"scheme": scheme, "workers": workers, "sources": sources, **(labels or {})}
    return [{**same, **mark} for mark in marks]
