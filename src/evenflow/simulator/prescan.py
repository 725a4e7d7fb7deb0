"""A first pass over a stream, for what must be known before its first message is routed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Int32Array, Int64Array, kernel
from evenflow.simulator.metrics import grown
from evenflow.streams.base import Stream


class Survey(NamedTuple):
    """Number of messages; if requested, messages by key id and seconds from first to last."""

    messages: int
    counts: Int64Array | None
    seconds: float | None


def survey(stream: Stream, counts: bool, seconds: bool) -> Survey:
    """Read ``stream`` once if necessary: to count its keys, to time it, or to find its length."""
    if stream.messages is not None and not counts and not seconds:
        return _checked(stream, Survey(int(stream.messages), None, None))
    messages = 0
    first, last = None, None
    by_key = np.zeros(stream.keys_upper_bound() or 0, np.int64)
    for chunk in stream.chunks():
        messages += chunk.ids.size
        if counts and chunk.ids.size:
            needed = int(chunk.ids.max()) + 1
            if needed > by_key.size:
                by_key = grown(by_key, max(needed, 2 * by_key.size))
            count_keys(chunk.ids, by_key)
        if chunk.times is not None and chunk.times.size:
            first = float(chunk.times[0]) if first is None else first
            last = float(chunk.times[-1])
    length = last - first if first is not None and last is not None else None
    known = np.trim_zeros(by_key, "b") if counts else None
    return _checked(stream, Survey(messages, known, length))


def _checked(stream: Stream, found: Survey) -> Survey:
    if found.messages < 1:
        raise EvenflowError(f"the stream {stream.name} has no messages; pass one with at least one message.")
    return found


@kernel
def count_keys(ids: Int32Array, counts: Int64Array) -> None:
    """Add one to the count of every id."""
    for i in range(ids.size):
        counts[ids[i]] += 1
