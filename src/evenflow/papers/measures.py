"""Measurements that several papers share; each returns rows of plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import evenflow as ef
from evenflow.papers.experiment import HOLDS, UNTESTED, Judgement, Row, RunConfig
from evenflow.simulator import Capacities, Queueing, simulate
from evenflow.simulator.prescan import survey
from evenflow.streams import open_stream

PARTS = 10  # of a stream, to see whether its hottest keys change


def zipf(z: float, keys: float, messages: float, seed: int = 1) -> str:
    """Spell a Zipf stream.

    >>> zipf(1.4, 1e4, 1e6)
    'zipf:z=1.4,keys=10000,messages=1000000,seed=1'
    """
    return f"zipf:z={z},keys={int(keys)},messages={int(messages)},seed={seed}"


def simulated(
    scheme: str, stream: str, workers: int, sources: int = 5, seed: int = 0,
    parameters: dict[str, Any] | None = None, queueing: dict[str, Any] | None = None,
    over_time: bool = False, changes: list[Any] | None = None,
) -> list[Row]:  # fmt: skip
    """Simulate one configuration: one row with its numbers, or one row per mark.

    ``changes``: capacities from a message on, as [message, capacities].
    """
    configured = ef.scheme(scheme, **(parameters or {}))
    model = Queueing(**queueing) if queueing is not None else None
    result = simulate(configured, stream, workers=workers, sources=sources, seed=seed, queueing=model,
                      events=[Capacities(at, spec) for at, spec in changes or []])  # fmt: skip
    row = result.row()
    row.pop("messages_per_second")  # the only number that another run does not repeat
    if not over_time:
        return [row]
    same = {"scheme": scheme, "workers": workers, "sources": sources}
    return [{**same, **mark} for mark in result.table().to_pylist()]


def measure_data(data: str, stream: str) -> list[Row]:
    """Count a stream's messages, keys and the share of its hottest key, and how its hottest keys change.

    ``hottest``: different hottest keys of ten equal parts; ``p1_within``: mean share of a part's hottest key.
    """
    opened = open_stream(stream)
    found = survey(opened, counts=True, seconds=False)
    assert found.counts is not None
    p1 = float(found.counts.max() / found.messages)
    row: Row = {"data": data, "messages": found.messages, "keys": int((found.counts > 0).sum()), "p1": p1}
    parts = np.zeros((PARTS, found.counts.size), np.int32)
    start = 0
    for chunk in opened.chunks():
        part = (start + np.arange(chunk.ids.size)) * PARTS // found.messages
        np.add.at(parts, (part, chunk.ids), 1)
        start += chunk.ids.size
    within = parts.max(axis=1) / parts.sum(axis=1)
    return [row | {"hottest": len(set(parts.argmax(axis=1).tolist())), "p1_within": float(within.mean())}]


def data_points(*names: str, **spelled: str) -> Callable[[RunConfig], list[Row]]:
    """Return the points of a table of streams: data sets by name, and others as they are spelled."""

    return lambda config: [
        {"data": name, "stream": stream}
        for name, stream in ({name: config.stream(name) for name in names} | spelled).items()
    ]


def same_streams(**paper: tuple[float, float, float | None]) -> Callable[[Any], Judgement]:
    """Judge a table of streams: messages, keys and hottest share within 5 percent of the paper's.

    Streams of other sizes are not the paper's, so what the paper says of its own remains untested.
    """

    def judged(table: Any) -> Judgement:
        found = {row["data"]: row for row in table.to_dict("records")}
        stream = "{0}: {1[messages]:,} messages, {1[keys]:,} keys, p1 {1[p1]:.2%}"
        text = "; ".join(stream.format(name, found[name]) for name in paper)
        same = [
            expected is None or abs(found[name][column] / expected - 1) <= 0.05
            for name, values in paper.items()
            for column, expected in zip(("messages", "keys", "p1"), values, strict=True)
        ]
        if all(same):
            return Judgement(HOLDS, text)
        return Judgement(UNTESTED, text, "the paper's own streams are not available; these stand in for them")

    return judged
