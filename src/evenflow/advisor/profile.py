"""Key skew: shares of the hottest keys, a fitted Zipf exponent, and whether the hot keys change.

* Exponent: least-squares slope of log count against log rank, over ranks 1 to 1000 with at least 5 messages,
  sampled evenly in log rank so that head and tail have equal weight. On a Zipf stream it is z.
* Change: the messages are split into ten equal slices. A key is hot if it has at least 1/(5 n) of the
  messages in some slice (the papers' threshold). A hot key changes if its share in some slice is less than
  half of that in another, by more than five standard errors. ``changed`` is the sum of these differences
  relative to the sum of the hot keys' highest shares; the hot keys change over time if it is at least a
  quarter.
* Grouped: if the rows are grouped by key, their order carries no information about time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array
from evenflow.streams.sample import Sample

PARTS = 10
LIKE_ANOTHER = 0.5  # a share below half of another slice's is a change
ERRORS = 5.0  # standard errors attributed to chance
CHANGED = 0.25  # share of the hot keys' weight from which they count as changing
MOST_HOT = 1000
FIT_RANKS, FIT_COUNT, FIT_POINTS = 1000, 5, 50
WINDOWS = 50  # of the figure
SHOWN = 100  # hottest keys listed


@dataclass(frozen=True)
class HotKey:
    """A key's label, its number of messages, and its share of all messages."""

    label: str
    messages: int
    share: float


@dataclass(frozen=True)
class Change:
    """Whether the hot keys change; ``leaders`` are the hottest keys of ten equal slices of the stream."""

    changes: bool
    changed: float  # share of the hot keys' weight that varies
    hot_keys: int
    changing_keys: int
    leaders: tuple[HotKey, ...]


@dataclass(frozen=True)
class Trace:
    """Shares of selected keys over the stream: one row per key, one column per window."""

    labels: tuple[str, ...]
    shares: Float64Array
    times: Float64Array | None  # window boundaries in seconds


@dataclass(frozen=True)
class Profile:
    """How skewed the keys of a stream are.

    Attributes
    ----------
    stream
        Spec of the stream.
    messages, total
        Messages read, and in the whole stream (None if not counted).
    sample
        Which messages were read; empty for all.
    keys
        Distinct keys read.
    hottest
        The hottest keys, at most 100.
    top
        Combined share of the 1, 10 and 100 hottest keys.
    exponent
        Fitted Zipf exponent; None for fewer than three keys.
    grouped
        Whether the rows are grouped by key.
    change
        Whether the hot keys change; None if the rows are grouped or too few to tell.
    trace
        Shares of the hottest keys over the stream.
    """

    stream: str
    messages: int
    total: int | None
    sample: str
    keys: int
    hottest: tuple[HotKey, ...]
    top: dict[int, float]
    exponent: float | None
    grouped: bool
    change: Change | None
    trace: Trace


def profile(sample: Sample, workers: int) -> Profile:
    """Measure the key skew of a sample.

    Parameters
    ----------
    sample
        The messages, from ``take_sample``.
    workers
        Number of workers; it determines which keys count as hot.

    Returns
    -------
    Profile
        Shares of the hottest keys, the fitted exponent, and whether the hot keys change.

    Examples
    --------
    >>> from evenflow.streams import open_stream
    >>> from evenflow.streams.sample import take_sample
    >>> found = profile(take_sample(open_stream("zipf:z=1.4,keys=1000,messages=1e5"), None), workers=8)
    >>> found.hottest[0].label, round(found.exponent, 1)
    ('1', 1.4)
    """
    counts = np.bincount(sample.ids, minlength=sample.keys_upper_bound())
    ranked = _hottest(counts, SHOWN)
    grouped = is_grouped(sample.ids, int(np.count_nonzero(counts)))
    change = None if grouped or sample.messages < 10 * PARTS else _change(sample, workers)
    total = sample.messages
    return Profile(
        stream=sample.name,
        messages=total,
        total=sample.total,
        sample=sample.how,
        keys=int(np.count_nonzero(counts)),
        hottest=tuple(_hot_key(sample, int(key), counts, total) for key in ranked),
        top={number: float(counts[ranked[:number]].sum() / total) for number in (1, 10, 100)},
        exponent=fitted_exponent(counts),
        grouped=grouped,
        change=change,
        trace=_trace(sample, counts),
    )


