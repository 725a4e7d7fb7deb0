"""The highest rate that stays stable, found by section with two rates at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenflow.errors import EvenflowError

RESOLUTION = 1.03  # the rate found is stable, and so many times the rate is not
RANGE = 64.0  # the guess is off by less


def highest_stable(stable: Callable[[float, float], Sequence[bool]], guess: float) -> float:
    """Return a rate that is stable while ``RESOLUTION`` times the rate is not.

    Parameters
    ----------
    stable
        Whether each of two rates is stable; expected of all rates below a limit, and of none above.
    guess
        Where to begin. The closer it is to the limit, the fewer rates are tried.

    Examples
    --------
    >>> tried = []
    >>> def stable(*rates):
    ...     tried.extend(map(round, rates))
    ...     return tuple(rate < 1000 for rate in rates)
    >>> round(highest_stable(stable, 960.0)), tried
    (974, [946, 974, 1004, 1034])
    """
    low, high, step = 0.0, float("inf"), RESOLUTION
    first, second = guess / RESOLUTION**0.5, guess * RESOLUTION**0.5
    while not low or high / low > RESOLUTION * (1 + 1e-9):
        if not guess / RANGE < first < second < guess * RANGE:
            raise EvenflowError(
                f"no limit was found near {guess:.4g} messages per second; the machine is too busy to "
                "measure it."
            )
        found = stable(first, second)
        if found[1]:  # whatever stalled at the lower rate
            low = second
        elif found[0]:
            low, high = first, second
        else:
            high = first
        if low and high < float("inf"):
            part = (high / low) ** (1 / 3)
            first, second = low * part, low * part**2
        else:
            first, second = (low * step, low * step**2) if low else (high / step**2, high / step)
            step **= 2
    return low
