"""The highest rate that stays stable, found by bisection."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.errors import EvenflowError

STEP = 1.06  # between the first two rates, doubled in logarithm until one is stable and one is not
RESOLUTION = 1.03  # the rate found is stable, and so many times the rate is not
RANGE = 64.0  # the guess is off by less


def highest_stable(stable: Callable[[float], bool], guess: float) -> float:
    """Return a rate that is stable while ``RESOLUTION`` times the rate is not.

    Parameters
    ----------
    stable
        Whether a rate is stable; expected of all rates below a limit, and of none above.
    guess
        Where to begin. The closer it is to the limit, the fewer rates are tried.

    Examples
    --------
    >>> tried = []
    >>> rate = highest_stable(lambda rate: tried.append(round(rate)) or rate < 1000, 960.0)
    >>> round(rate), tried
    (988, [960, 1018, 988])
    """
    low = high = guess
    step = STEP
    if stable(guess):
        while stable(high := _near(guess, low * step)):
            low, step = high, step**2
    else:
        while not stable(low := _near(guess, high / step)):
            high, step = low, step**2
    while high / low > RESOLUTION * (1 + 1e-9):
        middle = (low * high) ** 0.5
        if stable(middle):
            low = middle
        else:
            high = middle
    return low


def _near(guess: float, rate: float) -> float:
    if not guess / RANGE < rate < guess * RANGE:
        raise EvenflowError(
            f"no limit was found near {guess:.4g} messages per second; the machine is too busy to measure it."
        )
    return rate
