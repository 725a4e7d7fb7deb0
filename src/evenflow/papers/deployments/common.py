"""What every deployment shares: its points, and the rules of what must hold of evenflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenflow.papers import rules as r
from evenflow.papers.deployments.measure import Subject, deployed
from evenflow.papers.experiment import Claim, Experiment, Row, RunConfig
from evenflow.papers.page import OURS
from evenflow.papers.table import Table

NEAR_SHUFFLE = 0.9  # of shuffle grouping's throughput
AT_SKEW = 2.0  # where that is judged
NEAR_PREDICTION = 0.7  # of what the simulator predicts, relative to key grouping
SUBMITTED = (
    "On Spark: all messages are submitted at once, workers sleep, medians of 3. Latency counts from "
    "submission, so no mean latency can be below half of the shortest run."
)
NAMES = {
    "key": "KG",
    "partial-key": "PKG",
    "shuffle": "SG",
    "d-choices": "D-C",
    "w-choices": "W-C",
    "consistent": "CG",
    "fish": "FISH",
    "dynamic-key": "DKG",
}


def subject(scheme: str, label: str | None = None, **parameters: Any) -> Subject:
    """Name a scheme as the papers do.

    >>> subject("key")
    ('KG', 'key', {})
    """
    return label or NAMES.get(scheme, scheme), scheme, parameters


def on_spark(
    paper: str, figure: str, title: str, caption: str, points: Callable[[RunConfig], list[Row]],
    plot: Any, *claims: Claim, measure: Callable[..., list[Row]] = deployed,
) -> Experiment:  # fmt: skip
    """Return the deployment of a figure, with the schemes that the user lets join every figure."""

    def deployable(config: RunConfig) -> list[Row]:
        return [_joined(point, config) | {"master": config.master} for point in points(config)]

    return Experiment(
        paper, figure, f"{title}, on Spark", caption, deployable, measure, plot, claims, on="spark"
    )


def _joined(point: Row, config: RunConfig) -> Row:
    if "subjects" not in point:
        return point
    known = {name for _, name, _ in point["subjects"]}
    joining = [subject(name) for name in config.joining if name not in known]
    return point | {"subjects": [list(entry) for entry in (*point["subjects"], *joining)]}


def small_messages(z: float) -> int:
    """Return the messages per worker of a small run: more where a tenth of the throughput is judged.

    What a run takes beside its work varies by 0.2 s, and 4000 messages are 1.6 s of work.
    """
    return 6000 if z == AT_SKEW else 4000


def best_cut(column: str, mine: str, other: str, by: str, paper: float) -> r.Rule:
    """Hold if a value is lower by nine tenths of the paper's cut, in direction from 5 percent on."""
    return r.at_least(r.reduction(column, mine, other, by), 0.9 * paper, 0.05, lambda cut: f"{-cut:+.0%}")


def near_shuffle(*labels: str) -> Claim:
    """Return the rule that schemes come within 10 percent of shuffle grouping's throughput."""

    def of_shuffle(t: Table) -> dict[str, float]:
        found = t.wide("throughput", z=AT_SKEW).iloc[0]
        return {label: found[label] / found["SG"] for label in labels}

    rule = r.at_least(of_shuffle, NEAR_SHUFFLE, text=lambda found: f"{r.named('.3f')(found)} of SG's")
    text = f"{', '.join(labels)} are within 10 percent of SG's throughput at z = {AT_SKEW}"
    return Claim(OURS, text, ">= 0.9 of SG's", rule, _ENGINE)


def near_prediction() -> Claim:
    """Return the rule that the engine adds little: gains over key grouping are what the simulator says."""

    def worst(t: Table) -> tuple[float, str, float, float, int]:
        own = t.only("scheme != 'key'").dropna(subset=["of_key"])
        parts = own["of_key"] / own["predicted_of_key"]
        row = own.loc[parts.idxmin()]
        return parts.min(), row["label"], row["of_key"], row["predicted_of_key"], len(own)

    text = "at least {:.2f} of it ({}: {:.2f}x KG, predicted {:.2f}x), {} runs"
    return Claim(OURS, "throughput relative to KG matches the simulator's prediction", ">= 0.7 of it",
                 r.at_least(worst, NEAR_PREDICTION, text=text), _ENGINE)  # fmt: skip


_ENGINE = "Spark's own overhead per run (empty_seconds) is large compared with the work"
