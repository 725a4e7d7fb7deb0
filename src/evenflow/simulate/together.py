"""One map for all sources: several sources of ``explicit`` decide together (`functions` has one splitter).

Alone, each source would map the hot keys by its own counts, and a key would have several owners. So its
routers never rebuild by themselves when there are several. Here they do what a single one does, from the
sum of their counts: after every ``every`` messages of the stream they look whether a resource is out of
tolerance and a new map is worth its migration, and after a rescale they make the new map from all counts.
Routers that were equal and get the same counts stay equal.
"""

from __future__ import annotations

from typing import Any

from evenflow.kernels import Int64Array, UInt64Array
from evenflow.schemes import Scheme
from evenflow.schemes.explicit import Explicit, ExplicitRouter, rebuild_together
from evenflow.simulate.feedback import NEVER
from evenflow.sketches.lossy_counting import add_up


class Together:
    """Keeps the routers of one run at one function; for all other schemes it does nothing."""

    def __init__(self, scheme: Scheme, routers: list[Any]):
        self.routers = routers
        self.active = isinstance(scheme, Explicit) and scheme.counting and len(routers) > 1
        self.every = 0
        if isinstance(scheme, Explicit) and self.active:
            self.every = max(1, scheme.counted_window // 10) if scheme.every is None else scheme.every
        self._looked_at = 0
        self._missed = 0.0  # balance missed by not adopting better maps, as a single router adds it up

    @property
    def next_message(self) -> int:
        """Before which message the routers look."""
        return self._looked_at + self.every if self.every else NEVER

    def before(self, message: int) -> None:
        """Look, and adopt a new map if waiting has cost as much as migrating."""
        self._looked_at = message
        first: ExplicitRouter = self.routers[0]
        scheme, workers, costs = first.scheme, first.workers, first.scheme.costs
        keys, counts, total = self._counted()
        shares = counts / max(total, 1)
        tracked = costs.tracked(shares, workers, scheme.epsilon(workers))
        tail = costs.tail(shares[tracked])
        now = costs.imbalance(shares[tracked], first.lookup(keys[tracked]), workers, tail)
        if total == 0 or max(now.relative) <= 1:
            self._missed = 0.0
            return
        trial = ExplicitRouter.from_bytes(first.to_bytes())
        assert isinstance(trial, ExplicitRouter)
        moved = trial.rebuild(keys, counts, total)
        after = costs.imbalance(shares[tracked], trial.lookup(keys[tracked]), workers, tail)
        if after.overall < now.overall:
            self._missed += now.overall / after.overall - 1
            if moved.relative < self._missed:
                self._missed = 0.0
                rebuild_together(self.routers)

    def rescale(self, workers: int) -> None:
        """Change the number of workers of all routers."""
        counted = self._counted() if self.active else None
        for router in self.routers:
            if counted is not None and counted[2] > 0:
                router.rescale(workers, *counted)
            else:
                router.rescale(workers)

    def _counted(self) -> tuple[UInt64Array, Int64Array, int]:
        """Return keys, their counts and of how many messages, of all sources."""
        keys, counts = add_up([router.counted()[:2] for router in self.routers])
        return keys, counts, sum(router.counted()[2] for router in self.routers)
