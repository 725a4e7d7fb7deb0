"""Time-evolving Zipf (`evolving` 6.1): the popularity ranking of the keys reverses during the stream.

The first 0.8 N messages follow ``Pr[i] ~ i ** -z``, the last 0.2 N ``Pr[i] ~ (keys + 1 - i) ** -z``: rare
keys become hot.

The paper prints the same law for both parts; the reversal is an interpretation, stated by the figures that
use it. ``phases`` are the relative lengths of the parts, ``4+1`` as in the paper; the ranks reverse at
every boundary. A single number gives that many parts of equal length. The paper's 50 M messages are ten runs
of 5 M with different seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Int32Array
from evenflow.streams.generator import Generator
from evenflow.streams.sampling import draw_salt, draw_weighted

_MOST_PHASES = 10**4


@dataclass(frozen=True)
class Evolving(Generator):
    """Zipf's law with ranks that reverse at every phase boundary; id 0 is the hottest key of the first phase.

    Parameters
    ----------
    z
        Zipf exponent.
    keys
        Number of keys.
    phases
        Relative lengths of the phases, such as ``(4, 1)`` or ``"4+1"``, or a number of equal phases.

    Examples
    --------
    >>> ids = next(Evolving(z=2.0, keys=100, messages=1000, seed=1).chunks()).ids
    >>> int((ids[:800] < 10).sum()), int((ids[800:] >= 90).sum())
    (749, 185)
    """

    z: float = 1.4
    keys: int = 10**5
    messages: int = field(default=5 * 10**6, kw_only=True)
    phases: tuple[float, ...] | str | int = (4, 1)

    keyword = "evolving"
    summary = "Zipf's law with ranks that reverse for the last fifth, or at every boundary of phases="

    def _check(self) -> None:
        self._set("phases", _lengths(self.phases))

    def _fill(self, start: int, out: Int32Array) -> None:
        draw_weighted(draw_salt(self.seed), start, self._zipf, out)
        begin = 0
        for phase, end in enumerate(self.boundaries):
            if phase % 2 == 1 and begin < start + out.size and end > start:
                part = out[max(begin - start, 0) : end - start]
                np.subtract(self.keys - 1, part, out=part)
            begin = end

    @cached_property
    def boundaries(self) -> tuple[int, ...]:
        """The message number at which each phase ends.

        >>> Evolving(messages=50, phases="4+1").boundaries
        (40, 50)
        """
        lengths = _lengths(self.phases)
        total = sum(lengths)
        return tuple(round(self.messages * (so_far / total)) for so_far in accumulate(lengths))


def _lengths(phases: Any) -> tuple[float, ...]:
    """Parse ``phases``: lengths as a tuple or text, or a number of equal phases."""
    rule = "it must be relative lengths such as 4+1, or a number of equal phases"
    wrong = EvenflowError(f"phases is {phases!r}; {rule}.")
    try:
        if isinstance(phases, str):
            phases = phases.split("+")
        parts = tuple(float(part) for part in (phases if isinstance(phases, list | tuple) else [phases]))
    except (TypeError, ValueError):
        raise wrong from None
    if len(parts) == 1 and 1 <= parts[0] <= _MOST_PHASES and parts[0] == int(parts[0]):
        return (1.0,) * int(parts[0])
    if not 2 <= len(parts) <= _MOST_PHASES or not all(0 < part < 1e15 for part in parts):
        raise wrong
    return parts
