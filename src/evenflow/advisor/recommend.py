"""Which scheme, why in a sentence, and what to paste.

The rule, in order:

1. stateless work: ``shuffle``;
2. the best scheme that may be used gains too little over key grouping: ``key``. Too little is less than a
   tenth, or, where no key has a tenth of a worker's share (then only chance is uneven), less than a third;
3. keys may be split: ``fill``, unless another scheme's fullest worker is lower by more than a twentieth (told
   from at least 100 rows per worker);
4. keys have one owner: of the schemes within a twentieth of the lowest, the one that moves least state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.advisor.compare import Outcome
from evenflow.advisor.profile import Profile, share_text
from evenflow.errors import EvenflowError

GAIN = 1.10  # over key grouping that is worth a change
GAIN_BY_CHANCE = 1.35  # the same where no key is hot
HOT = 0.1  # of a worker's share: such a key is hot
CLOSE = 1.05  # schemes within this of the lowest load are as good
ENOUGH = 100  # rows per worker before chance is out of it
FEW_KEYS = 10  # per worker: there hashing is a matter of luck
WORK = ("mergeable", "one-owner", "stateless")


@dataclass(frozen=True)
class Recommendation:
    """A scheme, the reason, the lines of PySpark to paste, and what else to know."""

    outcome: Outcome
    reason: str
    code: str
    notes: tuple[str, ...] = ()


def recommend(
    found: Profile, outcomes: Sequence[Outcome], workers: int, work: str, key: Sequence[str]
) -> Recommendation:
    """Choose one of ``outcomes`` for work that is ``mergeable``, ``one-owner`` or ``stateless``."""
    check_work(work)
    by_name = {outcome.spelling: outcome for outcome in outcomes}
    if work == "stateless":
        reason = (
            "The work keeps nothing per key, so any worker may take any row, and dealing them out in turn is "
            "perfectly even."
        )
        return Recommendation(by_name["shuffle"], reason, code_for(by_name["shuffle"], work, workers, key))
    base = by_name["key"]
    enough = found.messages >= ENOUGH * workers
    best = _best(outcomes, work, enough)
    hot_share = found.top[1] * workers
    too_little = GAIN if hot_share >= HOT else GAIN_BY_CHANCE
    chosen = base if best.speed_up < too_little else best
    reason = _reason(found, base, best, chosen, by_name["shuffle"], workers, work)
    notes = _notes(found, chosen, hot_share, workers, work)
    return Recommendation(chosen, reason, code_for(chosen, work, workers, key), notes)


def check_work(work: str) -> None:
    """Refuse a kind of work that is not known."""
    if work not in WORK:
        raise EvenflowError(f"work is {work!r}; it is one of {', '.join(WORK)}.")


def _best(outcomes: Sequence[Outcome], work: str, enough: bool) -> Outcome:
    allowed = [outcome for outcome in outcomes if suits(outcome, work)]
    lowest = min(outcome.max_over_mean for outcome in allowed)
    close = [outcome for outcome in allowed if outcome.max_over_mean <= CLOSE * lowest]
    if work == "one-owner":
        return min(close, key=lambda outcome: (outcome.state_moved or 0.0, outcome.max_over_mean))
    ours = [outcome for outcome in (close if enough else allowed) if outcome.spelling == "fill"]
    return ours[0] if ours else min(close, key=lambda outcome: outcome.memory)


def suits(outcome: Outcome, work: str) -> bool:
    """Say whether a scheme may be used for such work: shuffle has no place where there is state to keep."""
    if work == "one-owner":
        return outcome.one_owner
    return work == "stateless" or outcome.scheme.name != "shuffle"


def _reason(
    found: Profile, base: Outcome, best: Outcome, chosen: Outcome, shuffle: Outcome, workers: int, work: str
) -> str:
    if workers == 1:
        return "One worker takes every row, whatever the scheme."
    hottest = found.hottest[0]
    heat = (
        f"the hottest key, {quoted(hottest.label)}, brings {share_text(hottest.share)} of the rows, "
        f"{times(hottest.share * workers)} a worker's fair share"
    )
    hashed = f"key grouping's fullest worker carries {base.max_over_mean:.2f} times the mean"
    if chosen is base and best.speed_up < GAIN:
        condition = " with one owner per key" if work == "one-owner" else ""
        return f"{_upper(hashed)} ({heat}), and no other scheme{condition} gains a tenth over that."
    if chosen is base:
        return (
            f"No key is hot: {heat}; {hashed}, by chance alone, and {best.spelling} "
            f"({best.max_over_mean:.2f}) would not gain a third."
        )
    gain = f"{chosen.spelling} keeps it at {chosen.max_over_mean:.2f}, {chosen.speed_up:.3g} times faster,"
    if work == "one-owner":
        moved = share_text(chosen.state_moved or 0.0)
        rest = f"with one owner per key, moving {moved} of the state on the way."
        return f"{_upper(heat)}; {hashed}; {gain} {rest}"
    return (
        f"{_upper(heat)}; {hashed}; {gain} with {chosen.memory:.2f} copies of state per key "
        f"(shuffle would keep {shuffle.memory:.2f})."
    )


def _notes(found: Profile, chosen: Outcome, hot_share: float, workers: int, work: str) -> tuple[str, ...]:
    notes = []
    if found.grouped:
        notes.append(
            "The rows of a key stand together here, so their order says nothing about time; the schemes got "
            "them in random order."
        )
    if found.change is not None and found.change.changes and chosen.scheme.name != "key":
        notes.append(
            "The hot keys change over time: a scheme that learns as it goes follows them, a fixed list "
            "does not."
        )
    if work == "one-owner" and hot_share > CLOSE:
        notes.append(
            f"With one owner per key nothing can be better than {hot_share:.2f} times the mean: that is the "
            "hottest key alone. Work that can be merged may be split further (--mergeable)."
        )
    if work == "mergeable":
        notes.append(
            "If the work is only count, sum, max and the like, df.groupBy(...).agg(...) needs none of this: "
            "Spark combines rows before it sends them."
        )
    if found.messages < ENOUGH * workers:
        notes.append(
            f"There are only {found.messages:,} rows for {workers:,} workers; with fewer than {ENOUGH} rows "
            "per worker chance decides much of this."
        )
    if found.keys < FEW_KEYS * workers:
        notes.append(
            f"Of few keys ({found.keys:,}) Spark's own hash may deal luckier or less lucky than the hash of "
            "key grouping here."
        )
    if found.keys < workers:
        notes.append(
            f"There are fewer keys ({found.keys:,}) than workers ({workers:,}): without splitting, workers "
            "stay idle."
        )
    return tuple(notes)


def code_for(chosen: Outcome, work: str, workers: int, key: Sequence[str]) -> str:
    """Return the lines of PySpark to paste."""
    names = [json.dumps(name, ensure_ascii=False) for name in key]
    column = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
    spark = f"df.repartition({workers}, {', '.join(names)})"
    if chosen.scheme.name == "shuffle":
        return f"df = df.repartition({workers})"
    if chosen.scheme.name == "key":
        return f"df = {spark}"
    options = "" if chosen.scheme.name == "fill" else f", scheme={json.dumps(chosen.scheme.name)}"
    if work == "one-owner":
        options += ", split=False"
        rest = (
            f"# Whole groups, instead of df.groupBy({', '.join(names)}).applyInArrow(function, schema):\n"
            f"# evenflow.spark.apply(df, {column}, using=function, schema=schema, workers={workers})"
        )
    else:
        rest = (
            "# A hot key is now on several workers: merge its partial results, or let evenflow do both:\n"
            f"# evenflow.spark.aggregate(df, {column}, using=YourAggregator(), schema=schema, "
            f"workers={workers})"
        )
    return (
        "from evenflow.spark import balance\n\n"
        f"df = df.transform(balance({column}, workers={workers}{options}))  # instead of {spark}\n{rest}"
    )


def times(factor: float) -> str:
    """Say how many times something is.

    >>> times(18.29), times(1.44), times(0.0123)
    ('18 times', '1.4 times', '1.2% of')
    """
    if factor < 1:
        return f"{share_text(factor)} of"
    return f"{factor:.0f} times" if factor >= 10 else f"{factor:.1f} times"


def quoted(label: str, longest: int = 40) -> str:
    """Return a key for a sentence: shortened, on one line, with nothing that a terminal would obey.

    >>> quoted("a\\x1b[31m")
    "'a\\\\x1b[31m'"
    """
    return f"'{plain_label(label, longest)}'"


def plain_label(label: str, longest: int = 40) -> str:
    """Return a key as it can be shown: no control characters, not too long.

    >>> plain_label("x" * 50, 10)
    'xxxxxxxxx…'
    """
    shown = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in label[:200]
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
