"""Advice as tables and sentences for a terminal."""

from __future__ import annotations

from evenflow.advisor import Advice, Outcome
from evenflow.advisor.profile import share_text
from evenflow.advisor.recommend import plain_label, quoted, suits
from evenflow.report.tables import Cell, Table

HOTTEST = 10


def key_text(advice: Advice) -> str:
    """Return the key columns, quoted."""
    return ", ".join(quoted(name) for name in advice.key)


def facts(advice: Advice) -> list[tuple[str, str]]:
    """Return the profile of the key as (name, value) pairs."""
    found = advice.profile
    rows = [
        ("rows read", f"{found.messages:,}"),
        ("distinct keys", f"{found.keys:,}"),
        *(
            (f"{number} hottest keys" if number > 1 else "hottest key", share_text(share))
            for number, share in found.top.items()
            if number == 1 or found.keys >= number
        ),
        ("fitted Zipf exponent", "none" if found.exponent is None else f"{found.exponent:.2f}"),
        ("hot keys change over time", change_word(advice)),
    ]
    return rows


def change_word(advice: Advice) -> str:
    """Return in a word or two whether the hot keys change."""
    change = advice.profile.change
    if change is None:
        return "unknown"
    if not change.hot_keys:
        return "no hot keys"
    return "yes" if change.changes else "no"


def change_text(advice: Advice) -> str:
    """Return in a sentence whether the hot keys change over time."""
    found, change = advice.profile, advice.profile.change
    if found.grouped:
        return "The rows are grouped by key, so their order says nothing about change over time."
    if change is None:
        return "There are too few rows to tell whether the hot keys change over time."
    if not change.hot_keys:
        return f"No key ever reaches a fifth of a worker's fair share ({advice.workers:,} workers)."
    leaders = len({leader.label for leader in change.leaders})
    lead = "the same key stays hottest" if leaders == 1 else f"{leaders} different keys are hottest"
    moving = f"{change.changing_keys:,} of the {change.hot_keys:,} hot keys change by 50% or more"
    weight = share_text(change.changed)
    return f"Across ten equal slices, {lead}; {moving} ({weight} of the hot keys' weight)."


def hottest_table(advice: Advice) -> Table:
    """Return the hottest keys."""
    rows: list[tuple[Cell, ...]] = [
        (
            plain_label(hot.label, 60),
            hot.messages,
            share_text(hot.share),
            f"{hot.share * advice.workers:.2f}",
        )
        for hot in advice.profile.hottest[:HOTTEST]
    ]
    return Table("Hottest keys", ("key", "rows", "share", "times fair share"), rows)


def label_of(outcome: Outcome) -> str:
    """Return a scheme's display name, without parameters that were derived from the data."""
    return "explicit" if outcome.scheme.name == "explicit" else outcome.spelling


def _cores_text(advice: Advice) -> str:
    """Return on which cores the speed-up was predicted."""
    if advice.cores == advice.workers:
        return "every worker has a core of its own (--cores says how many there are)"
    return f"{advice.cores:,} cores take the workers' rows in turn"


def schemes_table(advice: Advice) -> Table:
    """Return the outcome of every scheme, the best for this work first."""
    rows: list[tuple[Cell, ...]] = []
    for outcome in advice.ranked():
        if outcome is advice.recommendation.outcome:
            mark = "recommended"
        else:
            mark = "" if suits(outcome, advice.work) else "unsuitable"
        moved = share_text(outcome.state_moved) if outcome.state_moved is not None else ""
        joining = share_text(outcome.joining_moves) if outcome.joining_moves is not None else ""
        rows.append(
            (
                label_of(outcome),
                outcome.mode,
                round(outcome.speed_up, 2),
                *(() if (seconds := advice.seconds(outcome)) is None else (round(seconds, 1),)),
                round(outcome.max_over_mean, 3),
                round(outcome.memory, 3),
                moved,
                joining,
                mark,
            )
        )
    timed = () if advice.cost is None else ("seconds",)
    columns = (
        "scheme",
        "mode",
        "speed-up",
        *timed,
        "max/mean",
        "memory",
        "state moved",
        "moved by scaling out",
        "",
    )
    ideal = share_text(1 / (advice.workers + 1))
    note = (
        "Speed-up: an upper bound, the time under key grouping (a hash of the key, as in "
        f"repartition({advice.workers}, key), which uses another hash) divided by the scheme's if "
        f"{_cores_text(advice)} and every row costs the same; counting the keys (mode planned) "
        "and the shuffle come on top. Memory: copies of state per key. State moved: state that changed owner "
        "during the run, and when one worker "
        f"is added halfway through (ideal: {ideal}), as a share of the rows up to then; schemes that split "
        "keys need not move state."
    )
    return Table(f"Every scheme on {advice.workers:,} workers", columns, rows, note)


def title(advice: Advice) -> str:
    """Return the title of the advice."""
    return f"Key {key_text(advice)} on {advice.workers:,} workers"


def facts_table(advice: Advice) -> Table:
    """Return the profile of the key as a table."""
    return Table(title(advice), ("", "value"), facts(advice))


def first_answer(advice: Advice) -> str:
    """Return in a sentence what is known before all schemes have been compared."""
    base, chosen = advice.base, advice.recommendation.outcome
    hashed = f"under key grouping the fullest worker has {base.max_over_mean:.2f} times the mean load"
    better = "" if chosen is base else f", under {label_of(chosen)} {chosen.max_over_mean:.2f} times"
    return f"First answer: {label_of(chosen)} ({hashed}{better}). Comparing the other schemes."


def remarks(advice: Advice) -> list[str]:
    """Return the remarks on the profile: which rows were read, and whether the hot keys change."""
    sample = [sampled(advice)] if advice.profile.sample else []
    return [*sample, change_text(advice)]


def sampled(advice: Advice) -> str:
    """Return which part of the data was read."""
    return f"Based on a sample: {advice.profile.sample}."
