"""Stationary distributions: Zipf and uniform.

Zipf: ``Pr[rank] ~ rank ** -z`` for ranks 1 .. keys, independent messages (the synthetic streams of `choices`
V-A). The key with id i is the integer i + 1, its rank.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.kernels import Int32Array
from evenflow.streams.generator import Generator
from evenflow.streams.sampling import draw_salt, draw_uniform, draw_weighted


@dataclass(frozen=True)
class Zipf(Generator):
    """Independent messages with keys that follow Zipf's law; id 0 is the hottest key.

    Parameters
    ----------
    z
        Zipf exponent; 0 is uniform.
    keys
        Number of keys.

    Examples
    --------
    >>> [chunk.ids.tolist() for chunk in Zipf(z=1.4, keys=1000, messages=8, seed=1).chunks(5)]
    [[6, 0, 0, 2, 25], [23, 449, 91]]
    """

    z: float = 1.4
    keys: int = 10**5

    keyword = "zipf"
    summary = "Zipf's law: Pr[rank] ~ rank ** -z"

    def _fill(self, start: int, out: Int32Array) -> None:
        draw_weighted(draw_salt(self.seed), start, self._zipf, out)


@dataclass(frozen=True)
class Uniform(Generator):
    """Independent messages with uniformly distributed keys.

    Parameters
    ----------
    keys
        Number of keys.

    Examples
    --------
    >>> [chunk.ids.tolist() for chunk in Uniform(keys=10, messages=5, seed=1).chunks()]
    [[8, 1, 2, 6, 0]]
    """

    keys: int = 10**5

    keyword = "uniform"
    summary = "all keys equally likely"

    def _fill(self, start: int, out: Int32Array) -> None:
        draw_uniform(draw_salt(self.seed), start, self.keys, out)
