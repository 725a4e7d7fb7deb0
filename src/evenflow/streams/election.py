"""A substitute for the twitter-election stream of `dynamic` 5.1: one key with 68 percent, the rest rare keys.

The original stream is not available. This one is fitted to two numbers of Table 3 (5 sources, 10 workers), so
matching them is no evidence for the paper: the distribution cost (mean number of workers per distinct key) of
shuffle, 2.4491, and of Partial Key Grouping, 1.1647. Under shuffle, a key with λ expected messages reaches
``10 (1 - exp(-λ / 10)) / (1 - exp(-λ))`` of 10 workers, given that it occurs at all. A single kind of rare
key with λ = 2.56 matches the first number, but gives Partial Key Grouping a cost of 1.34. Two kinds match
both: λ = 0.5 and λ = 25, mixed by the formula for shuffle's cost. The two λ were found by trying eight pairs
(and Zipf's law for the rest, which stayed below 2.0 for shuffle); the second cost measures 1.16.

Not fitted, but mostly determined by the 68 percent: the standard deviations of the loads under key grouping
and Partial Key Grouping, 20.4 and 12.2 percent (Table 3: 20.3 and 12.4). DKG's 1.2414 was not used.

The number of keys is derived from ``messages``, so that the cost is the same for every length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Int32Array
from evenflow.streams.base import MOST_KEYS
from evenflow.streams.generator import Generator
from evenflow.streams.sampling import draw_grouped, draw_salt

_COST = 2.4491  # Table 3, SG
_WORKERS = 10
_RARE = 0.5  # expected messages per key
_COMMON = 25.0


@dataclass(frozen=True)
class Election(Generator):
    """One hot key; most other keys occur once.

    Parameters
    ----------
    share
        Share of the messages with the hot key.

    Examples
    --------
    >>> ids = next(Election(messages=1000, seed=1).chunks()).ids
    >>> int((ids == 0).sum())
    687
    """

    share: float = 0.68
    messages: int = field(default=5 * 10**6, kw_only=True)

    keyword = "election"
    summary = "one key with share= of the messages, all others rare (for twitter-election of `dynamic`)"

    def _check(self) -> None:
        if self.keys_upper_bound() > MOST_KEYS:
            raise EvenflowError(
                f"messages is {self.messages}, which needs {self.keys_upper_bound()} keys; reduce it, as a "
                f"generator has at most {MOST_KEYS}."
            )

    def _fill(self, start: int, out: Int32Array) -> None:
        common, rare = self._kinds
        due = common * _COMMON + rare * _RARE
        ends = [self.share, self.share + (1 - self.share) * (common * _COMMON / due if due else 1.0), 1.0]
        draw_grouped(draw_salt(self.seed), start, np.array(ends), np.array([1, common, rare]), out)

    def keys_upper_bound(self) -> int:
        """Return the number of keys: hot, common and rare."""
        return 1 + sum(self._kinds)

    @cached_property
    def _kinds(self) -> tuple[int, int]:
        """The numbers of common and rare keys."""
        common = (_COST - _workers_met(_RARE)) / (_workers_met(_COMMON) - _workers_met(_RARE))
        possible = (common / _occurs(_COMMON), (1 - common) / _occurs(_RARE))
        rest = self.messages * (1 - self.share) / (possible[0] * _COMMON + possible[1] * _RARE)
        return math.ceil(rest * possible[0]), math.ceil(rest * possible[1])


def _occurs(due: float) -> float:
    return 1 - math.exp(-due)


def _workers_met(due: float) -> float:
    """Return the expected number of workers that a key reaches under shuffle, given that it occurs."""
    return _WORKERS * _occurs(due / _WORKERS) / _occurs(due)
