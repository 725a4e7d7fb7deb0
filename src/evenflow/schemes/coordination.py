"""Joint decisions of the sources of one run.

If each source placed hot keys by its own counts, a key would have several owners. With several sources, the
routers of schemes with one owner per key therefore move nothing themselves; their coordinator does what a
single router would do, from the sum of their counts. Code that runs several routers in one process, such as
the simulator, gets it from :meth:`Scheme.coordinator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.schemes.base import Router

NEVER = 2**62  # a message number that is never reached


class Coordinator:
    """Sources that need not agree: each decides on its own."""

    def __init__(self, routers: Sequence[Any]):
        self.routers: Sequence[Router] = routers

    @property
    def next_message(self) -> int:
        """The message before which the next joint decision is due."""
        return NEVER

    def before(self, message: int) -> None:
        """Make the decision due before ``message``."""

    def rescale(self, workers: int) -> None:
        """Change the number of workers of all routers."""
        for router in self.routers:
            router.rescale(workers)
