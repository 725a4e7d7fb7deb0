"""Plans as text: what a plan does, and what changed since the previous one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from evenflow.kernels import Int64Array, UInt64Array
    from evenflow.plan.plan import Plan

_MOST_HOMES = 8  # shown per key


def explain(
    plan: Plan, previous: Plan | None = None, top: int = 10, labels: Mapping[int, str] | None = None
) -> str:
    """Describe a plan, its ``top`` hottest keys, by their ``labels`` or hashes, and what changed."""
    several = int((np.diff(plan.starts) > 1).sum())
    lines = [
        f"{plan.workers} workers; expected maximum load {plan.max_over_mean:.3f} times the mean",
        f"{plan.keys.size} hot keys with {plan.weights.sum():.1%} of the rows "
        f"(split: {several}, additional homes: {plan.splits})",
        f"all other keys: {plan.buckets.size} buckets with one home each",
    ]
    for i in range(min(top, plan.keys.size)):
        homes = plan.homes[plan.starts[i] : plan.starts[i + 1]].tolist()
        shown = ", ".join(map(str, homes[:_MOST_HOMES]))
        if len(homes) > _MOST_HOMES:
            shown += f", ... ({len(homes)} in total)"
        key = (labels or {}).get(int(plan.keys[i]), f"{int(plan.keys[i]):016x}")
        lines.append(f"  key {key} {plan.weights[i]:7.2%} -> {shown}")
    if previous is not None:
        lines.append(changes(plan, previous))
    return "\n".join(lines)


class Difference(NamedTuple):
    """What a plan does differently from the previous one, in numbers."""

    became_hot: int
    cooled: int
    homes_added: int
    buckets_moved: int
    workers_before: int
    workers_after: int

    @property
    def is_change(self) -> bool:
        """Whether any row may go elsewhere."""
        return any(self[:4]) or self.workers_before != self.workers_after

    def __str__(self) -> str:
        return (
            f"since the previous plan: {self.became_hot} keys became hot, {self.cooled} cooled, "
            f"{self.homes_added} homes added, {self.buckets_moved} buckets moved, {self.workers_before} -> "
            f"{self.workers_after} workers"
        )


def changes(plan: Plan, previous: Plan) -> str:
    """Describe in one line what changed since ``previous``."""
    return str(difference(plan, previous))


def difference(plan: Plan, previous: Plan) -> Difference:
    """Return what changed since ``previous``."""
    became_hot = int((previous.table.find(plan.keys) < 0).sum())
    cooled = int((plan.table.find(previous.keys) < 0).sum())
    opened = np.setdiff1d(_pairs(plan, plan.keys), _pairs(previous, plan.keys)).size
    moved = plan.buckets.size
    if plan.buckets.size == previous.buckets.size:
        moved = int((plan.buckets != previous.buckets).sum())
    return Difference(became_hot, cooled, opened, moved, previous.workers, plan.workers)


def _pairs(plan: Plan, keys: UInt64Array) -> Int64Array:
    """Return one number for each pair of a key and a home of it."""
    starts, homes = plan.homes_of_each(keys)
    return np.repeat(np.arange(keys.size, dtype=np.int64), np.diff(starts)) << 32 | homes
