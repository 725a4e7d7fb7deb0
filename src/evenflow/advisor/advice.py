"""The whole of it: from a stream to a recommendation, and its JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.advisor.compare import Outcome, compare, contenders, shuffled
from evenflow.advisor.profile import HotKey, Profile, profile
from evenflow.advisor.recommend import CLOSE, Recommendation, check_work, recommend, suits
from evenflow.schemes import scheme
from evenflow.streams import FileStream, Stream, open_stream
from evenflow.streams.sample import take_sample

SAMPLE = 2_000_000
MOST_BITS = 8 * 10**9  # a simulation holds keys x workers bits

Watch = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Advice:
    """What was found in a stream, what every scheme would do, and which one to take."""

    workers: int
    work: str
    key: tuple[str, ...]
    profile: Profile
    outcomes: tuple[Outcome, ...]
    recommendation: Recommendation

    @property
    def base(self) -> Outcome:
        """What key grouping does."""
        return next(outcome for outcome in self.outcomes if outcome.spelling == "key")

    def ranked(self) -> list[Outcome]:
        """Return the schemes that suit the work before the others, then by memory among
        those within a twentieth of the lowest load, then by load."""
        lowest = {
            fit: min((o.max_over_mean for o in self.outcomes if suits(o, self.work) == fit), default=0.0)
            for fit in (True, False)
        }

        def rank(outcome: Outcome) -> tuple[bool, bool, float, float]:
            uneven = outcome.max_over_mean > CLOSE * lowest[suits(outcome, self.work)]
            order = (outcome.max_over_mean, outcome.memory)
            return not suits(outcome, self.work), uneven, *(order if uneven else order[::-1])

        return sorted(self.outcomes, key=rank)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data. Fields may be added, none is renamed or removed.

        ``stream``: name, key, messages (read), total (all there are, null if not counted), sampled, sample
        (which were read, null for all), keys, top_1, top_10, top_100 (shares), hottest (key, messages,
        share), exponent (null for fewer than three keys), grouped, change (null if the order says nothing:
        changes, changed, hot_keys, changing_keys, leaders). ``workers``, ``work``. ``schemes``: scheme,
        spelling, suits, one_owner, max_load, max_over_mean, speed_up, imbalance, imbalance_mean, replicas,
        memory, keys_moved, state_moved, joining_moves, joining_ideal (null where keys are split).
        ``recommendation``: scheme, spelling, reason, code, notes.
        """
        found = self.profile
        change = found.change
        return {
            "stream": {
                "name": found.stream,
                "key": list(self.key),
                "messages": found.messages,
                "total": found.total,
                "sampled": bool(found.sample),
                "sample": found.sample or None,
                "keys": found.keys,
                **{f"top_{number}": share for number, share in found.top.items()},
                "hottest": [_key(hot) for hot in found.hottest],
                "exponent": found.exponent,
                "grouped": found.grouped,
                "change": change
                and {**dataclasses.asdict(change), "leaders": [_key(leader) for leader in change.leaders]},
            },
            "workers": self.workers,
            "work": self.work,
            "schemes": [outcome.row() | {"suits": suits(outcome, self.work)} for outcome in self.ranked()],
            "recommendation": {
                "scheme": self.recommendation.outcome.scheme.name,
                "spelling": self.recommendation.outcome.spelling,
                "reason": self.recommendation.reason,
                "code": self.recommendation.code,
                "notes": list(self.recommendation.notes),
            },
        }


def advise(
    stream: Stream | str,
    workers: int,
    work: str = "mergeable",
    *,
    key: str | Sequence[str] | None = None,
    time: str | None = None,
    sample: int | None = SAMPLE,
    seed: int = 0,
    watch: Watch | None = None,
) -> Advice:
    """Look at ``stream`` and recommend a scheme for ``workers`` workers.

    ``work``: ``mergeable`` (partial results of a key can be merged, so keys may be split), ``one-owner``
    (they cannot) or ``stateless``. ``sample``: read at most so many messages (None: all). ``watch(done,
    total, what)`` is called with the progress.

    >>> advise("zipf:z=1.4,keys=1000,messages=1e4", workers=8).recommendation.outcome.spelling
    'fill'
    """
    check_work(work)
    workers = scheme("key").router(workers, seed).workers  # says so if it is not a number of workers
    opened = open_stream(stream, key=key, time=time) if not isinstance(stream, Stream) else stream
    if sample is not None:
        sample = max(1, min(sample, MOST_BITS // workers))
    most = sample or opened.messages or 0
    taken = take_sample(opened, sample, _reading(watch, min(most, opened.messages or most)))
    found = profile(taken, workers)
    routed = shuffled(taken, seed) if found.grouped else taken
    outcomes = compare(routed, workers, contenders(found.keys, found.messages), seed, watch)
    columns = opened.key if isinstance(opened, FileStream) else ("key",)
    chosen = recommend(found, outcomes, workers, work, columns)
    return Advice(workers, work, tuple(columns), found, tuple(outcomes), chosen)


def _reading(watch: Watch | None, most: int) -> Callable[[int], None] | None:
    return None if watch is None else lambda done: watch(done, max(done, most), "reading")


def _key(hot: HotKey) -> dict[str, Any]:
    return {"key": hot.label, "messages": hot.messages, "share": hot.share}
