"""Advice for people: the report with figures, one HTML page."""

from __future__ import annotations

from evenflow import __version__
from evenflow.advisor import Advice
from evenflow.advisor.recommend import plain_label, suits
from evenflow.report.advice import (
    change_text,
    facts,
    hottest_table,
    label_of,
    sampled,
    schemes_table,
    title,
)
from evenflow.report.figures import Point, draw_balance_and_memory, draw_hot_keys, draw_loads
from evenflow.report.page import render
from evenflow.report.style import as_svg

_MEANINGS = {
    "mergeable": "Partial results of a key can be merged, so a key may be on several workers.",
    "one-owner": "A key has one owner: all its rows go to one worker at a time.",
    "stateless": "The work keeps nothing per key.",
}


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
        sample=sampled(advice) if advice.profile.sample else "",
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
