"""The adaptivity loop (`functions` 4.5): measure, analyse, plan, and adopt a plan that pays off.

After every batch:

1. **Measure.** Update the key frequencies (:mod:`~evenflow.owners.frequencies`) and the workers' speeds
   (:mod:`~evenflow.owners.speeds`).
2. **Analyse.** Does max / min of state, computation (seconds) or communication (rows), divided by the
   workers' capacities, exceed the tolerance alpha by more than chance explains? Did the speeds change? With
   ``auto``, is the number of workers right (:mod:`~evenflow.owners.sizing`)?
3. **Plan.** If action is needed, the scheme derives the next plan from the current one
   (:mod:`~evenflow.schemes.owner_plans`).
4. **Adopt** the plan if it gains more than it moves (:func:`~evenflow.schemes.cost_model.weigh`), summed over
   the batches since the last change. Gains below 3 percent do not count. A new number of workers is adopted
   at once.

A scheme that follows signals works differently: one virtual worker moves per busy signal and batch, and no
plan is weighed.

Not specified by the paper: how much of a batch's imbalance is chance. Max / min of rows is allowed two more
standard deviations of a worker's mean row count, over the batches covered by the frequencies.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array
from evenflow.owners.balance import Moved, balance, bucket_loads, imbalance, moved
from evenflow.owners.frequencies import Frequencies
from evenflow.owners.measured import Decision, Measured
from evenflow.owners.sizing import AutoWorkers, Sizing
from evenflow.owners.speeds import Speeds
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme, check
from evenflow.schemes.cost_model import RESOURCES, Costs, Imbalance, weigh
from evenflow.schemes.owner_plans import OwnerPlans
from evenflow.spec import check_count

VERSION = 1
MEASURED, SIGNALS, EQUAL = "measured", "signals", "equal"
_CHANGED = 0.05  # of a share: smaller changes count as the same speed
_LEAST_GAIN = 0.03  # of b: less may be chance, and every new plan makes workers fetch state


class Ownership:
    """The current owners of all keys, which may change after each batch.

    Examples
    --------
    >>> import evenflow as ef
    >>> own = Ownership.start(ef.scheme("explicit"), workers=2)
    >>> keys, counts = np.array([7, 8], np.uint64), np.array([400.0, 400.0])
    >>> own.plan.homes_of(7), own.plan.homes_of(8)
    ([1], [1])
    >>> decision = own.observe(Measured(0, keys, counts, 1000, [100, 900], [0.1, 0.9], [50, 50], [9, 9]))
    >>> decision.adopted, sorted(own.plan.homes_of(7) + own.plan.homes_of(8))
    (True, [0, 1])
    """

    def __init__(self, plans: OwnerPlans, plan: Plan, costs: Costs, keep: float, speeds: str):
        self.plans = plans
        self.plan = plan
        self.costs = costs
        self.kind = speeds
        self.frequencies = Frequencies(keep)
        self.speeds = Speeds(plan.workers)
        self.shares = np.ones(plan.workers)  # capacities for which the plan was made
        self.sizing: Sizing | None = None
        self.missed = 0.0  # balance missed by not adopting better plans, in the unit of m
        self.batch = -1

    @staticmethod
    def start(
        scheme: Scheme,
        workers: int,
        *,
        seed: int = 0,
        auto: AutoWorkers | None = None,
        speeds: str | None = None,
        alpha: float | None = None,
        keep: float = 0.8,
    ) -> Ownership:
        """Return the initial ownership, when nothing is known.

        Parameters
        ----------
        scheme
            A scheme with one owner per key.
        workers
            Number of workers.
        seed
            Seed of the hash functions.
        auto
            When to add and remove workers. Default: never.
        speeds
            "measured", "signals" (only for ``consistent``, and its default) or "equal".
        alpha
            Allowed max / min of each resource. Default: the scheme's own, or 1.2.
        keep
            Factor applied to counts after each batch.
        """
        check("keep", keep, 0 <= keep < 1, "it is a factor from 0 to below 1")
        if alpha is not None:
            check("alpha", alpha, alpha > 1, "the allowed max / min load must be above 1")
        plans = scheme.owner_plans(seed)
        own = SIGNALS if plans.follows_signals else MEASURED
        if speeds not in (None, MEASURED, SIGNALS, EQUAL):
            raise EvenflowError(f"speeds is {speeds!r}; choose {MEASURED!r}, {SIGNALS!r} or {EQUAL!r}.")
        if speeds is not None and (speeds == SIGNALS) != (own == SIGNALS):
            raise EvenflowError(
                f"speeds is {speeds!r} with {scheme}; use {SIGNALS!r} with consistent and "
                'allocation="key", and only there.'
            )
        if auto is not None:
            workers = auto.clamp(workers)
        costs = scheme.costs if alpha is None else replace(scheme.costs, alphas=(alpha, alpha, alpha))
        ownership = Ownership(plans, plans.first(workers), costs, keep, speeds or own)
        ownership.sizing = None if auto is None else Sizing(auto)
        return ownership

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.plan.workers

    def observe(self, measured: Measured) -> Decision:
        """Take the measurements of a batch; return the decision. ``plan`` then applies to the next batch."""
        if measured.batch <= self.batch:
            return self._stay(measured.batch, f"batch {measured.batch} was already observed", {})
        measured.check(self.workers)
        self.batch = measured.batch
        self.frequencies.add(measured.keys, measured.counts, measured.total, self._bucket_rows(measured))
        if self.kind == MEASURED and measured.total > 0:
            self.speeds.add(measured.rows, measured.touched, measured.seconds)
        numbers = self._measured_numbers(measured)
        wanted = self._wanted(measured, numbers)
        if wanted != self.workers:
            return self._change_workers(wanted, measured.batch, "utilisation", numbers)
        if measured.total <= 0:
            return self._stay(measured.batch, "the batch had no rows", numbers)
        if self.plans.follows_signals:
            return self._follow_signals(measured, numbers)
        return self._follow_load(measured, numbers)

    def rescale(self, workers: int) -> Decision:
        """Change the number of workers, from the next batch on."""
        check_count("workers", workers, 1, "use at least one worker")
        if workers == self.workers:
            return self._stay(self.batch, f"there are already {workers} workers", {})
        return self._change_workers(int(workers), self.batch, "requested", {})

    def rebalance(self) -> Decision:
        """Adopt the scheme's next plan from the next batch on, whatever it moves."""
        counted, shares = self.frequencies.counted(), self._shares()
        plan = self.plans.following(self.plan, self.workers, counted, shares)
        moves = moved(self.plan, plan, counted, self.costs)
        if moves.weight == 0:
            name = self.plans.scheme.name
            return self._stay(self.batch, f"rebalancing was requested; {name} would move nothing", {})
        before = imbalance(self.plan, counted, self.costs, shares)
        numbers = _plan_numbers(before, imbalance(plan, counted, self.costs, shares)) | _move_numbers(moves)
        self._adopt(plan, shares)
        return Decision(self.batch, True, "rebalancing was requested", self.workers, self.workers, numbers)

    def _bucket_rows(self, measured: Measured) -> Float64Array | None:
        size = self.plan.buckets.size
        if measured.buckets is not None and len(measured.buckets) != size:
            raise EvenflowError(
                f"batch {measured.batch} has rows of {len(measured.buckets)} buckets, the plan has {size}; "
                "count by the plan's buckets, or leave buckets out."
            )
        return measured.buckets

    def _measured_numbers(self, measured: Measured) -> dict[str, Any]:
        shares = self._shares()
        loads = [
            np.asarray(measured.state_bytes, np.float64) / shares,
            np.asarray(measured.seconds, np.float64),
            np.asarray(measured.rows, np.float64) / shares,
        ]
        found = balance(loads, self.costs)
        return {
            "ratios": dict(zip(RESOURCES, _rounded(found.ratios), strict=True)),
            "relative": dict(zip(RESOURCES, _rounded(found.relative), strict=True)),
            "shares": _rounded(shares),
            "rows": [int(rows) for rows in measured.rows],
            "seconds": _rounded(measured.seconds),
        }

    def _wanted(self, measured: Measured, numbers: dict[str, Any]) -> int:
        if self.sizing is None or not measured.elapsed or measured.elapsed <= 0:
            return self.workers
        work = math.fsum(measured.seconds) / measured.elapsed
        numbers["utilisation"] = round(work / self.workers, 6)
        return self.sizing.add(work, self.workers)

    def _shares(self) -> Float64Array:
        """Return the capacities for planning."""
        return self.speeds.shares() if self.kind == MEASURED else np.ones(self.workers)

    def _follow_load(self, measured: Measured, numbers: dict[str, Any]) -> Decision:
        shares = self._shares()
        why = self._causes(numbers, shares)
        if not why:
            self.missed = 0.0
            return self._stay(measured.batch, "every resource is within its tolerance", numbers)
        counted = self.frequencies.counted()
        plan = self.plans.following(self.plan, self.workers, counted, shares)
        moves = moved(self.plan, plan, counted, self.costs)
        if moves.weight == 0:
            return self._stay(measured.batch, f"{why}; {self.plans.scheme.name} would move nothing", numbers)
        before = imbalance(self.plan, counted, self.costs, shares)
        after = imbalance(plan, counted, self.costs, shares)
        self.missed, adopt = weigh(self.missed, before, after, moves.relative, _LEAST_GAIN)
        numbers |= _plan_numbers(before, after) | _move_numbers(moves) | {"missed": round(self.missed, 6)}
        if not adopt:
            return self._stay(
                measured.batch, f"{why}; moving would cost more than it has gained so far", numbers
            )
        self._adopt(plan, shares)
        return Decision(
            measured.batch, True, f"{why}; the new plan pays off", self.workers, self.workers, numbers
        )

    def _causes(self, numbers: dict[str, Any], shares: Float64Array) -> str:
        """Return the reasons for a new plan, empty if there are none."""
        causes = []
        rows_per_worker = max(1.0, self.frequencies.total / self.workers)
        # two standard deviations up at one worker, two down at another
        chance = 1 + 2 * 2 / math.sqrt(rows_per_worker)
        if self.plans.follows_load or self.plans.follows_speed:
            over = [name for name, value in numbers["relative"].items() if value > chance]
            if over:
                causes.append(f"{', '.join(over)} out of tolerance")
        if self.plans.follows_speed and (np.abs(shares / self.shares - 1) > _CHANGED).any():
            causes.append("speeds changed")
        return ", ".join(causes)

    def _follow_signals(self, measured: Measured, numbers: dict[str, Any]) -> Decision:
        counted = self.frequencies.counted()
        self.plans.hear(measured.seconds, bucket_loads(self.plan.buckets.size, counted))
        plan = self.plans.following(self.plan, self.workers, counted, self.shares)
        moves = moved(self.plan, plan, counted, self.costs)
        if moves.weight == 0:
            return self._stay(
                measured.batch,
                "no virtual worker could move from a busy to an idle worker with a gain",
                numbers,
            )
        numbers |= _move_numbers(moves)
        self._adopt(plan, self.shares)
        reason = "virtual workers moved from busy to idle workers"
        return Decision(measured.batch, True, reason, self.workers, self.workers, numbers)

    def _change_workers(self, workers: int, batch: int, why: str, numbers: dict[str, Any]) -> Decision:
        before, old = self.workers, self.plan
        self.speeds.rescale(workers)
        shares = self.speeds.shares() if self.kind == MEASURED else np.ones(workers)
        counted = self.frequencies.counted()
        plan = self.plans.following(old, workers, counted, shares)
        now = imbalance(plan, counted, self.costs, shares)
        numbers |= {"b_after": round(now.overall, 6)}
        numbers |= _move_numbers(moved(old, plan, counted, self.costs))
        self._adopt(plan, shares)
        return Decision(batch, True, f"{before} -> {workers} workers: {why}", before, workers, numbers)

    def _adopt(self, plan: Plan, shares: Float64Array) -> None:
        self.plan, self.shares, self.missed = plan, shares, 0.0
        self.frequencies.cut(plan.buckets.size)

    def _stay(self, batch: int, reason: str, numbers: dict[str, Any]) -> Decision:
        return Decision(batch, False, reason, self.workers, self.workers, numbers)

    def to_json(self) -> str:
        """Return the ownership as JSON; ``from_json`` continues exactly where it left off."""
        saved = self.plans.to_bytes()
        return json.dumps(
            {
                "version": VERSION,
                "scheme": str(self.plans.scheme),
                "seed": self.plans.seed,
                "speeds": self.kind,
                "alphas": list(self.costs.alphas),
                "batch": self.batch,
                "missed": self.missed,
                "shares": self.shares.tolist(),
                "history": self.speeds.history,
                "auto": None if self.sizing is None else asdict(self.sizing.rule),
                "sizing": None if self.sizing is None else self.sizing.to_dict(),
                "frequencies": self.frequencies.to_dict(),
                "virtual": None if saved is None else base64.b64encode(saved).decode(),
                "plan": json.loads(self.plan.to_json()),
            }
        )

    @staticmethod
    def from_json(text: str, scheme: Scheme) -> Ownership:
        """Restore an ownership from ``to_json``, with the same scheme."""
        try:
            saved: dict[str, Any] = json.loads(text)
            if saved["version"] != VERSION:
                raise EvenflowError(
                    f"this ownership has version {saved['version']}, but this evenflow reads {VERSION}; use "
                    "the evenflow that wrote it."
                )
            if saved["scheme"] != str(scheme):
                raise EvenflowError(
                    f"the scheme is {scheme}, but the saved owners are from {saved['scheme']}; use that one."
                )
            plans = scheme.owner_plans(int(saved["seed"]))
            if saved["virtual"] is not None:
                plans.resume(base64.b64decode(saved["virtual"]))
            costs = replace(scheme.costs, alphas=tuple(saved["alphas"]))
            plan = Plan.from_json(json.dumps(saved["plan"]))
            own = Ownership(plans, plan, costs, 0.0, saved["speeds"])
            own.frequencies = Frequencies.from_dict(saved["frequencies"])
            own.speeds.history = [list(known) for known in saved["history"]]
            own.shares = np.array(saved["shares"], np.float64)
            own.missed, own.batch = float(saved["missed"]), int(saved["batch"])
            if saved["auto"] is not None:
                own.sizing = Sizing(AutoWorkers(**saved["auto"]), **saved["sizing"])
        except EvenflowError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise EvenflowError(
                f"this is not a saved ownership ({error}); pass the result of to_json()."
            ) from error
        return own


def _plan_numbers(before: Imbalance, after: Imbalance) -> dict[str, float]:
    return {"b_before": round(before.overall, 6), "b_after": round(after.overall, 6)}


def _move_numbers(moves: Moved) -> dict[str, float]:
    return {
        "moved": round(moves.weight, 9),
        "ideal": round(moves.ideal, 9),
        "relative_migration": round(moves.relative, 9),
    }


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 6) for value in values]
