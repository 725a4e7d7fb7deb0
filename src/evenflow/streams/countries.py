"""The country streams of `dynamic` 5.1: ``skew`` percent of the messages from one country, uniform otherwise.

The paper's country-skew-r0 .. r100 are ``skew=0`` .. ``skew=100``; country-half-skew-r80 is
``skew=80,then=0``, where the second half of the messages has a different skew.

Not specified by the paper: the 204 countries (here: the members and observers of the United Nations and nine
more), the hot country (here: the first, id 0), and the rest (here: the other 203; a skew below 1/204 is
uniform over all).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import numpy as np

from evenflow.kernels import Int32Array, UInt64Array
from evenflow.keys import hash_keys
from evenflow.streams.generator import Generator
from evenflow.streams.sampling import draw_grouped, draw_salt

COUNTRIES = tuple(files("evenflow.streams").joinpath("countries.txt").read_text("utf-8").splitlines())
_COUNTS = np.array([1, len(COUNTRIES) - 1])


@dataclass(frozen=True)
class Countries(Generator):
    """204 countries, one of which has ``skew`` percent of the messages.

    Parameters
    ----------
    skew
        Percentage of the messages with the hot country.
    then
        The same for the second half of the stream; None for no change.

    Examples
    --------
    >>> stream = Countries(skew=80, then=0, messages=2000, seed=1)
    >>> ids = next(stream.chunks()).ids
    >>> int((ids[:1000] == 0).sum()), int((ids[1000:] == 0).sum()), stream.label(0)
    (798, 5, 'Afghanistan')
    """

    skew: float = 80.0
    then: float | None = None

    keyword = "countries"
    summary = "204 countries, one with skew= percent of the messages (then= in the second half)"

    def _fill(self, start: int, out: Int32Array) -> None:
        turn = min(max(self.messages // 2 - start, 0), out.size)
        then = self.skew if self.then is None else self.then
        for skew, begin, end in ((self.skew, 0, turn), (then, turn, out.size)):
            hot = max(skew / 100, 1 / len(COUNTRIES))
            draw_grouped(draw_salt(self.seed), start + begin, np.array([hot, 1.0]), _COUNTS, out[begin:end])

    def keys_upper_bound(self) -> int:
        """Return 204."""
        return len(COUNTRIES)

    @cached_property
    def hashes(self) -> UInt64Array:
        """The 64-bit hash of every country's name, by id."""
        return hash_keys(list(COUNTRIES))

    def label(self, id: int) -> str:
        """Return the country's name."""
        return COUNTRIES[self._known(id)]
