"""Schemes as a user writes them: they declare what they have, everything else is the base class's."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import evenflow as ef
from evenflow.kernels import Int64Array
from evenflow.plan.counted import Counted
from evenflow.plan.one_owner import one_owner_plan


class State(NamedTuple):
    loads: Int64Array


class ModularRouter(ef.Router):
    def __init__(self, scheme: Modular, place: Any):
        super().__init__(scheme, place)
        self.state = State(np.zeros(place.workers, np.int64))

    def _route(self, keys: Any, times: Any, out: Any) -> None:
        out[:] = ((keys ^ (keys >> np.uint64(32))) + self.place.salt) % np.uint64(self.workers)
        self.state.loads[:] += np.bincount(out, minlength=self.workers)


@dataclass(frozen=True)
class Modular(ef.Scheme):
    """One owner per key, known before the rows are."""

    name = "modular"
    summary = "the hash modulo the number of workers"
    splits_keys = False
    plannable = True

    def new_router(self, place: Any) -> ModularRouter:
        return ModularRouter(self, place)


@dataclass(frozen=True)
class Reserved(Modular):
    """Modular on all workers but the last, which is for the hottest key alone."""

    name = "reserved"
    counts_keys = True

    def new_plan(self, workers: int, counted: Counted, **options: Any) -> ef.Plan:
        others = max(1, workers - 1)
        buckets = (np.arange(self.plan_buckets(workers)) % others).astype(np.int32)
        hottest = Counted(counted.keys[:1], counted.counts[:1])
        return one_owner_plan(
            workers, buckets, counted, hottest, np.full(hottest.keys.size, workers - 1, np.int32)
        )


def send_by_value() -> None:
    """Let Spark's Python workers have these classes, which are in no module that they can import."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
