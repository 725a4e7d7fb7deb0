"""Sources of one run that decide together.

Alone, each source would place hot keys by its own counts, and a key would have several owners. Routers of
schemes with one owner per key therefore move nothing by themselves when there are several sources; their
coordinator does what a single router does, from the sum of their counts. Whoever runs the routers in one
process (the simulator does) asks the scheme for it: :meth:`Scheme.coordinator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.schemes.base import Router

NEVER = 2**62  # a message that does not come


class Coordinator:
    """Sources that need not agree: each decides alone."""

    def __init__(self, routers: Sequence[Any]):
        self.routers: Sequence[Router] = routers

    @property
    def next_message(self) -> int:
        """Before which message the routers decide something together."""
        return NEVER

    def before(self, message: int) -> None:
        """Decide what is due before ``message``."""

    def rescale(self, workers: int) -> None:
        """Change the number of workers of all routers."""
        for router in self.routers:
            router.rescale(workers)
