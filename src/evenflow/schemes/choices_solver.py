"""The fewest choices that balance the head (`choices` Prop. 4.1), for `d-choices` and `fish`.

The proposition is stated in :mod:`evenflow.schemes.d_choices`.
"""

from __future__ import annotations

import math

from evenflow.kernels import Float64Array, inlined, kernel


@kernel
def solve_choices(shares: Float64Array, size: int, n: int, epsilon: float, distinct: bool) -> int:
    """Return the smallest d that satisfies Prop. 4.1 for the shares P_1 .. P_size, or n if none does."""
    if size == 0 or n <= 2:
        return min(n, 2)
    d = max(2, math.ceil(shares[0] * n))
    failed = 1  # try the prefix that failed last first: it nearly always fails again
    while d < n:
        if _holds(shares, size, failed, d, n, epsilon, distinct):
            h = 1
            while h <= size and _holds(shares, size, h, d, n, epsilon, distinct):
                h += 1
            if h > size:
                return d
            failed = h
        d += 1
    return n


@inlined
def _holds(shares: Float64Array, size: int, h: int, d: int, n: int, epsilon: float, distinct: bool) -> bool:
    """Return whether d choices satisfy Prop. 4.1 for the prefix of h keys."""
    met = 1 - (1 - d / n) ** float(h) if distinct else 1 - (1 - 1 / n) ** float(h * d)
    whole = shares[size - 1]
    load = shares[h - 1] + met ** float(d) * (whole - shares[h - 1]) + met * met * (1 - whole)
    return load <= met * (1 + n * epsilon)
