"""What every deployment shares: its points, the rules of what must hold of evenflow, two ways to draw it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.papers.deployments.measure import Subject
from evenflow.papers.experiment import (
    DIFFERS,
    DIRECTION,
    HOLDS,
    UNTESTED,
    Claim,
    Judgement,
    Row,
    Rows,
    Setting,
    pick,
    select,
)
from evenflow.papers.plots import lines

OURS = "evenflow"  # the section of what is no claim of a paper but must hold here
NEAR_SHUFFLE = 0.9  # of shuffle grouping's throughput
AT_SKEW = 2.0  # where that is judged
NEAR_PREDICTION = 0.7  # of what the simulator predicts, relative to key grouping
HANDED_IN = (
    "On Spark: all messages are handed in at once, sleeping workers, medians of 3. Latency counts from "
    "there, so half of the shortest run is the least mean latency there can be."
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


@dataclass(frozen=True)
class OnSpark(Setting):
    """A setting of deployments: also which cluster; None is this machine, with a slot per worker."""

    master: str | None = None


def subject(scheme: str, label: str | None = None, **parameters: Any) -> Subject:
    """Name a scheme as the papers do.

    >>> subject("key")
    ('KG', 'key', {})
    """
    return label or NAMES.get(scheme, scheme), scheme, parameters


def point(
    setting: Setting,
    stream: str,
    messages: int | None,
    workers: int,
    sources: int,
    service: float,
    subjects: Sequence[Subject],
    labels: Row | None = None,
    **more: Any,
) -> Row:
    """Return one setting to deploy, with the schemes that the user lets join every figure."""
    known = {name for _, name, _ in subjects}
    joining = [subject(name) for name in setting.joining if name not in known]
    return {
        "stream": stream,
        "messages": messages,
        "workers": workers,
        "sources": sources,
        "service": service,
        "subjects": [list(one) for one in (*subjects, *joining)],
        "master": getattr(setting, "master", None),
        "labels": labels or {},
        **more,
    }


def ratio(rows: Rows, value: str, label: str, to: str, **where: Any) -> float:
    """Return one scheme's value relative to another's in the same setting."""
    return float(pick(rows, label=label, **where)[value] / pick(rows, label=to, **where)[value])


def best_times(value: str, label: str, to: str, by: str, paper: float) -> Callable[[Rows], Judgement]:
    """Judge the best case of a ratio: holds from four fifths to five fourths of the paper's number."""

    def judged(rows: Rows) -> Judgement:
        best = max(ratio(rows, value, label, to, **{by: one}) for one in _values(rows, by))
        verdict = HOLDS if 0.8 * paper <= best <= 1.25 * paper else DIRECTION if best > 1.05 else DIFFERS
        return Judgement(verdict, f"{best:.2f}x")

    return judged


def best_cut(value: str, label: str, to: str, by: str, paper: float) -> Callable[[Rows], Judgement]:
    """Judge by how much a value is lower in the best case; holds from nine tenths of the paper's cut on."""

    def judged(rows: Rows) -> Judgement:
        cut = max(1 - ratio(rows, value, label, to, **{by: one}) for one in _values(rows, by))
        verdict = HOLDS if cut >= 0.9 * paper else DIRECTION if cut > 0.05 else DIFFERS
        return Judgement(verdict, f"{-cut:+.0%}")

    return judged


def _values(rows: Rows, by: str) -> list[Any]:
    return list(dict.fromkeys(row[by] for row in rows))


def small_messages(z: float) -> int:
    """Return the messages per worker of a small run: more where a tenth of the throughput is judged.

    What a run takes beside its work varies by 0.2 s, and 4000 messages are 1.6 s of work.
    """
    return 6000 if z == AT_SKEW else 4000


def near_shuffle(*labels: str) -> Claim:
    """Return the rule that schemes come within 10 percent of shuffle grouping's throughput."""

    def judged(rows: Rows) -> Judgement:
        found = {label: ratio(rows, "throughput", label, "SG", z=AT_SKEW) for label in labels}
        text = ", ".join(f"{label} {value:.3f}" for label, value in found.items())
        return Judgement(HOLDS if min(found.values()) >= NEAR_SHUFFLE else DIFFERS, f"{text} of SG's")

    text = f"{', '.join(labels)} within 10 percent of SG's throughput at z = {AT_SKEW}"
    return Claim(OURS, text, ">= 0.9 of SG's", judged, _ENGINE)


def near_prediction() -> Claim:
    """Return the rule that the engine adds little: gains over key grouping are what the simulator says."""

    def judged(rows: Rows) -> Judgement:
        own = [row for row in rows if "of_key" in row and row["scheme"] != "key"]
        if not own:
            return Judgement(UNTESTED, "-", "key grouping was not measured")
        worst = min(own, key=lambda row: row["of_key"] / row["predicted_of_key"])
        part = worst["of_key"] / worst["predicted_of_key"]
        text = (
            f"at least {part:.2f} of it ({worst['label']}: {worst['of_key']:.2f}x KG, predicted "
            f"{worst['predicted_of_key']:.2f}x), {len(own)} runs"
        )
        return Judgement(HOLDS if part >= NEAR_PREDICTION else DIFFERS, text)

    return Claim(
        OURS, "throughput relative to KG is what the simulator predicts", ">= 0.7 of it", judged, _ENGINE
    )


_ENGINE = "what Spark itself takes for a run (empty_seconds) is long beside the work"


def gates(claims: Sequence[Row]) -> list[Row]:
    """Return the claims that are evenflow's own."""
    return [claim for claim in claims if claim["section"] == OURS]


def plot_by(x: str, xlabel: str, panels: dict[str, str]) -> Callable[[Any, Rows], None]:
    """Return a plot of several numbers over ``x``, a panel for each, a line per scheme."""

    def plot(figure: Any, rows: Rows) -> None:
        long = [
            {x: row[x], "label": row["label"], "panel": name, "value": row[value]}
            for value, name in panels.items()
            for row in rows
        ]
        lines(figure, long, x=x, y="value", series="label", panels="panel", xlabel=xlabel, own_scale=True)

    return plot


def plot_bars(group: str, panels: dict[str, str], log: bool = False) -> Callable[[Any, Rows], None]:
    """Return a plot of bars: schemes beside each other, grouped by a column, a panel for each number."""

    def plot(figure: Any, rows: Rows) -> None:
        groups = _values(rows, group)
        labels = _values(rows, "label")
        figure.set_size_inches(max(4.6, 1.7 * len(groups)) * len(panels), 3.8)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (value, name) in zip(axes, panels.items(), strict=True):
            for place, label in enumerate(labels):
                own = select(rows, label=label)
                at = [
                    groups.index(row[group]) + (place - len(labels) / 2 + 0.5) / (len(labels) + 1)
                    for row in own
                ]
                axis.bar(
                    at, [row[value] for row in own], 1 / (len(labels) + 1), label=label, color=f"C{place}"
                )
            axis.set_xticks(range(len(groups)), [str(one) for one in groups], fontsize=8)
            axis.set(xlabel=group, ylabel=name)
            if log:
                axis.set_yscale("log")
        figure.legend(
            *axes[0].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=8,
            fontsize=7,
            frameon=False,
        )

    return plot
