"""``evenflow advise LEFT --join RIGHT``: predict a join and recommend how to compute it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenflow.commands.terminal import announce_compilation, print_json, print_recommendation

if TYPE_CHECKING:
    from evenflow.advisor import JoinAdvice

CHOICES = {
    "plain": "Spark's own join",
    "broadcast": "a broadcast",
    "adaptive": "adaptive execution, tuned",
    "join": "evenflow.spark.join",
}


def show_join_advice(
    left: str, right: str, key: str | Sequence[str] | None, workers: int, how: str, sample: int | None,
    seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Print the advice on a join."""
    from evenflow.advisor import advise_join

    with announce_compilation():
        advice = advise_join(left, right, key, workers=workers, how=how, sample=sample, seed=seed)
    if as_json:
        print_json(advice.to_dict())
    else:
        _show(advice)


def _show(advice: JoinAdvice) -> None:
    from evenflow.advisor.profile import share_text
    from evenflow.advisor.recommend import plain_label
    from evenflow.report.tables import Table, show

    sides = [
        (
            side.name,
            side.rows,
            side.keys,
            round(side.bytes / 1e6, 1),
            plain_label(side.hottest),
            share_text(side.share),
        )
        for side in (advice.left, advice.right)
    ]
    joins = [
        ("Spark's own", round(advice.plain, 2), 0),
        ("evenflow's", round(advice.plan.max_over_mean, 2), round(advice.plan.copied_rows)),
    ]
    title = f"Kind of join: {advice.how}; {advice.workers} partitions"
    show(
        [
            Table("Sides", ("side", "rows", "keys read", "MB", "hottest key", "share"), sides),
            Table(title, ("join", "max/mean load", "rows copied"), joins),
        ]
    )
    print_recommendation(CHOICES[advice.choice], advice.reason, advice.code, advice.notes)
