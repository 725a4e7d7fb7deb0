"""From a stream to a recommendation, and its JSON form."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.advisor.compare import Outcome, compare, contenders, shuffled
from evenflow.advisor.profile import HotKey, Profile, profile
from evenflow.advisor.recommend import CLOSE, Recommendation, check_work, recommend, suits
from evenflow.errors import EvenflowError
from evenflow.schemes import Scheme, scheme
from evenflow.streams import FileStream, Stream, open_stream, open_table
from evenflow.streams.sample import take_sample

SAMPLE = 2_000_000
MOST_BITS = 8 * 10**9  # a simulation allocates keys x workers bits

Watch = Callable[[int, int, str], None]
First = Callable[["Advice"], None]
SHORTLIST = ("key", "shuffle", "fill")  # what the rules of a recommendation name


@dataclass(frozen=True)
class Advice:
    """The profile of a stream, the outcome of every scheme, and a recommendation.

    Attributes
    ----------
    workers
        Number of workers.
    work
        ``mergeable``, ``one-owner`` or ``stateless``.
    cores
        Number of cores that process the workers' rows.
    cost
        Seconds per row, if known.
    key
        The key columns.
    profile
        How skewed the key is.
    outcomes
        What each scheme does, in the order of ``list_schemes``.
    recommendation
        The scheme to use, why, and the code to paste.
    """

    workers: int
    work: str
    cores: int
    cost: float | None
    key: tuple[str, ...]
    profile: Profile
    outcomes: tuple[Outcome, ...]
    recommendation: Recommendation

    @property
    def base(self) -> Outcome:
        """The outcome of key grouping."""
        return next(outcome for outcome in self.outcomes if outcome.spelling == "key")

    def seconds(self, outcome: Outcome) -> float | None:
        """Return the predicted processing time of all rows, or None if ``cost`` is not known."""
        if self.cost is None:
            return None
        rows = self.profile.total or self.profile.messages
        return outcome.makespan / self.profile.messages * rows * self.cost

    def __str__(self) -> str:
        """Return the recommendation, why, and the code to paste."""
        chosen = self.recommendation
        parts = [f"Recommended: {chosen.outcome.spelling}", chosen.reason, chosen.code, *chosen.notes]
        return "\n\n".join(part.strip() for part in parts)

    def _repr_html_(self) -> str:
        """Show the advice in a notebook: the recommendation, the hottest keys, every scheme."""
        from evenflow.charts import notebook

        chosen = self.recommendation
        schemes = [
            (outcome.spelling, outcome.mode, outcome.speed_up, outcome.max_over_mean, outcome.memory)
            for outcome in self.ranked()
        ]
        hottest = [(hot.label, hot.messages, f"{hot.share:.2%}") for hot in self.profile.hottest[:10]]
        return notebook.card(
            f"Key {', '.join(self.key)} on {self.workers:,} workers: {chosen.outcome.spelling}",
            notebook.paragraph(chosen.reason),
            notebook.code(chosen.code),
            *map(notebook.paragraph, chosen.notes),
            notebook.bars(self.base.loads.tolist(), "Rows per worker under key grouping"),
            notebook.bars(chosen.outcome.loads.tolist(), f"Rows per worker under {chosen.outcome.spelling}"),
            notebook.table(("hottest key", "rows", "share"), hottest),
            notebook.table(("scheme", "mode", "speed-up", "max/mean", "memory"), schemes),
        )

    def ranked(self) -> list[Outcome]:
        """Return the outcomes, the best for this work first.

        Suitable schemes come first. Schemes within 5% of the lowest load are ordered by memory, the others
        by load.
        """
        lowest = {
            suitable: min((o.expected for o in self.outcomes if suits(o, self.work) == suitable), default=0.0)
            for suitable in (True, False)
        }

        def rank(outcome: Outcome) -> tuple[bool, bool, float, float]:
            uneven = outcome.expected > CLOSE * lowest[suits(outcome, self.work)]
            order = (outcome.expected, outcome.memory)
            return not suits(outcome, self.work), uneven, *(order if uneven else order[::-1])

        return sorted(self.outcomes, key=rank)

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain data for JSON.

        Fields may be added in later versions; none is renamed or removed.

        Returns
        -------
        dict
            ``stream``: name, key, messages (read), total (null if not counted), sampled, sample (which
            messages were read, null for all), keys, top_1, top_10, top_100 (shares), hottest (key, messages,
            share), exponent (null for fewer than three keys), grouped, change (changes, changed, hot_keys,
            changing_keys, leaders; null if the order carries no information). ``workers``. ``work``.
            ``cores``. ``cost`` (null if not given). ``schemes``: scheme, spelling, mode, suits, one_owner,
            max_load, max_over_mean, expected, makespan (in rows), seconds (null without a cost), speed_up,
            imbalance, imbalance_mean, replicas, memory, keys_moved, state_moved, joining_moves, joining_ideal
            (the last four are null for schemes that split keys). ``recommendation``: scheme, spelling,
            reason, code, notes.
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
            "cores": self.cores,
            "cost": self.cost,
            "schemes": [
                outcome.row() | {"suits": suits(outcome, self.work), "seconds": self.seconds(outcome)}
                for outcome in self.ranked()
            ],
            "recommendation": {
                "scheme": self.recommendation.outcome.scheme.name,
                "spelling": self.recommendation.outcome.spelling,
                "reason": self.recommendation.reason,
                "code": self.recommendation.code,
                "notes": list(self.recommendation.notes),
            },
        }


def advise(
    data: Any,
    key: str | Sequence[str] | None = None,
    *,
    workers: int,
    work: str = "mergeable",
    time: str | None = None,
    cores: int | None = None,
    cost: float | None = None,
    sample: int | None = SAMPLE,
    seed: int = 0,
    watch: Watch | None = None,
    first: First | None = None,
) -> Advice:
    """Profile a stream and recommend a scheme.

    Parameters
    ----------
    data
        A Spark, pandas, Polars or Arrow frame; a file, folder (also a Delta table, or partitioned as in
        ``day=2026-11-16``) or glob pattern, or a list of them; a generator such as ``zipf:z=1.4,keys=1e5``;
        or a stream. Spark samples its frame and counts it.
    key
        Key columns. In a path they may follow a ``#``, as in ``events.parquet#user_id``.
    workers
        Number of workers.
    work
        ``mergeable`` (partial results can be merged, so keys may be split), ``one-owner`` (all rows of a key
        must be on the same worker) or ``stateless``.
    time
        Time column.
    cores
        Number of cores of the cluster, which process the workers' rows one after the other. Default: one per
        worker.
    cost
        Seconds of processing per row, if known; predicts seconds beside ratios.
    sample
        Maximum number of messages to read; None reads all of them.
    seed
        Seed of the hash functions.
    watch
        Called with ``(done, total, what)`` as work progresses.
    first
        Called with a first answer, which compares only ``key``, ``shuffle`` and ``fill``, before the other
        schemes are compared. The first run compiles every scheme's kernels, which takes most of its time.

    Returns
    -------
    Advice
        The profile, the outcome of every scheme, and the recommendation.

    Examples
    --------
    >>> import evenflow as ef
    >>> advice = ef.advise("zipf:z=1.4,keys=1000,messages=1e4", workers=8)
    >>> advice.recommendation.outcome.spelling
    'fill'
    """
    check_work(work)
    workers = scheme("key").router(workers, seed).workers  # rejects an invalid number of workers
    if cores is not None and cores < 1:
        raise EvenflowError(f"cores is {cores}; it must be at least 1.")
    if cost is not None and not 0 < cost < math.inf:
        raise EvenflowError(f"cost is {cost}; it must be a positive number of seconds per row.")
    cores = workers if cores is None else min(cores, workers)
    if sample is not None:
        sample = max(1, min(sample, MOST_BITS // workers))
    opened, total = open_data(data, key, time, sample, seed)
    known = opened.messages or 0  # 0 for files whose number of rows is known only after reading them
    taken = take_sample(opened, sample, _reading(watch, min(sample or known, known)))
    if total is not None:
        taken.total, taken.how = total, f"{taken.messages:,} of {total:,} rows, drawn by Spark"
    found = profile(taken, workers)
    routed = shuffled(taken, seed) if found.grouped else taken
    columns = tuple(opened.key) if isinstance(opened, FileStream) else ("key",)

    def advice_from(outcomes: Sequence[Outcome]) -> Advice:
        chosen = recommend(found, outcomes, workers, work, columns, cores)
        return Advice(workers, work, cores, cost, columns, found, tuple(outcomes), chosen)

    schemes = contenders(found.keys, found.messages)
    shortlist = [candidate for candidate in schemes if _is_short_listed(candidate, work)]
    rest = [candidate for candidate in schemes if candidate not in shortlist]
    outcomes = compare(routed, workers, shortlist, seed, _part(watch, 0, len(schemes)), cores)
    if first is not None:
        first(advice_from(outcomes))
    outcomes += compare(routed, workers, rest, seed, _part(watch, len(shortlist), len(schemes)), cores)
    return advice_from(sorted(outcomes, key=lambda outcome: schemes.index(outcome.scheme)))


def _is_short_listed(candidate: Scheme, work: str) -> bool:
    if candidate.name not in SHORTLIST:
        return False
    return candidate.name != "fill" or candidate.one_owner == (work == "one-owner")


def _part(watch: Watch | None, before: int, total: int) -> Watch | None:
    """Return a ``watch`` for a part of the work, of which ``before`` is done."""
    return None if watch is None else lambda done, _, what: watch(before + done, total, what)


def open_data(
    data: Any, key: str | Sequence[str] | None, time: str | None, sample: int | None, seed: int
) -> tuple[Stream, int | None]:
    """Return the stream, and the number of all rows if it has only some of them."""
    if isinstance(data, Stream):
        return data, None
    if not hasattr(data, "columns"):
        return open_stream(data, key=key, time=time), None
    if not hasattr(data, "isStreaming"):
        return open_table(data, key, time), None
    if data.isStreaming:  # a Spark frame, known by its methods: the core does not import PySpark
        raise EvenflowError("this DataFrame is a stream, which has no end; pass a batch of the same source.")
    rows = data.count() if sample is not None else 0
    if sample is None or rows <= sample:
        return open_table(data, key, time), None
    return open_table(data.sample(fraction=sample / rows, seed=seed), key, time), rows


def _reading(watch: Watch | None, most: int) -> Callable[[int], None] | None:
    return None if watch is None else lambda done: watch(done, max(done, most), "reading")


def _key(hot: HotKey) -> dict[str, Any]:
    return {"key": hot.label, "messages": hot.messages, "share": hot.share}
