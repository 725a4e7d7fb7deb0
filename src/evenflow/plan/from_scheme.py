"""From a scheme and counted keys to a plan: which schemes can be a table made before the rows are seen.

A scheme declares ``plannable``. ``fill`` pours what was counted. ``explicit`` builds its map from what was
counted, beside a ring of buckets. ``key`` gives every worker one range of hashes. Any other plannable scheme
owes nothing to what was seen before: its router is asked where each bucket goes, as if buckets were keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.plan import Plan, bucket_of, make_plan
from evenflow.plan.build import BUCKETS_PER_WORKER
from evenflow.schemes.base import Scheme, list_schemes
from evenflow.schemes.explicit import Explicit, ExplicitRouter
from evenflow.schemes.fill import Fill
from evenflow.schemes.key import Key

SMALLEST_RING = 4096  # buckets that a ring is cut into, at least: their homes stay when workers come and go


@dataclass(frozen=True, eq=False)
class Counted:
    """What was counted of the rows: keys that stand out, all rows, and (if known) the rows of each bucket."""

    keys: UInt64Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: Float64Array = field(default_factory=lambda: np.zeros(0))
    total: float = 0.0
    buckets: Float64Array | None = None


NOTHING = Counted()


def check_plannable(scheme: Scheme) -> None:
    """Refuse a scheme whose decisions cannot be a table, with a sentence."""
    if not scheme.plannable:
        able = ", ".join(name for name, kind in list_schemes().items() if kind.plannable)
        raise EvenflowError(
            f"{scheme.name} decides row by row and cannot be planned; choose mode='online', or one of the "
            f"schemes that can: {able}."
        )


def needs_counts(scheme: Scheme) -> bool:
    """Return whether a plan of this scheme depends on how often keys come."""
    return isinstance(scheme, Fill | Explicit)


def buckets_for(scheme: Scheme, workers: int) -> int:
    """Return the number of buckets that a plan of this scheme has."""
    wanted = BUCKETS_PER_WORKER * workers
    if isinstance(scheme, Fill | Key):
        return wanted
    return max(SMALLEST_RING, 1 << (wanted - 1).bit_length())


def plan_for(
    scheme: Scheme,
    workers: int,
    counted: Counted = NOTHING,
    *,
    split: bool = True,
    seed: int = 0,
    previous: Plan | None = None,
    move_buckets: bool = True,
) -> Plan:
    """Return the plan of a scheme for what was counted; ``split=False`` keeps every key on one worker.

    ``previous``: homes to keep where they still fit. ``move_buckets=False``: buckets stay where they were.

    >>> import evenflow as ef
    >>> counted = Counted(np.array([7, 8], np.uint64), np.array([60.0, 10.0]), 100.0)
    >>> plan_for(ef.scheme("fill"), 2, counted).max_over_mean
    1.0
    >>> plan_for(ef.scheme("key"), 2, counted).homes_of(7)
    [0]
    """
    check_plannable(scheme)
    if isinstance(scheme, Fill):
        # half of the tolerance is for the plan, half for chance: counts are of a sample, homes are drawn
        return make_plan(
            workers, counted.keys, counted.counts, counted.total or 1.0, counted.buckets,
            split=split and scheme.split, tolerance=scheme.epsilon / 2, previous=previous,
            move_buckets=move_buckets,
        )  # fmt: skip
    if isinstance(scheme, Key):
        size = buckets_for(scheme, workers)
        spread = (np.arange(size, dtype=np.int64) * workers // size).astype(np.int32)
        return with_owners(workers, spread, NOTHING, np.zeros(0, np.int32), counted)
    router = scheme.router(workers, seed)
    buckets = router.route(np.arange(buckets_for(scheme, workers), dtype=np.uint64))
    if isinstance(router, ExplicitRouter) and counted.keys.size:
        return _explicit(router, buckets, counted)
    return with_owners(workers, buckets, NOTHING, np.zeros(0, np.int32), counted)


def _explicit(router: ExplicitRouter, buckets: Int32Array, counted: Counted) -> Plan:
    router.rebuild(counted.keys, counted.counts, max(counted.total, float(counted.counts.sum())))
    mapping = router.mapping
    keys = np.array(list(mapping), np.uint64)
    order = np.argsort(counted.keys)
    counts = counted.counts[order[np.searchsorted(counted.keys[order], keys)]] if keys.size else np.zeros(0)
    named = Counted(keys, counts)
    return with_owners(router.workers, buckets, named, np.array(list(mapping.values()), np.int32), counted)


def with_owners(
    workers: int, buckets: Int32Array, named: Counted, homes: Int32Array, counted: Counted
) -> Plan:
    """Return a plan in which every bucket and every named key has one home."""
    size = buckets.size
    lives = bucket_of(named.keys, size)
    if counted.buckets is not None and len(counted.buckets) == size:
        tail = np.maximum(counted.buckets - np.bincount(lives, named.counts, size), 0.0)
    else:
        tail = np.full(size, max(0.0, counted.total - float(named.counts.sum())) / size)
    carried = np.bincount(buckets, tail, workers) + np.bincount(homes, named.counts, workers)
    total = carried.sum()
    if total == 0:  # nothing was counted: every bucket alike
        carried, total = np.bincount(buckets, minlength=workers).astype(np.float64), float(size)
    return Plan(
        workers=workers,
        buckets=buckets,
        keys=named.keys,
        weights=named.counts / total,
        starts=np.arange(named.keys.size + 1, dtype=np.int64),
        homes=homes,
        parts=np.ones(named.keys.size),
        expected=carried / total,
    )
