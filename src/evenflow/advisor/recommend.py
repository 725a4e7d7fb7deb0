"""Recommend a scheme, with a reason and code to paste.

The rules, in order:

1. stateless work: ``shuffle``;
2. the best suitable scheme gains too little over key grouping: ``key``. Too little is less than 10%, or less
   than 35% if no key has a tenth of a worker's fair share (the imbalance is then due to chance);
3. keys may be split: ``fill``, unless another scheme's maximum load is lower by more than 5% (considered only
   with at least 100 rows per worker);
4. one owner per key: among the schemes within 5% of the lowest load, the one that moves the least state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.advisor.compare import Outcome
from evenflow.advisor.profile import Profile, share_text
from evenflow.errors import EvenflowError

GAIN = 1.10  # speed-up over key grouping that justifies a change
GAIN_BY_CHANCE = 1.35  # the same if no key is hot
HOT = 0.1  # of a worker's fair share: from there on a key is hot
CLOSE = 1.05  # loads within this factor of the lowest count as equal
ENOUGH = 100  # rows per worker for reliable differences
FEW_KEYS = 10  # per worker; with fewer, hashing is a matter of luck
WORK = ("mergeable", "one-owner", "stateless")


@dataclass(frozen=True)
class Recommendation:
    """A recommended scheme.

    Attributes
    ----------
    outcome
        The scheme and what it did.
    reason
        Why, in a sentence.
    code
        PySpark code to paste.
    notes
        Caveats.
    """

    outcome: Outcome
    reason: str
    code: str
    notes: tuple[str, ...] = ()


def recommend(
    found: Profile,
    outcomes: Sequence[Outcome],
    workers: int,
    work: str,
    key: Sequence[str],
    cores: int | None = None,
) -> Recommendation:
    """Choose one of the outcomes.

    Parameters
    ----------
    found
        The profile of the stream.
    outcomes
        The outcomes to choose from, those of ``key`` and ``shuffle`` among them.
    workers
        Number of workers.
    work
        ``mergeable``, ``one-owner`` or ``stateless``.
    key
        The key columns, for the code.
    cores
        Number of cores for which the outcomes were predicted. Default: one per worker.

    Returns
    -------
    Recommendation
        The scheme, the reason and the code to paste.

    Examples
    --------
    >>> from evenflow.advisor import compare, profile
    >>> from evenflow.schemes import scheme
    >>> from evenflow.streams import open_stream
    >>> from evenflow.streams.sample import take_sample
    >>> sample = take_sample(open_stream("zipf:z=1.4,keys=1000,messages=1e4"), None)
    >>> outcomes = compare(sample, 8, [scheme(name) for name in ("key", "shuffle", "fill")])
    >>> print(recommend(profile(sample, 8), outcomes, 8, "stateless", ["user"]).code)
    df = df.repartition(8)
    """
    check_work(work)
    by_name = {outcome.spelling: outcome for outcome in outcomes}
    if work == "stateless":
        reason = (
            "The job keeps no state per key, so any worker can process any row, and round-robin distribution "
            "is perfectly balanced."
        )
        return Recommendation(by_name["shuffle"], reason, code_for(by_name["shuffle"], work, workers, key))
    base = by_name["key"]
    enough = found.messages >= ENOUGH * workers
    best = _best(outcomes, work, enough)
    hot_share = found.top[1] * workers
    too_little = GAIN if hot_share >= HOT else GAIN_BY_CHANCE
    chosen = base if best.speed_up < too_little else best
    on_cores = "with one core per worker" if cores in (None, workers) else f"on {cores:,} cores"
    reason = _reason(found, base, best, chosen, by_name["shuffle"], workers, work, on_cores)
    notes = _notes(found, chosen, hot_share, workers, work)
    return Recommendation(chosen, reason, code_for(chosen, work, workers, key), notes)


def check_work(work: str) -> None:
    """Reject an unknown kind of work."""
    if work not in WORK:
        raise EvenflowError(f"work is {work!r}; it must be one of {', '.join(WORK)}.")


def _best(outcomes: Sequence[Outcome], work: str, enough: bool) -> Outcome:
    allowed = [outcome for outcome in outcomes if suits(outcome, work)]
    lowest = min(outcome.expected for outcome in allowed)
    close = [outcome for outcome in allowed if outcome.expected <= CLOSE * lowest]
    if work == "one-owner":
        return min(close, key=lambda outcome: (outcome.state_moved or 0.0, outcome.expected))
    fill = [outcome for outcome in (close if enough else allowed) if outcome.spelling == "fill"]
    return fill[0] if fill else min(close, key=lambda outcome: outcome.memory)


def suits(outcome: Outcome, work: str) -> bool:
    """Return whether a scheme suits the work; shuffle suits only stateless work."""
    if work == "one-owner":
        return outcome.one_owner
    return work == "stateless" or outcome.scheme.name != "shuffle"


def _reason(
    found: Profile,
    base: Outcome,
    best: Outcome,
    chosen: Outcome,
    shuffle: Outcome,
    workers: int,
    work: str,
    on_cores: str,
) -> str:
    if workers == 1:
        return "With one worker, every scheme is the same."
    hottest = found.hottest[0]
    heat = (
        f"the hottest key, {quoted(hottest.label)}, has {share_text(hottest.share)} of the rows, "
        f"{times(hottest.share * workers)} a worker's fair share"
    )
    hashed = f"under key grouping the fullest worker has {base.max_over_mean:.2f} times the mean load"
    if chosen is base and best.speed_up < GAIN:
        condition = " with one owner per key" if work == "one-owner" else ""
        return f"{_upper(hashed)} ({heat}), and no other scheme{condition} is 10% better."
    if chosen is base:
        return (
            f"No key is hot: {heat}; {hashed}, by chance alone, and {best.spelling} "
            f"({best.max_over_mean:.2f}) gains too little to be worth a change."
        )
    gain = (
        f"{chosen.spelling} reduces it to {chosen.max_over_mean:.2f}, up to {chosen.speed_up:.3g} times "
        f"faster {on_cores},"
    )
    if work == "one-owner":
        return f"{_upper(heat)}; {hashed}; {gain} with one owner per key."
    return (
        f"{_upper(heat)}; {hashed}; {gain} and with {chosen.memory:.2f} copies of state per key "
        f"(shuffle: {shuffle.memory:.2f})."
    )


def _notes(found: Profile, chosen: Outcome, hot_share: float, workers: int, work: str) -> tuple[str, ...]:
    few_rows, few_keys = found.messages < ENOUGH * workers, found.keys < FEW_KEYS * workers
    moving = found.change is not None and found.change.changes and chosen.scheme.name != "key"
    notes = (
        (found.grouped,
         "The rows are grouped by key, so their order says nothing about change over time; the schemes were "
         "compared on the rows in random order."),
        (moving,
         "The hot keys change over time: on a stream the plan is renewed after every micro-batch; in batch "
         "it is made from all rows."
         if chosen.mode == "planned"
         else "The hot keys change over time; this scheme follows them row by row."),
        (chosen.mode == "online" and chosen.scheme.learns,
         "On a stream its routers pass on what they know from batch to batch"
         + (", and hear from the workers of aggregate" if chosen.scheme.needs_reports else "")
         + "; on a cluster this needs control=, a folder that the driver and all executors can write."),
        (work == "one-owner" and hot_share > CLOSE,
         f"With one owner per key, no scheme can do better than {hot_share:.2f} times the mean, the load of "
         "the hottest key alone. If partial results can be merged, keys can be split (--mergeable)."),
        (work == "mergeable",
         "For built-in aggregates such as count, sum and max, df.groupBy(...).agg(...) is enough: Spark "
         "combines rows before the shuffle."),
        (few_rows,
         f"There are only {found.messages:,} rows for {workers:,} workers; with fewer than {ENOUGH} rows per "
         "worker, the result depends largely on chance."),
        (few_keys,
         f"With so few keys ({found.keys:,}), Spark's own hash may balance them better or worse than the "
         "hash used here for key grouping."),
        (found.keys < workers,
         f"There are fewer keys ({found.keys:,}) than workers ({workers:,}): unless keys are split, some "
         "workers stay idle."),
    )  # fmt: skip
    return tuple(note for applies, note in notes if applies)


def code_for(chosen: Outcome, work: str, workers: int, key: Sequence[str]) -> str:
    """Return PySpark code to paste."""
    names = [json.dumps(name, ensure_ascii=False) for name in key]
    column = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
    spark = f"df.repartition({workers}, {', '.join(names)})"
    if chosen.scheme.name == "shuffle":
        return f"df = df.repartition({workers})"
    if chosen.scheme.name == "key":
        return f"df = {spark}"
    options = "" if chosen.scheme.name == "fill" else f", scheme={json.dumps(chosen.scheme.name)}"
    whole = (
        f"# For whole groups, instead of df.groupBy({', '.join(names)}).applyInPandas(function, schema):\n"
        f"# evenflow.spark.apply(df, {column}, using=function, schema=schema, workers={workers}, "
        'rows="pandas")'
    )
    if work == "one-owner":
        line = f"balance({column}, workers={workers}{options}, split=False))  # instead of {spark}"
        return f"from evenflow.spark import balance\n\ndf = df.transform({line}\n{whole}"
    return (
        "from evenflow.spark import balance\n\n"
        f"df = df.transform(balance({column}, workers={workers}{options}))  "
        "# a hot key is then in several partitions\n"
        f"# For every key in one partition, as after {spark}:\n"
        f"# df = df.transform(balance({column}, workers={workers}, split=False))\n"
        f"{whole}\n"
        "# For work per key whose partial results can be merged:\n"
        f"# evenflow.spark.aggregate(df, {column}, using=YourAggregator(), schema=schema, workers={workers})"
    )


def times(factor: float) -> str:
    """Return a factor in words.

    >>> times(18.29), times(1.44), times(0.0123)
    ('18 times', '1.4 times', '1.2% of')
    """
    if factor < 1:
        return f"{share_text(factor)} of"
    return f"{factor:.0f} times" if factor >= 10 else f"{factor:.1f} times"


def quoted(label: str, longest: int = 40) -> str:
    """Return a key for a sentence: shortened, on one line, without terminal control characters.

    >>> quoted("a\\x1b[31m")
    "'a\\\\x1b[31m'"
    """
    return f"'{plain_label(label, longest)}'"


def plain_label(label: str, longest: int = 40) -> str:
    """Return a printable key label: no control characters, limited in length.

    >>> plain_label("x" * 50, 10)
    'xxxxxxxxx…'
    """
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in label[:200]
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
