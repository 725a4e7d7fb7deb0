"""What a worker may hold (`heterogeneous` 4.2 and 5.1): ``ceil((1 + epsilon) * messages / workers)``.

``messages`` counts the one that is being placed, so there is always room: all workers together hold fewer
than that. The capacity rises by one about every ``workers / (1 + epsilon)`` messages. In between, in one
**step**, a full worker stays full, since loads only grow: what is known of full workers is exact until
then.
"""

from __future__ import annotations

import math

import numpy as np

from evenflow.kernels import inlined
from evenflow.schemes.base import check


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is no share."""
    rule = "it is how far a worker may exceed the average, a number from 0 (such as 0.01)"
    check("epsilon", epsilon, is_number(epsilon) and 0 <= epsilon < math.inf, rule)


def is_number(value: object) -> bool:
    """Say whether ``value`` can be compared with a number."""
    return isinstance(value, int | float | np.integer | np.floating)


@inlined
def capacity_at(messages: int, workers: int, epsilon: float) -> int:
    """Return what each of so many workers may hold when ``messages`` have been placed."""
    return math.ceil((1.0 + epsilon) * messages / workers)


@inlined
def last_of_step(capacity: int, workers: int, epsilon: float) -> int:
    """Return the last message count at which ``capacity`` still holds."""
    messages = int(capacity * workers / (1.0 + epsilon))
    while capacity_at(messages, workers, epsilon) > capacity:  # the quotient may be rounded either way
        messages -= 1
    while capacity_at(messages + 1, workers, epsilon) <= capacity:
        messages += 1
    return messages
