"""Sources that share one answer: schemes with one owner per key decide for all sources of a run at once.

Alone, each source would place the hot keys by its own counts, and a key would have several owners. So the
routers of such schemes never move anything by themselves when there are several. Here they do what a single
one does, from the sum of their counts. Routers that were equal and get the same counts stay equal.

``explicit`` (`functions` has one splitter): after every ``every`` messages per source they look whether a
resource is out of tolerance and a new map is worth its migration, and at a rescale they make the new map from
all counts. ``fill(split=False)``: at the end of every epoch its units settle.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from evenflow.kernels import Int64Array, UInt64Array
from evenflow.schemes import Scheme
from evenflow.schemes.explicit import Explicit, ExplicitRouter
from evenflow.schemes.fill_owner import OwnerRouter, rescale_together, settle_together
from evenflow.simulator.feedback import NEVER
from evenflow.sketches.lossy_counting import add_up


class Apart:
    """Sources that need not agree: each decides alone."""

    def __init__(self, routers: list[Any]):
        self.routers = routers

    @property
    def next_message(self) -> int:
        """Before which message the routers decide something together."""
        return NEVER

    def before(self, message: int) -> None:
        """Decide it."""

    def rescale(self, workers: int) -> None:
        """Change the number of workers of all routers."""
        for router in self.routers:
            router.rescale(workers)


def together(scheme: Scheme, routers: list[Any]) -> Apart:
    """Return what keeps the sources of one run in agreement, as far as the scheme needs that."""
    if len(routers) > 1 and isinstance(scheme, Explicit) and scheme.counting:
        return OneMap(scheme, routers)
    if len(routers) > 1 and isinstance(routers[0], OwnerRouter):
        return OneOwner(routers)
    return Apart(routers)


class OneOwner(Apart):
    """Sources of ``fill(split=False)``."""

    def __init__(self, routers: list[Any]):
        super().__init__(routers)
        self._next = int(routers[0].state.epoch[1])

    @property
    def next_message(self) -> int:
        """Before which message an epoch ends."""
        return self._next

    def before(self, message: int) -> None:
        """End the epoch of all sources."""
        settle_together(self.routers)
        self._next = message + int(self.routers[0].state.epoch[1])

    def rescale(self, workers: int) -> None:
        """Change the number of workers; all take over what the first one comes to with all counts."""
        rescale_together(self.routers, workers)


class OneMap(Apart):
    """Sources of ``explicit``."""

    def __init__(self, scheme: Explicit, routers: list[Any]):
        super().__init__(routers)
        self._looked_at = 0
        self._missed = 0.0  # balance missed by not adopting better maps, as a single router adds it up
        every = max(1, scheme.counted_window // 10) if scheme.every is None else scheme.every
        self.every = every * len(routers)
        place = dataclasses.replace(routers[0].place, sources=1)
        # has the function, and no counters: cheap to try things on
        self._model = ExplicitRouter(dataclasses.replace(scheme, counting=False), place)

    @property
    def next_message(self) -> int:
        """Before which message the routers look."""
        return self._looked_at + self.every if self.every else NEVER

    def before(self, message: int) -> None:
        """Look, and adopt a new map if waiting has cost as much as migrating."""
        self._looked_at = message
        model = self._model
        keys, counts, total = self._counted()
        costs, workers = model.scheme.costs, model.workers
        shares = counts / max(total, 1)
        tracked = costs.tracked(shares, workers, model.scheme.epsilon(workers))
        tail = costs.tail(shares[tracked])
        now = costs.imbalance(shares[tracked], model.lookup(keys[tracked]), workers, tail)
        if total == 0 or max(now.relative) <= 1:
            self._missed = 0.0
            return
        trial = copy.deepcopy(model)
        moved = trial.rebuild(keys, counts, total)
        after = costs.imbalance(shares[tracked], trial.lookup(keys[tracked]), workers, tail)
        if after.overall < now.overall:
            self._missed += now.overall / after.overall - 1
            if moved.relative < self._missed:
                self._missed = 0.0
                self._model = trial
                for router in self.routers:
                    router.rebuild(keys, counts, total)

    def rescale(self, workers: int) -> None:
        """Change the number of workers of all routers, by the counts of all."""
        keys, counts, total = self._counted()
        for router in (self._model, *self.routers):
            if total > 0:
                router.rescale(workers, keys, counts, total)
            else:
                router.rescale(workers)

    def _counted(self) -> tuple[UInt64Array, Int64Array, int]:
        """Return keys, their counts and of how many messages, of all sources."""
        counted = [router.counted() for router in self.routers]
        keys, counts = add_up([(keys, counts) for keys, counts, _ in counted])
        return keys, counts, sum(total for _, _, total in counted)
