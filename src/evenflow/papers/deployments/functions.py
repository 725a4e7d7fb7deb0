"""Fig. 3, 4 and 6 of `functions`, by the adaptivity loop of running queries: balance, migration and gain."""

from __future__ import annotations

from typing import Any

from evenflow.papers import rules as r
from evenflow.papers.deployments import common
from evenflow.papers.deployments.owned import owned
from evenflow.papers.experiment import Claim
from evenflow.papers.figures import Lines
from evenflow.papers.functions.common import CONSISTENT, OURS
from evenflow.papers.functions.growth import ALPHA
from evenflow.papers.grid import at, grid
from evenflow.papers.page import OURS as EVENFLOW
from evenflow.papers.table import Table

DOMAIN = 2000
APPROACHES = [
    ("key", "key"),
    (CONSISTENT, CONSISTENT),
    *((name, f"explicit:algorithm={name},resources=LLL,domain={DOMAIN}") for name in OURS),
    ("fill", "fill:split=no"),
]
EVEN = 1.05  # times the tolerance, which chance may exceed
PLACED = (*OURS, "fill")

_POINTS = grid(approaches=[APPROACHES], z=at(0.8, (0.1, 0.5, 0.8, 1.0)), domain=DOMAIN,
               rows=at(4000, 20_000), workers=at([[4, 5, 6]], [[4, 5, 6, 7, 8]]),
               batches=at(4, 8))  # fmt: skip


def _adopted(t: Table) -> list[Any]:
    """Check that every plan that was adopted between two numbers of workers gained more than it moved."""
    own = t.only("adopted > 0")
    return [own["missed"] > own["paid"], own["gain"] > 0]


_RESOURCES = ("state", "computation", "communication")
_CHANCE = "seconds are measured on a machine that does other work as well"
_SPLIT = "evenflow's key grouping splits the hash range, which moves half of all keys; a hash modulo N more"

EXPERIMENTS = [
    common.on_spark(
        "functions",
        "fig6",
        "Balance and migration as workers join a running query",
        "`stateful` with 2000 keys, whose state, computation (1 ms per row) and communication are "
        "proportional to their frequency; four workers, then five, then six, with four micro-batches each. "
        f"Values of the last one of the four; alpha = {ALPHA}. Small: z = 0.8; paper: 0.1 to 1. fill added.",
        _POINTS,
        Lines(
            x="workers",
            y={
                "imbalance": "imbalance",
                "migration": "relative migration",
                **{name: f"{name}, max / min" for name in _RESOURCES},
            },
            by="approach",
            panels="z",
            level=1.0,
        ),
        Claim(
            "5.3",
            "scan, redist and readj are better balanced than consistent hashing",
            "lower",
            r.each(
                r.below("imbalance", OURS, CONSISTENT, "z", "workers", strictly=True),
                "comparisons below consistent hashing",
            ),
            _CHANCE,
        ),
        Claim(
            "5.3",
            "consistent hashing is the first to violate the balance constraint",
            "violated",
            r.each(r.holds("imbalance > 1", approach=CONSISTENT), "settings of consistent hashing"),
            _CHANCE,
        ),
        Claim(
            "5.3",
            "the others are close to the ideal migration up to z = 0.8",
            "about 1",
            r.graded(
                lambda t: t.only(approach=OURS).dropna(subset=["migration"])["migration"].mean(),
                lambda mean: 0.6 <= mean <= 1.5,
                lambda mean: mean <= 2.5,
                "{:.2f} times the ideal on average",
            ),
            _CHANCE,
        ),
        Claim(
            "5.3",
            "uniform hashing migrates far more than the others",
            "far more",
            r.at_least(
                lambda t: t.average("migration", approach="key") / t.average("migration", approach=OURS),
                2.0,
                1.2,
                "{:.2f}x theirs",
            ),
            _SPLIT,
        ),
        Claim(
            "4.5",
            "a new function is adopted if it gains more than it migrates",
            "gain > migration",
            r.each(_adopted, "phases of a query whose plans paid off"),
        ),
        Claim(
            EVENFLOW,
            "where keys are placed one by one, all three resources are within tolerance",
            f"<= {EVEN} of alpha",
            r.at_most(
                lambda t: t.only(approach=PLACED)[list(_RESOURCES)].max().max() / ALPHA,
                EVEN,
                1.25,
                "at most {:.2f} of alpha",
            ),
            _CHANCE,
        ),
        measure=owned,
    ),
]
