"""What every deployment shares: its points, and the rules of what must hold of evenflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenflow.papers import rules as r
from evenflow.papers.deployments.lanes import LITTLE
from evenflow.papers.deployments.streamed import LATE, LOADS, Subject, streamed
from evenflow.papers.experiment import Claim, Experiment, Row, RunConfig
from evenflow.papers.figures import Bars
from evenflow.papers.page import OURS
from evenflow.papers.table import Table

SERVICE, SMALL_SERVICE = 0.001, 0.003  # seconds of a message, at scale paper and small
NEAR_SHUFFLE = 0.9  # of shuffle grouping's throughput
AT_SKEW = 2.0  # where that is judged
NEAR_PREDICTION = 0.7  # of what the simulator predicts, relative to key grouping, or the inverse
SERVED = (
    "1 ms per message as in the paper, at small scale 3 ms, since two cores also run the engine, whose cost "
    "is one of messages"
)
STREAMED = (
    "On Spark, as a stream: a paced source, a micro-batch for each interval, workers that sleep. Throughput "
    "is the highest rate at which latency does not grow, to 3 percent. Latency is measured from a message's "
    "creation to the end of its service, over all messages of an interval at 0.5 and 0.8 of that rate, of "
    "two at 0.95, and of one at 0.95 of KG's; none can be below the engine's own, that of the empty run. "
    "Warm-up: 5 intervals, and those of the search. A rate that a stall made late is measured again, at most "
    "twice."
)
FLOOR = (
    "a message waits for its micro-batch, under every scheme; only what lies above the empty run's latency "
    "depends on the scheme"
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


def service(small: bool) -> float:
    """Return the seconds of a message."""
    return SMALL_SERVICE if small else SERVICE


def subject(scheme: str, label: str | None = None, **parameters: Any) -> Subject:
    """Name a scheme as the papers do.

    >>> subject("key")
    ('KG', 'key', {})
    """
    return label or NAMES.get(scheme, scheme), scheme, parameters


def on_spark(
    paper: str, figure: str, title: str, caption: str, points: Callable[[RunConfig], list[Row]],
    plot: Any, *claims: Claim, measure: Callable[..., list[Row]],
) -> Experiment:  # fmt: skip
    """Return the deployment of a figure, with the schemes that the user lets join every figure."""

    def deployable(config: RunConfig) -> list[Row]:
        return [_joined(point, config) | {"master": config.master} for point in points(config)]

    return Experiment(  # its version counts changes of the protocol
        paper,
        figure,
        f"{title}, on Spark",
        caption,
        deployable,
        measure,
        plot,
        claims,
        version=3,
        on="spark",
    )


def as_stream(
    paper: str, figure: str, title: str, caption: str, points: Callable[[RunConfig], list[Row]],
    plot: Any, *claims: Claim, measure: Callable[..., list[Row]] = streamed,
) -> Experiment:  # fmt: skip
    """Return the deployment of a figure as a stream, with what must hold of every one."""
    must = (little_overhead(), no_growth())
    return on_spark(paper, figure, title, caption, points, plot, *claims, *must, measure=measure)


def _joined(point: Row, config: RunConfig) -> Row:
    if "subjects" not in point:
        return point
    known = {name for _, name, _ in point["subjects"]}
    joining = [subject(name) for name in config.joining if name not in known]
    return point | {"subjects": [list(entry) for entry in (*point["subjects"], *joining)]}


def best_cut(column: str, mine: str, other: str, by: str, paper: float, **where: Any) -> r.Rule:
    """Hold if a value is lower by nine tenths of the paper's cut, in direction from 5 percent on."""
    found = r.reduction(column, mine, other, by, **where)
    return r.at_least(found, 0.9 * paper, 0.05, lambda cut: f"{-cut:+.0%}")


def cut_above(column: str, mine: str, other: str, by: str, paper: float, **where: Any) -> Claim:
    """Return the rule that above the empty run's latency a value is lower by 0.9 of the paper's cut."""
    rule = best_cut(f"above_{column}", mine, other, by, paper, **where)
    text = f"above the empty run's, {mine}'s {column} is as far below {other}'s as the paper's in all"
    return Claim(OURS, text, f"-{100 * paper:g} percent", rule)


