"""One map shared by all sources of ``explicit`` (`functions` has a single splitter).

Every ``every`` messages per source, they check, from the sum of their counts, whether a resource is out of
tolerance and a new map is worth its migration, just as a single router does. When the number of workers
changes, the new map is made from all counts. Routers that were equal and get the same counts stay equal.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

from evenflow.kernels import Int64Array, UInt64Array
from evenflow.schemes.coordination import NEVER, Coordinator
from evenflow.schemes.cost_model import weigh
from evenflow.schemes.explicit import Explicit, ExplicitRouter
from evenflow.sketches.lossy_counting import add_up


class OneMap(Coordinator):
    """Several sources with one map."""

    routers: Sequence[ExplicitRouter]

    def __init__(self, scheme: Explicit, routers: Sequence[Any]):
        super().__init__(routers)
        self._checked_at = 0
        self._missed = 0.0  # balance missed by not adopting better maps, summed as in a single router
        self.every = scheme.look_every * len(routers)
        place = dataclasses.replace(self.routers[0].place, sources=1)
        # has the map but no counters, so trials are cheap
        self._model = ExplicitRouter(dataclasses.replace(scheme, counting=False), place)

    @property
    def next_message(self) -> int:
        """The message before which the next check is due."""
        return self._checked_at + self.every if self.every else NEVER

    def before(self, message: int) -> None:
        """Check the balance; adopt a new map once waiting has cost as much as migrating."""
        self._checked_at = message
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
        self._missed, adopt = weigh(self._missed, now, after, moved.relative)
        if adopt:
            self._missed = 0.0
            self._model = trial
            for router in self.routers:
                router.rebuild(keys, counts, total)

    def rescale(self, workers: int) -> None:
        """Change the number of workers of all routers, using the counts of all."""
        keys, counts, total = self._counted()
        for router in (self._model, *self.routers):
            if total > 0:
                router.rescale(workers, keys, counts, total)
            else:
                router.rescale(workers)

    def _counted(self) -> tuple[UInt64Array, Int64Array, int]:
        """Return keys, their counts and the number of messages counted, over all sources."""
        counted = [router.counted() for router in self.routers]
        keys, counts = add_up([(keys, counts) for keys, counts, _ in counted])
        return keys, counts, sum(total for _, _, total in counted)
