"""Migration when workers join or leave (`functions` 3.3; `evolving` 5), and the cost of a mapping of keys.

A scheme with one owner per key moves the state of every key whose owner changes: at a rescale all keys seen
so far are looked up again; at other times a key moves when its next message goes to another worker. A scheme
that splits keys moves only what the leaving workers hold, one partial result per (key, worker) pair; nothing
has to move to a new worker.

State is one unit per message so far, or as ``resources`` defines it (`functions` Eq. 9 on shares of the
stream). Ideal is what must move to restore balance (Eq. 10, for any number): the share |n' - n| / max(n, n')
of all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.errors import EvenflowError
from evenflow.kernels import UInt64Array
from evenflow.schemes import Router, Scheme
from evenflow.schemes.cost_model import RESOURCES, Costs, objective
from evenflow.simulator.metrics import KeyOwners, Pairs


def as_costs(resources: str | Costs | None, scheme: Scheme) -> Costs | None:
    """Parse three letters of C, L and Q as resource functions."""
    if resources is None:
        return None
    if not scheme.one_owner:
        raise EvenflowError(
            f"resources is {resources!r}, but {scheme.name} splits keys; "
            "use a scheme with one owner per key, such as explicit."
        )
    if isinstance(resources, Costs):
        return resources
    if len(str(resources)) != 3 or not set(str(resources)) <= set("CLQ"):
        raise EvenflowError(
            f"resources is {resources!r}; pass three letters for {', '.join(RESOURCES)}, each C (constant), "
            "L (linear) or Q (quadratic), such as 'LCL'."
        )
    return Costs(resources)


class Migrations:
    """Records what moves in one run."""

    def __init__(self, pairs: Pairs, owners: KeyOwners | None, costs: Costs | None):
        self.pairs = pairs
        self.owners = owners
        self.costs = costs
        self._rows: dict[str, list[float]] = defaultdict(list)

    def rescaled(self, before: int, routers: Sequence[Router], message: int, hashes: UInt64Array) -> None:
        """Record what moves; ``routers`` had ``before`` workers until ``message``."""
        workers = routers[0].workers
        share = abs(workers - before) / max(workers, before)
        row: dict[str, float] = {"messages": message, "workers_before": before, "workers": workers}
        if self.owners is None:
            row |= self._leave(before, workers)
            pairs, state = self.pairs.ever, message
        else:
            row |= self._move_owners(self.owners, routers[0], workers, hashes)
            pairs, state = self.pairs.keys, message
            self.pairs.forget_from(workers)
        row |= {"keys_ideal": share * pairs, "state_ideal": share * state}
        for name, value in row.items():
            self._rows[name].append(value)

    def _leave(self, before: int, workers: int) -> dict[str, float]:
        state = int(self.pairs.loads[workers:before].sum())
        held = self.pairs.forget_from(workers) if workers < before else 0
        return {"keys_moved": held, "state_moved": state}

    def _move_owners(
        self, owners: KeyOwners, router: Router, workers: int, hashes: UInt64Array
    ) -> dict[str, float]:
        ids = self.pairs.seen()
        old = owners.state.owner[ids]
        new = router.lookup(hashes[ids])
        counts = owners.state.counts[ids]
        row: dict[str, float] = {
            "keys_moved": int(np.count_nonzero(old != new)),
            "state_moved": int(counts[old != new].sum()),
        }
        if self.costs is not None:
            shares = counts / counts.sum()
            moved = self.costs.migration(shares, old, new, workers)
            balance = self.costs.imbalance(shares, new, workers)
            row |= {
                "migration": moved.relative,
                "balance": balance.overall,
                "objective": objective(balance, moved),
            }
        owners.state.moved[0] += row["keys_moved"]
        owners.state.moved[1] += row["state_moved"]
        owners.state.owner[ids] = new
        return row

    def numbers(self) -> dict[str, float]:
        """Return the totals of the run, if anything can move."""
        names = ("keys_moved", "state_moved")
        if self.owners is not None:
            return dict(zip(names, self.owners.state.moved.tolist(), strict=True))
        return {name: sum(self._rows[name]) for name in names} if self._rows else {}

    def balance(self, workers: int) -> dict[str, float]:
        """Return the final balance of the three resources (Eq. 11): r of each, and b."""
        if self.costs is None or self.owners is None:
            return {}
        ids = self.pairs.seen()
        counts = self.owners.state.counts[ids]
        found = self.costs.imbalance(counts / counts.sum(), self.owners.state.owner[ids], workers)
        ratios = {f"ratio_{name}": ratio for name, ratio in zip(RESOURCES, found.ratios, strict=True)}
        return {**ratios, "balance": found.overall}

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return one row per rescale."""
        return {name: np.array(values) for name, values in self._rows.items()}
