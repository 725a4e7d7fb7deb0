"""The load cap of a worker (`heterogeneous` 4.2 and 5.1): ``ceil((1 + epsilon) * messages / workers)``.

``messages`` includes the message being placed, so there is always room: all workers together hold fewer than
that. The cap rises by one about every ``workers / (1 + epsilon)`` messages. In between, within one **step**,
a full worker stays full, since loads only grow, so what is known about full workers stays exact.
"""

from __future__ import annotations

import math

import numpy as np

from evenflow.kernels import inlined
from evenflow.schemes.base import check


def check_epsilon(epsilon: float) -> None:
    """Raise an error unless epsilon is a number from 0."""
    rule = "it is how far a worker may exceed the average, a number of 0 or more such as 0.01"
    check("epsilon", epsilon, is_number(epsilon) and 0 <= epsilon < math.inf, rule)


def is_number(value: object) -> bool:
    """Return whether ``value`` is a number."""
    return isinstance(value, int | float | np.integer | np.floating)


@inlined
def capacity_at(messages: int, workers: int, epsilon: float) -> int:
    """Return the load cap of each of ``workers`` workers after ``messages`` messages."""
    return math.ceil((1.0 + epsilon) * messages / workers)


@inlined
def last_of_step(capacity: int, workers: int, epsilon: float) -> int:
    """Return the last message count at which the cap is still ``capacity``."""
    messages = int(capacity * workers / (1.0 + epsilon))
    while capacity_at(messages, workers, epsilon) > capacity:  # the quotient may be rounded up or down
        messages -= 1
    while capacity_at(messages + 1, workers, epsilon) <= capacity:
        messages += 1
    return messages
