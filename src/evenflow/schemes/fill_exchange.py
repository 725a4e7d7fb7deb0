"""Sources of fill that tell each other which homes they opened, in a few hundred bytes now and then.

Each source opens homes when rows would wait at *its* homes, which is partly chance, and the chance of one
source is not that of another: their homes add up. Therefore every source tells the others at most 30 homes
that nobody told before, 8 bytes for the key's hash and 2 for the worker each. The others adopt them, so that
the next row of the key that would wait has a home to go to, and nobody opens another.

Loads and waits stay with their source: telling them as well changed little (docs/fill.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.keys import GOLDEN
from evenflow.schemes.coordination import Coordinator

if TYPE_CHECKING:
    from evenflow.kernels import Int32Array, UInt64Array
    from evenflow.schemes.fill import FillRouter

MOST_TOLD = 30  # homes that a source tells at once
BYTES = 10  # of a home: a key's hash and a worker


class HomeExchange(Coordinator):
    """Several sources that adopt each other's homes whenever ``every`` messages per worker have come.

    Examples
    --------
    >>> from evenflow.schemes.fill import Fill
    >>> scheme = Fill(exchange=100)
    >>> routers = [scheme.router(4, source=i, sources=2) for i in range(2)]
    >>> exchange = scheme.coordinator(routers)
    >>> _ = routers[0].route(np.full(400, 7, np.uint64))  # one key, more than a worker can take
    >>> exchange.before(exchange.next_message)
    >>> exchange.told
    3
    >>> routers[0].homes() == routers[1].homes()
    True
    """

    routers: Sequence[FillRouter]

    def __init__(self, routers: Sequence[Any], every: int):
        super().__init__(routers)
        self._every = every
        self._next = every * self.routers[0].workers
        self._known: UInt64Array = np.zeros(0, np.uint64)
        self.told = 0  # homes told by all sources so far
        self.most_told = 0  # by one source at once

    @property
    def next_message(self) -> int:
        """The message before which the next exchange is due."""
        return self._next

    def before(self, message: int) -> None:
        """Let every source tell its newest homes, and all others adopt them."""
        messages = [self._news(router) for router in self.routers]
        keys = np.concatenate([keys for keys, _ in messages])
        workers = np.concatenate([workers for _, workers in messages])
        for router in self.routers:
            router.adopt(keys, workers)
        self._know(keys, workers)
        self._next = message + self._every * self.routers[0].workers

    def rescale(self, workers: int) -> None:
        """Change the number of workers of all routers."""
        super().rescale(workers)
        self._known = np.zeros(0, np.uint64)

    def _news(self, router: FillRouter) -> tuple[UInt64Array, Int32Array]:
        keys, workers = router.further_homes()
        fresh = np.flatnonzero(~np.isin(_pair(keys, workers), self._known))[:MOST_TOLD]
        self.told += fresh.size
        self.most_told = max(self.most_told, fresh.size)
        return keys[fresh], workers[fresh]

    def _know(self, keys: UInt64Array, workers: Int32Array) -> None:
        self._known = np.union1d(self._known, _pair(keys, workers))


def _pair(keys: UInt64Array, workers: Int32Array) -> UInt64Array:
    """Return one number for each pair of a key and a worker; equal ones of two pairs are unlikely."""
    pairs: UInt64Array = keys + (workers.astype(np.uint64) + np.uint64(1)) * GOLDEN
    return pairs
