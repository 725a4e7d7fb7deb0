"""Advice for people: tables and lines for a terminal, a page for a browser."""

from __future__ import annotations

from evenflow import __version__
from evenflow.advisor import Advice, Outcome
from evenflow.advisor.profile import share_text
from evenflow.advisor.recommend import plain_label, quoted, suits
from evenflow.report.figures import Point, draw_balance_and_memory, draw_hot_keys, draw_loads
from evenflow.report.page import render
from evenflow.report.style import as_svg
from evenflow.report.tables import Cell, Table

HOTTEST = 10
_MEANINGS = {
    "mergeable": "Partial results of a key can be merged, so a key may be on several workers.",
    "one-owner": "A key has one owner: all its rows go to one worker at a time.",
    "stateless": "The work keeps nothing per key.",
}


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
    sample = [_sampled(advice)] if advice.profile.sample else []
    return [*sample, change_text(advice)]


def _sampled(advice: Advice) -> str:
    return f"A sample was read: {advice.profile.sample}."


def advice_page(advice: Advice) -> str:
    """Return the whole report as one HTML page."""
    chosen = advice.recommendation
    kinds = [
        "chosen" if outcome is chosen.outcome else "" if suits(outcome, advice.work) else "muted"
        for outcome in advice.ranked()
    ]
    return render(
        "advice.html",
        title=title(advice),
        lead=f"{plain_label(advice.profile.stream, 300)}. {_MEANINGS[advice.work]}",
        footer=f"Made by evenflow {__version__}.",
        label=label_of(chosen.outcome),
        recommendation=chosen,
        known=facts(advice),
        sample=_sampled(advice) if advice.profile.sample else "",
        hottest=hottest_table(advice),
        figures=[_loads_figure(advice), _hot_keys_figure(advice), _memory_figure(advice)],
        schemes=schemes_table(advice),
        kinds=kinds,
    )


def _loads_figure(advice: Advice) -> tuple[str, str, str]:
    """Return heading, picture and caption."""
    chosen = advice.recommendation.outcome
    shown = [advice.base] if chosen is advice.base else [advice.base, chosen]
    loads = {label_of(outcome): outcome.loads for outcome in shown}
    schemes = {label_of(outcome): outcome.scheme.name for outcome in shown}
    caption = (
        f"Rows of each of {advice.workers:,} workers, relative to the mean; key is "
        f"repartition({advice.workers}, key)."
    )
    return "Load per worker", as_svg(lambda: draw_loads(loads, schemes), "loads", caption), caption


def _hot_keys_figure(advice: Advice) -> tuple[str, str, str]:
    caption = change_text(advice)
    svg = as_svg(lambda: draw_hot_keys(advice.profile.trace, advice.workers), "hot-keys", caption)
    return "Hot keys over time", svg, caption


def _memory_figure(advice: Advice) -> tuple[str, str, str]:
    points = [
        Point(
            label_of(outcome),
            outcome.scheme.name,
            outcome.memory,
            outcome.max_over_mean,
            suits(outcome, advice.work),
            outcome is advice.recommendation.outcome,
        )
        for outcome in advice.outcomes
    ]
    caption = (
        "Every scheme by its copies of state per key and its largest load: the lower left is best. The star "
        "is the advised scheme; hollow points are not for this work."
    )
    svg = as_svg(lambda: draw_balance_and_memory(points), "memory", caption)
    return "Balance against memory", svg, caption