def near_shuffle(*labels: str) -> Claim:
    """Return the rule that schemes come within 10 percent of shuffle grouping's throughput."""

    def of_shuffle(t: Table) -> dict[str, float]:
        found = t.wide("throughput", z=AT_SKEW).iloc[0]
        return {label: found[label] / found["SG"] for label in labels}

    rule = r.at_least(of_shuffle, NEAR_SHUFFLE, text=lambda found: f"{r.named('.3f')(found)} of SG's")
    text = f"{', '.join(labels)} are within 10 percent of SG's throughput at z = {AT_SKEW}"
    return Claim(OURS, text, ">= 0.9 of SG's", rule, _ENGINE)


def near_prediction() -> Claim:
    """Return the rule that the engine changes little: gains over key grouping are what the simulator says."""

    def parts(t: Table) -> tuple[list[float], str, str, int]:
        own = t.only("scheme != 'key'").dropna(subset=["of_key"])
        own = own.assign(part=own["of_key"] / own["predicted_of_key"]).sort_values("part")
        lowest, highest = (
            "{part:.2f} of it ({label}: {of_key:.2f}x KG, predicted {predicted_of_key:.2f}x)".format(**row)
            for row in (own.iloc[0], own.iloc[-1])
        )
        return own["part"].tolist(), lowest, highest, len(own)

    rule = r.graded(
        parts, lambda found, *_: NEAR_PREDICTION <= min(found) <= max(found) <= 1 / NEAR_PREDICTION,
        text="{1} to {2}, {3} runs",
    )  # fmt: skip
    return Claim(OURS, "throughput relative to KG matches the simulator's prediction", "0.7 to 1.43 of it",
                 rule, _ENGINE)  # fmt: skip


def little_overhead() -> Claim:
    """Return the rule that a micro-batch without work is short, relative to the time it has."""
    rule = r.at_most(r.largest("empty_share"), LITTLE, text="{:.1%} at most")
    return Claim(
        OURS, "an empty run takes less than 15 percent of an interval", "< 15 percent", rule, _ENGINE
    )


def no_growth() -> Claim:
    """Return the rule that the messages of a window are served before the next micro-batch is due.

    Key grouping's rate may be above what a scheme can serve; then latency does grow, and is shown.
    """

    def latest(t: Table) -> tuple[float, int, int, int]:
        own = t[t["rate"] <= LOADS[-1] * t["throughput"] * (1 + 1e-9)]
        highest = own["rate"] > (LOADS[-1] - 1e-9) * own["throughput"]
        lowered = own.get("lowered", 0 * own["again"])[highest] > 0
        return own["late"].max(), int((own["again"] > 0).sum()), len(own), int(lowered.sum())

    measured = "{0:.1%} of an interval late at most; {1} of {2} rates measured again"
    rule = r.graded(latest, lambda late, *_: late < LATE, text=f"{measured}, {{3}} throughputs lowered")
    text = "latency does not grow at 0.5, 0.8 and 0.95 of the throughput: micro-batches are done in time"
    return Claim(OURS, text, "< 5 percent of an interval late", rule, _STALL)


def at_own_rate(t: Table) -> Table:
    """Return a row per configuration and scheme: at 0.95 of its own throughput."""
    return t.only(load=LOADS[-1], of="own")


def latencies(x: str) -> Bars:
    """Draw latencies at 0.95 of the own throughput, and at that rate of key grouping for all."""
    names = {"mean": "mean, s", "p99": "p99, s", "worker": "slowest worker's mean, s"}
    values = {f"latency_{name}": title for name, title in names.items()}
    return Bars(x=x, y=values, panels="0.95 of {of}", rows=lambda t: t.only(load=LOADS[-1]))


_ENGINE = "Spark's own overhead per run (empty_seconds) is large compared with the work"
_STALL = "a micro-batch took longer than its messages explain, and so did those of two more chances"