def is_grouped(ids: Int32Array, keys: int) -> bool:
    """Return whether nearly all keys' messages are contiguous, with several messages per key.

    >>> is_grouped(np.repeat(np.arange(5, dtype=np.int32), 10), 5)
    True
    """
    runs = 1 + int(np.count_nonzero(ids[1:] != ids[:-1]))
    return keys > 1 and ids.size >= 2 * keys and runs <= 1.1 * keys


def fitted_exponent(counts: Int64Array) -> float | None:
    """Return the Zipf exponent that fits the counts best, or None for fewer than three ranks.

    >>> round(fitted_exponent((1e6 / np.arange(1, 1001) ** 1.4).astype(np.int64)), 2)
    1.4
    """
    ordered = np.sort(counts[counts >= FIT_COUNT])[::-1][:FIT_RANKS]
    if ordered.size < 3:
        return None
    ranks = np.unique(np.rint(np.geomspace(1, ordered.size, FIT_POINTS)).astype(np.int64))
    slope = float(np.polyfit(np.log(ranks), np.log(ordered[ranks - 1]), 1)[0])
    return max(0.0, -slope)


def _hottest(counts: Int64Array, number: int) -> Int64Array:
    """Return the ids with the highest counts, highest first; ties go to the lowest id."""
    number = min(number, int(np.count_nonzero(counts)))
    least = np.partition(counts, counts.size - number)[counts.size - number]
    candidates = np.flatnonzero(counts >= max(1, least))
    return candidates[np.argsort(-counts[candidates], kind="stable")][:number]


def _hot_key(sample: Sample, key: int, counts: Int64Array, total: int) -> HotKey:
    return HotKey(sample.label(key), int(counts[key]), float(counts[key] / total))


def _change(sample: Sample, workers: int) -> Change:
    bounds = [sample.messages * part // PARTS for part in range(PARTS + 1)]
    highest, lowest = np.zeros(sample.keys_upper_bound()), np.ones(sample.keys_upper_bound())
    leaders = []
    for start, stop in pairwise(bounds):
        counts = np.bincount(sample.ids[start:stop], minlength=highest.size)
        leaders.append(_hot_key(sample, int(counts.argmax()), counts, stop - start))
        shares = counts / (stop - start)
        np.maximum(highest, shares, out=highest)
        np.minimum(lowest, shares, out=lowest)
    hot = _hottest((highest * 2**40).astype(np.int64), MOST_HOT)
    hot = hot[highest[hot] >= 1 / (5 * workers)]
    high, low = highest[hot], lowest[hot]
    error = np.sqrt(2 * high / (sample.messages / PARTS))
    changing = (low < LIKE_ANOTHER * high) & (high - low > ERRORS * error)
    changed = float((high - low)[changing].sum() / high.sum()) if hot.size else 0.0
    return Change(changed >= CHANGED, changed, hot.size, int(changing.sum()), tuple(leaders))


def _trace(sample: Sample, counts: Int64Array) -> Trace:
    """Trace the keys that are hottest overall or within a window."""
    windows = max(1, min(WINDOWS, sample.messages // 100))
    bounds = np.array([sample.messages * window // windows for window in range(windows + 1)])
    wanted = [int(key) for key in _hottest(counts, 4)]
    for start, stop in pairwise(bounds):
        wanted.append(int(np.bincount(sample.ids[start:stop], minlength=counts.size).argmax()))
    peaks = {key: wanted.count(key) + counts[key] / sample.messages for key in wanted}
    keys = sorted(peaks, key=lambda key: (-peaks[key], key))[:8]
    row_of = np.full(counts.size, len(keys), np.int64)
    row_of[keys] = np.arange(len(keys))
    rows = row_of[sample.ids]
    lengths = np.diff(bounds)
    column = np.repeat(np.arange(windows), lengths)
    table = np.bincount(rows * windows + column, minlength=(len(keys) + 1) * windows)
    shares = table.reshape(len(keys) + 1, windows)[: len(keys)] / lengths
    times = None if sample.times is None else sample.times[np.minimum(bounds, sample.messages - 1)]
    order = sorted(range(len(keys)), key=lambda row: -counts[keys[row]])
    return Trace(tuple(sample.label(keys[row]) for row in order), shares[order], times)


def share_text(share: float) -> str:
    """Return a share as a percentage with two significant digits.

    >>> share_text(0.0266), share_text(0.91432), share_text(0.000123)
    ('2.7%', '91%', '0.012%')
    """
    percent = 100 * share
    if percent <= 0 or percent >= 99.5:
        return f"{percent:.0f}%"
    return f"{percent:.{max(0, 1 - math.floor(math.log10(percent)))}f}%"
