"""A plan: an immutable table of which worker gets which key, made before any row arrives.

Every key's hash falls into one of B buckets, and a bucket has one home. Hot keys have homes of their own,
each with the fraction of the key's rows that it gets. A plan is plain data: it can be explained, compared
with an earlier plan and stored as JSON. To route rows it is compiled to a
:class:`~evenflow.plan.table.PlanTable`, which numpy, Spark SQL and joins share.

If a key has several homes, a row needs more than its key: a number in [0, 1), drawn by the engine, selects
the home.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.plan import explain
from evenflow.plan.homes import Homes
from evenflow.plan.json_fields import (
    array,
    check_distinct,
    check_version,
    field,
    hash_in,
    homes_in,
    parsed,
    refused,
    shares_in,
    worker_fields,
)
from evenflow.plan.table import PlanTable, check_draws

if TYPE_CHECKING:
    from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array

VERSION = 1
_ROUNDING = 1e-6  # allowed deviation of the sum of a key's parts from 1


@dataclass(frozen=True, eq=False)
class Plan(Homes):
    """The homes of buckets and of hot keys, hottest first, and the expected load of each worker.

    Parameters
    ----------
    workers
        Number of workers.
    buckets
        Home of each bucket.
    keys
        Hash of each hot key.
    weights
        Share of all rows of each hot key.
    starts
        Hot key i has the homes ``starts[i]`` to ``starts[i + 1]``.
    homes
        Homes of all hot keys, key by key.
    parts
        Fraction of the key's rows that each home gets.
    expected
        Share of all rows that each worker is expected to get.

    Examples
    --------
    >>> from evenflow.plan import make_plan
    >>> plan = make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
    >>> [(int(key), plan.homes_of(int(key))) for key in plan.keys]
    [(7, [0, 1]), (8, [1])]
    >>> plan.max_over_mean
    1.0
    """

    workers: int
    buckets: Int32Array
    keys: UInt64Array
    weights: Float64Array
    starts: Int64Array
    homes: Int32Array
    parts: Float64Array
    expected: Float64Array

    @cached_property
    def table(self) -> PlanTable:
        """The plan compiled for routing."""
        return PlanTable.of(self)

    def homes_of(self, key: int) -> list[int]:
        """Return the homes of a key.

        Parameters
        ----------
        key
            Hash of the key.

        Returns
        -------
        list of int
            The workers that get rows of the key.
        """
        return self.homes_of_each(np.array([key], np.uint64))[1].tolist()

    def homes_of_each(self, hashes: UInt64Array) -> tuple[Int64Array, Int32Array]:
        """Return the homes of many keys.

        Parameters
        ----------
        hashes
            Hashes of the keys.

        Returns
        -------
        starts, homes
            Key i has the homes ``homes[starts[i]:starts[i + 1]]``.
        """
        key = self.table.find(hashes)
        hot = key >= 0
        counts = np.where(hot, np.append(np.diff(self.starts), 1)[key], 1)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        # homes of hot keys and of buckets in one array, so that each hash has one range
        homes = np.concatenate([self.homes, self.table.bucket_homes(hashes)])
        first = np.where(hot, self.starts[key], self.homes.size + np.arange(hashes.size))
        return starts, homes[np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])]

    def route(self, hashes: UInt64Array, draws: Float64Array) -> Int32Array:
        """Return the worker of every row, the same one that Spark chooses.

        Parameters
        ----------
        hashes
            Hash of each row's key, from :func:`evenflow.hash_keys` or Spark's ``xxhash64``.
        draws
            A number in [0, 1) for each row, which selects the home of a key that has several.

        Returns
        -------
        numpy.ndarray
            The worker of each row, int32.

        Examples
        --------
        >>> from evenflow.plan import make_plan
        >>> plan = make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
        >>> plan.route(np.array([7, 7, 8], np.uint64), np.array([0.1, 0.9, 0.9]))
        array([0, 1, 1], dtype=int32)
        """
        rows = np.asarray(hashes)
        return self.table.route(rows, check_draws(draws, rows.size))

    def explain(
        self, previous: Plan | None = None, top: int = 10, labels: Mapping[int, str] | None = None
    ) -> str:
        """Describe the plan as text.

        Parameters
        ----------
        previous
            An earlier plan; what changed since is described as well.
        top
            Number of hot keys to list.
        labels
            Names of keys, by their hashes; other keys are shown by their hash.

        Examples
        --------
        >>> from evenflow.plan import make_plan
        >>> plan = make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
        >>> print(plan.explain(top=1))
        2 workers; expected maximum load 1.000 times the mean
        2 hot keys with 70.0% of the rows (split: 1, additional homes: 1)
        all other keys: 128 buckets with one home each
          key 0000000000000007  60.00% -> 0, 1
        """
        return explain.explain(self, previous, top, labels)

    def _repr_html_(self) -> str:
        """Show the plan in a notebook: expected loads and the hottest keys."""
        from evenflow.charts import notebook

        title, hot, rest = explain.headline(self)
        keys = [
            (f"{int(key):016x}", f"{weight:.2%}", explain.homes_text(self, number))
            for number, (key, weight) in enumerate(zip(self.keys[:10], self.weights[:10], strict=True))
        ]
        return notebook.card(
            title,
            notebook.bars((self.expected * 100).tolist(), "Expected rows per worker, in percent"),
            notebook.paragraph(f"{hot}; {rest}."),
            notebook.table(("key", "share of the rows", "workers"), keys) if keys else "",
        )

    def changes(self, previous: Plan) -> str:
        """Describe in one line what changed since the plan ``previous``."""
        return explain.changes(self, previous)

    def to_json(self) -> str:
        """Return the plan as JSON, to be read again with `from_json`.

        Hashes are decimal strings, since many JSON parsers round large numbers.

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
        """Read a plan from the result of `to_json`.

        Parameters
        ----------
        text
            The plan as JSON.

        Raises
        ------
        EvenflowError
            If the text is not a valid plan.

        Examples
        --------
        >>> Plan.from_json("{}")
        Traceback (most recent call last):
            ...
        evenflow.errors.EvenflowError: this is not a plan: version is missing; pass the result of to_json().
        """
        content = parsed(text)
        check_version(content, VERSION)
        workers, expected = worker_fields(content)
        buckets = np.array(homes_in(field(content, "buckets", "the plan"), "buckets", workers), np.int32)
        hot = [_hot_key(entry, workers) for entry in array(field(content, "hot", "the plan"), "hot")]
        keys = np.array([key for key, *_ in hot], np.uint64)
        check_distinct(keys)
        return Plan(
            workers=workers,
            buckets=buckets,
            keys=keys,
            weights=np.array([weight for _, weight, _, _ in hot], np.float64),
            starts=np.cumsum([0, *(len(homes) for _, _, homes, _ in hot)], dtype=np.int64),
            homes=np.array([home for _, _, homes, _ in hot for home in homes], np.int32),
            parts=np.array([part for _, _, _, parts in hot for part in parts], np.float64),
            expected=expected,
        )


def _hot_key(entry: Any, workers: int) -> tuple[int, float, list[int], list[float]]:
    """Return the hash, the weight, the homes and the parts of a hot key."""
    key = hash_in(entry)
    of = f"key {key}"
    [weight] = shares_in([field(entry, "weight", of)], f"weight of {of}")
    homes = homes_in(field(entry, "homes", of), f"homes of {of}", workers)
    parts = shares_in(field(entry, "parts", of), f"parts of {of}")
    if len(homes) != len(parts):
        raise refused(f"{of} has {len(homes)} homes and {len(parts)} parts")
    if abs(sum(parts) - 1) > _ROUNDING:
        raise refused(f"parts of {of} sum to {sum(parts):.6g}, not 1")
    return key, weight, homes, parts
