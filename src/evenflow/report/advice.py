"""Advice for people: tables and lines for a terminal."""

from __future__ import annotations

from evenflow.advisor import Advice, Outcome
from evenflow.advisor.profile import share_text
from evenflow.advisor.recommend import plain_label, quoted, suits
from evenflow.report.tables import Cell, Table

HOTTEST = 10


def key_text(advice: Advice) -> str:
    """Return the key's columns, quoted."""
    return ", ".join(quoted(name) for name in advice.key)


def facts(advice: Advice) -> list[tuple[str, str]]:
    """Return what there is to know of the key, as (what, value)."""
    found = advice.profile
    rows = [
        ("rows read", f"{found.messages:,}"),
        ("distinct keys", f"{found.keys:,}"),
        *(
            (f"hottest {number}" if number > 1 else "hottest key", share_text(share))
            for number, share in _top(advice)
        ),
        ("fitted Zipf exponent", "none" if found.exponent is None else f"{found.exponent:.2f}"),
        ("hot keys change", change_word(advice)),
    ]
    return rows


def _top(advice: Advice) -> list[tuple[int, float]]:
    return [
        (number, share)
        for number, share in advice.profile.top.items()
        if number == 1 or advice.profile.keys >= number
    ]


def change_word(advice: Advice) -> str:
    """Say in a word or two whether the hot keys change."""
    change = advice.profile.change
    if change is None:
        return "unknown"
    if not change.hot_keys:
        return "none is hot"
    return "yes" if change.changes else "no"


def change_text(advice: Advice) -> str:
    """Say in a sentence whether the hot keys change over time."""
    found, change = advice.profile, advice.profile.change
    if found.grouped:
        return "The rows of a key stand together, so their order says nothing about time."
    if change is None:
        return "There are too few rows to say whether the hot keys change over time."
    if not change.hot_keys:
        return f"No key ever has a fifth of a worker's fair share of {advice.workers:,} workers."
    leaders = len({leader.label for leader in change.leaders})
    lead = "one key leads" if leaders == 1 else f"{leaders} keys take the lead in turn"
    moving = f"{change.changing_keys:,} of {change.hot_keys:,} hot keys rise or fall by half or more"
    weight = share_text(change.changed)
    return f"Over ten equal parts of the rows {lead}; {moving}, with {weight} of their weight."


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
    return Table("Hottest keys", ("key", "rows", "share", "of a worker's fair share"), rows)


def label_of(outcome: Outcome) -> str:
    """Return a scheme's name for people: parameters that were chosen for this data are left out."""
    return "explicit" if outcome.scheme.name == "explicit" else outcome.spelling


def schemes_table(advice: Advice) -> Table:
    """Return what every scheme would do, the best for this work first."""
    rows: list[tuple[Cell, ...]] = []
    for outcome in advice.ranked():
        if outcome is advice.recommendation.outcome:
            mark = "advised"
        else:
            mark = "" if suits(outcome, advice.work) else "not for this work"
        moved = share_text(outcome.state_moved) if outcome.state_moved is not None else ""
        joining = share_text(outcome.joining_moves) if outcome.joining_moves is not None else ""
        rows.append(
            (
                label_of(outcome),
                round(outcome.speed_up, 2),
                round(outcome.max_over_mean, 3),
                round(outcome.memory, 3),
                moved,
                joining,
                mark,
            )
        )
    columns = ("scheme", "speed-up", "max/mean", "memory", "moved", "moves if one joins", "")
    ideal = share_text(1 / (advice.workers + 1))
    note = (
        f"Speed-up: the largest load of repartition({advice.workers}, key) over this one's. Memory: "
        "copies of state per key. Moved: state that changed its owner on the way, and when one more "
        f"worker joins half way (ideal: {ideal}), as a share of all rows so far; where keys are split "
        "nothing has to move."
    )
    return Table(f"What each scheme does to {advice.workers:,} workers", columns, rows, note)


def title(advice: Advice) -> str:
    """Return what this is about."""
    return f"Key {key_text(advice)} on {advice.workers:,} workers"


def facts_table(advice: Advice) -> Table:
    """Return the facts as a table for a terminal."""
    return Table(title(advice), ("", "value"), facts(advice))


def remarks(advice: Advice) -> list[str]:
    """Return what belongs to the facts: which rows were read, and whether the hot keys change."""
    sample = [sampled(advice)] if advice.profile.sample else []
    return [*sample, change_text(advice)]


def sampled(advice: Advice) -> str:
    """Return which part of the data was read."""
    return f"A sample was read: {advice.profile.sample}."
