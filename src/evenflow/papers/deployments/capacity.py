"""The highest rate that stays stable, found by section with several rates at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenflow.errors import EvenflowError

RESOLUTION = 1.03  # the rate found is stable, and so many times the rate is not
RANGE = 64.0  # the guess is off by less
RATES = 4  # at a time


def highest_stable(stable: Callable[..., Sequence[bool]], guess: float) -> float:
    """Return a rate that is stable while ``RESOLUTION`` times the rate is not.

    Parameters
    ----------
    stable
        Whether each of some rates, in ascending order, is stable; expected of all rates below a limit, and of
        none above.
    guess
        Where to begin. The closer it is to the limit, the fewer rates are tried.

    Examples
    --------
    >>> tried = []
    >>> def stable(*rates):
    ...     tried.append([round(rate) for rate in rates])
    ...     return tuple(rate < 1000 for rate in rates)
    >>> round(highest_stable(stable, 960.0)), tried
    (974, [[918, 946, 974, 1004]])
    """
    low, high, step = 0.0, float("inf"), RESOLUTION
    rates = [guess * RESOLUTION ** (number - (RATES - 1) / 2) for number in range(RATES)]
    while not low or high / low > RESOLUTION * (1 + 1e-9):
        if not guess / RANGE < rates[0] <= rates[-1] < guess * RANGE:
            raise EvenflowError(
                f"no limit was found near {guess:.4g} messages per second; the machine is too busy to "
                "measure it."
            )
        found = stable(*rates)
        # the highest one counts, whatever stalled at a lower rate
        best = max((number for number, one in enumerate(found) if one), default=-1)
        low = rates[best] if best >= 0 else low
        high = rates[best + 1] if best + 1 < len(rates) else high
        if low and high < float("inf"):
            part = max((high / low) ** (1 / (RATES + 1)), RESOLUTION)
            rates = [low * part**number for number in range(1, RATES + 1) if low * part**number < high]
        else:
            first = low * step if low else high / step**RATES
            rates = [first * step**number for number in range(RATES)]
            step **= 2
    return low
