"""A plan: an immutable, printable answer to "who goes where", made before the rows are seen.

Every key's hash falls into one of B buckets, and a bucket has one home. Hot keys have homes of their own, and
each home has the part of the key's rows that it gets. A plan is data: it explains itself, tells what changed
since the one before, and is JSON. To route rows it is compiled to a :class:`~evenflow.plan.table.PlanTable`,
which numpy, Spark's SQL and joins read alike.

Only where a key's homes are several does a row need more than its key: a number in [0, 1) drawn for it by its
engine picks the home.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.plan import explain
from evenflow.plan.table import PlanTable, check_draws

if TYPE_CHECKING:
    from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array

VERSION = 1
_ROUNDING = 1e-6  # by which the parts of a key may miss 1


@dataclass(frozen=True, eq=False)
class Plan:
    """Homes of buckets and of hot keys (hottest first), and what each worker is expected to carry.

    >>> from evenflow.plan import make_plan
    >>> plan = make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
    >>> [(int(key), plan.homes_of(int(key))) for key in plan.keys]
    [(7, [0, 1]), (8, [1])]
    >>> plan.max_over_mean
    1.0
    """

    workers: int
    buckets: Int32Array  # home of each bucket
    keys: UInt64Array  # hash of each hot key
    weights: Float64Array  # share of all rows that each hot key brings
    starts: Int64Array  # hot key i has the homes starts[i] to starts[i + 1]
    homes: Int32Array
    parts: Float64Array  # of the key's rows, one per home
    expected: Float64Array  # share of all rows that each worker is expected to carry

    @property
    def max_over_mean(self) -> float:
        """What the fullest worker is expected to carry, relative to the mean."""
        return round(float(self.expected.max()) * self.workers, 9)

    @property
    def splits(self) -> int:
        """Number of homes that keys have beyond their first."""
        return int(self.homes.size - self.keys.size)

    @cached_property
    def table(self) -> PlanTable:
        """The plan compiled for routing."""
        return PlanTable.of(self)

    def homes_of(self, key: int) -> list[int]:
        """Return the homes of a key hash, in order."""
        return self.homes_of_each(np.array([key], np.uint64))[1].tolist()

    def homes_of_each(self, hashes: UInt64Array) -> tuple[Int64Array, Int32Array]:
        """Return the homes of many key hashes: hash i has ``homes[starts[i]:starts[i + 1]]``."""
        key = self.table.find(hashes)
        hot = key >= 0
        counts = np.where(hot, np.append(np.diff(self.starts), 1)[key], 1)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        # homes of hot keys and of buckets in one array, so that each hash has one range in it
        homes = np.concatenate([self.homes, self.table.bucket_homes(hashes)])
        first = np.where(hot, self.starts[key], self.homes.size + np.arange(hashes.size))
        return starts, homes[np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])]

    def route(self, hashes: UInt64Array, draws: Float64Array) -> Int32Array:
        """Return the worker of every row, exactly as Spark chooses it.

        Parameters
        ----------
        hashes
            Hash of each row's key, as :func:`evenflow.hash_keys` or Spark's ``xxhash64`` gives it.
        draws
            A number in [0, 1) for each row; it picks the home where a key has several.

        Examples
        --------
        >>> from evenflow.plan import make_plan
        >>> plan = make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
        >>> plan.route(np.array([7, 7, 8], np.uint64), np.array([0.1, 0.9, 0.9]))
        array([0, 1, 1], dtype=int32)
        """
        rows = np.asarray(hashes)
        return self.table.route(rows, check_draws(draws, rows.size))

    def explain(self, previous: Plan | None = None, top: int = 10) -> str:
        """Describe the plan in a few lines, and what changed since ``previous``."""
        return explain.explain(self, previous, top)

    def changes(self, previous: Plan) -> str:
        """Describe in one line what changed since ``previous``."""
        return explain.changes(self, previous)

    def to_json(self) -> str:
        """Return the plan as JSON, to be stored and read again with `from_json`.

        Hashes are decimal strings, since many JSON readers round large numbers.

        Examples
        --------
        >>> from evenflow.plan import make_plan
        >>> plan = make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
        >>> again = Plan.from_json(plan.to_json())
        >>> again.homes_of(7), again.max_over_mean
        ([0, 1], 1.0)
        """
        return json.dumps(
            {
                "version": VERSION,
                "workers": self.workers,
                "buckets": self.buckets.tolist(),
                "expected": self.expected.tolist(),
                "hot": [
                    {
                        "key": str(key),
                        "weight": weight,
                        "homes": self.homes[start:end].tolist(),
                        "parts": self.parts[start:end].tolist(),
                    }
                    for key, weight, start, end in zip(
                        self.keys.tolist(),
                        self.weights.tolist(),
                        self.starts[:-1].tolist(),
                        self.starts[1:].tolist(),
                        strict=True,
                    )
                ],
            }
        )

    @staticmethod
    def from_json(text: str) -> Plan:
        """Read a plan that `to_json` wrote.

        Raises
        ------
        EvenflowError
            If the text is not a plan: one sentence says what is wrong with it.

        Examples
        --------
        >>> Plan.from_json("{}")
        Traceback (most recent call last):
            ...
        evenflow.errors.EvenflowError: this is not a plan: version is missing; pass what to_json() returned.
        """
        content = _parsed(text)
        version = _field(content, "version", "the plan")
        if version != VERSION:
            raise EvenflowError(
                f"this plan has version {version}, this evenflow reads version {VERSION}; make a new plan."
            )
        [workers] = _whole([_field(content, "workers", "the plan")], "workers")
        if workers < 1:
            raise _refused(f"workers is {workers}")
        hot = [_hot_key(entry, workers) for entry in _array(_field(content, "hot", "the plan"), "hot")]
        keys = np.array([key for key, *_ in hot], np.uint64)
        unique, counts = np.unique(keys, return_counts=True)
        if unique.size < keys.size:
            raise _refused(f"key {unique[counts > 1][0]} is listed twice")
        expected = _shares(_field(content, "expected", "the plan"), "expected")
        if len(expected) != workers:
            raise _refused(f"expected has {len(expected)} values for {workers} workers")
        buckets = _homes(_field(content, "buckets", "the plan"), "buckets", workers)
        return Plan(
            workers=workers,
            buckets=np.array(buckets, np.int32),
            keys=keys,
            weights=np.array([weight for _, weight, _, _ in hot], np.float64),
            starts=np.cumsum([0, *(len(homes) for _, _, homes, _ in hot)], dtype=np.int64),
            homes=np.array([home for _, _, homes, _ in hot for home in homes], np.int32),
            parts=np.array([part for _, _, _, parts in hot for part in parts], np.float64),
            expected=np.array(expected, np.float64),
        )


def _refused(what: str) -> EvenflowError:
    return EvenflowError(f"this is not a plan: {what}; pass what to_json() returned.")


def _parsed(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise _refused(str(error)) from None
    if not isinstance(content, dict):
        raise _refused(f"it is {_shown(content)}, not an object")
    return content


def _field(content: dict[str, Any], name: str, of: str) -> Any:
    if name not in content:
        raise _refused(f"{name} is missing" if of == "the plan" else f"{name} of {of} is missing")
    return content[name]


def _hot_key(entry: Any, workers: int) -> tuple[int, float, list[int], list[float]]:
    """Return the hash, the weight, the homes and the parts of a hot key."""
    if not isinstance(entry, dict):
        raise _refused(f"hot holds {_shown(entry)}, not an object")
    named = _field(entry, "key", "a hot key")
    digits = isinstance(named, str) and named.isascii() and named.isdigit() and len(named) <= 20
    if not digits or int(named) >= 2**64:
        raise _refused(f"key is {_shown(named)}, not a string of a number from 0 to 2**64 - 1")
    of = f"key {named}"
    [weight] = _shares([_field(entry, "weight", of)], f"weight of {of}")
    homes = _homes(_field(entry, "homes", of), f"homes of {of}", workers)
    parts = _shares(_field(entry, "parts", of), f"parts of {of}")
    if len(homes) != len(parts):
        raise _refused(f"{of} has {len(homes)} homes and {len(parts)} parts")
    if abs(sum(parts) - 1) > _ROUNDING:
        raise _refused(f"parts of {of} sum to {sum(parts):.6g}, not to 1")
    return int(named), weight, homes, parts


def _array(values: Any, name: str) -> list[Any]:
    if not isinstance(values, list):
        raise _refused(f"{name} is {_shown(values)}, not an array")
    return values


def _homes(values: Any, name: str, workers: int) -> list[int]:
    homes = _whole(_array(values, name), name)
    if not homes:
        raise _refused(f"{name} is empty")
    for home in homes:
        if not 0 <= home < workers:
            raise _refused(f"{name} has worker {home}, outside 0 to {workers - 1}")
    return homes


def _whole(values: list[Any], name: str) -> list[int]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
            raise _refused(f"{name} has {_shown(value)}, not a whole number of 32 bits")
    return values


def _shares(values: Any, name: str) -> list[float]:
    for value in _array(values, name):
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not 0 <= value <= sys.float_info.max:
            raise _refused(f"{name} has {_shown(value)}, not a finite number of 0 or more")
    return [float(value) for value in values]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
