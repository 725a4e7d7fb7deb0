"""`evolving`: Huang, "Efficient Time-Evolving Stream Processing at Scale" (FISH).

Fig. 2-4, 9-20 and Table 2; Fig. 1 and 5-8 are drawings or worked examples (7 and 8 are unit tests). Execution
time is when the last message is done, with arrivals that shuffle grouping can just serve, relative to
shuffle's. Memory is (key, worker) pairs. The evolving Zipf stream reverses its ranks for the last fifth: the
printed text repeats the first law there, ours is a reading. Fig. 18-19 were a Storm cluster, here the
queueing model; Fig. 4 measures an engine and belongs there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import evenflow as ef
from evenflow.papers.experiment import (
    DIFFERS,
    DIRECTION,
    HOLDS,
    Claim,
    Experiment,
    Judgement,
    Row,
    Rows,
    Setting,
    at_least,
    at_most,
    near,
    pick,
    select,
    share_of,
)
from evenflow.papers.measures import measure_data, same_streams, simulated
from evenflow.papers.plots import groups, lines
from evenflow.simulator import Rescale, simulate
from evenflow.streams import open_stream

WORKERS = (16, 32, 64, 128)
SOURCES = 32
SECONDS = 100.0
SKEWS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
LAW = "10^5 keys; the ranks reverse for the last fifth (our reading of the text)."
ALONE = "fish, one source"
TOGETHER = ", one stream"
SATURATED = "Queueing model at shuffle grouping's saturation."


def evolving(z: float, messages: float, seed: int = 1, keys: float = 1e5) -> str:
    """Spell the time-evolving Zipf stream."""
    return f"evolving:z={z},keys={int(keys)},messages={int(messages)},seed={seed}"


def _point(scheme: str, stream: str, workers: int, sources: int = 5, **more: Any) -> Row:
    messages = open_stream(stream).messages or 10**6
    more = {name: value for name, value in more.items() if value}  # what figures share is spelled alike
    point = {
        "scheme": scheme,
        "stream": stream,
        "workers": workers,
        "sources": sources,
        "queueing": {"rate": messages / SECONDS, "load": 1.0},
    }
    return point | more


def relative(rows: Rows, value: str, to: str, by: tuple[str, ...]) -> list[Row]:
    """Return rows averaged over seeds, ``value`` relative to that of ``to`` in the same setting."""
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in rows:
        groups[(row["label"], *(row[name] for name in by))].append(row[value])
    means = {key: fmean(values) for key, values in groups.items()}
    return [
        {"label": key[0], **dict(zip(by, key[1:], strict=True)), "relative": mean / means[(to, *key[1:])]}
        for key, mean in means.items()
        if (to, *key[1:]) in means
    ]


def _plot_relative(value: str, to: str, x: str, panels: str, ylabel: str, logy: bool = False) -> Any:
    def plot(figure: Any, rows: Rows) -> None:
        found = relative(rows, value, to, (x, panels))
        lines(
            figure,
            found,
            x=x,
            y="relative",
            series="label",
            panels=panels,
            xlabel=x,
            ylabel=ylabel,
            logy=logy,
        )

    return plot


# Fig. 2, 3: head schemes with too few or enough counters


def _sketch_points(setting: Setting) -> list[Row]:
    stream = setting.stream("AM")
    subjects: list[tuple[str, str, Row]] = [
        ("FG", "key", {}),
        ("PKG", "partial-key", {}),
        ("SG", "shuffle", {}),
    ]
    for label, scheme in (("D-C", "d-choices"), ("W-C", "w-choices")):
        subjects += [(f"{label}{size}", scheme, {"capacity": size}) for size in (100, 1000)]
    subjects += [(name, name, {}) for name in setting.joining]
    return [
        _point(scheme, stream, n, parameters=parameters, labels={"label": label, "data": "AM"})
        for n in setting.pick((16, 128), WORKERS)
        for label, scheme, parameters in subjects
    ]


def _plot_latency(figure: Any, rows: Rows) -> None:
    names = ("latency_mean", "latency_p50", "latency_p95", "latency_p99")
    long = [{**row, "panel": name, "value": row[name]} for row in rows for name in names]
    lines(figure, long, x="workers", y="value", series="label", panels="panel", logy=True, ylabel="seconds")


def _high_latency(rows: Rows) -> Judgement:
    n = max(row["workers"] for row in rows)
    shuffle = pick(rows, label="SG", workers=n)["latency_p99"]
    worst = pick(rows, label="FG", workers=n)["latency_p99"] / max(shuffle, 1e-9)
    return at_least(worst, 10, loosely=1.5, spelled="FG's {:.4g} times SG's")


def _memory_of(rows: Rows, label: str) -> float:
    n = max(row["workers"] for row in rows)
    return float(pick(rows, label=label, workers=n)["memory"])


def _too_few_counters(rows: Rows) -> Judgement:
    checks = [_memory_of(rows, f"{one}100") > 1.5 * _memory_of(rows, f"{one}1000") for one in ("D-C", "W-C")]
    return share_of(checks, "schemes whose memory grows by half with 100 counters")


def _shuffle_memory(rows: Rows) -> Judgement:
    return near(_memory_of(rows, "SG"), 23.16, within=0.3, same_side_of=1.0, spelled="{:.2f}x")


# Fig. 9, 10: execution time


def _real_points(setting: Setting) -> list[Row]:
    return [
        _point(scheme, setting.stream(name), n, labels={"label": scheme, "data": name})
        for name in ("AM", "MT")
        for n in setting.pick((16, 128), WORKERS)
        for scheme in setting.schemes("shuffle", "partial-key", "d-choices", "w-choices", "fish", "fill")
    ]


def _zipf_points(setting: Setting) -> list[Row]:
    return [
        _point(scheme, evolving(z, setting.pick(1e6, 5e6), seed), n, labels={"label": scheme, "z": z})
        for n in setting.pick((16, 128), WORKERS)
        for z in setting.pick((1.0, 2.0), SKEWS)
        for seed in range(1, setting.pick(1, 10) + 1)
        for scheme in setting.schemes(
            "shuffle", "partial-key", "d-choices", "w-choices", "fish", "fill", "key"
        )
    ]


def _near_shuffle(by: tuple[str, ...], limit: float) -> Any:
    def judged(rows: Rows) -> Judgement:
        own = [row["relative"] for row in relative(rows, "makespan", "shuffle", by) if row["label"] == "fish"]
        return at_most(max(own), limit, loosely=2 * limit, spelled="{:.3f}x")

    return judged


def _improvement(other: str, expected: float, by: tuple[str, ...]) -> Any:
    def judged(rows: Rows) -> Judgement:
        found = relative(rows, "makespan", "fish", by)
        best = max(row["relative"] for row in found if row["label"] == other)
        verdict = HOLDS if best >= 0.7 * expected else DIRECTION if best > 1.05 else DIFFERS
        return Judgement(verdict, f"{best:.2f}x")

    return judged


# Fig. 11, 20: memory


def _memory_points(setting: Setting) -> list[Row]:
    """Return the points of Fig. 20, and FISH from one source: the paper does not say how many there are."""
    alone = [
        _point("fish", evolving(z, setting.pick(1e6, 5e6), seed), 128, sources=1,
               labels={"label": ALONE, "z": z})
        for z in setting.pick((1.0, 2.0), SKEWS)
        for seed in range(1, setting.pick(1, 3) + 1)
    ]  # fmt: skip
    return [*_long_points(setting), *alone]


def _long_points(setting: Setting) -> list[Row]:
    """Return the points of Fig. 10, and all tuples of Table 2 as one stream: memory grows with its length."""
    together = [
        {
            "scheme": scheme,
            "stream": evolving(z, setting.pick(1e7, 5e7)),
            "workers": 128,
            "labels": {"label": f"{scheme}{TOGETHER}", "z": z},
        }
        for z in setting.pick((1.0, 2.0), SKEWS)
        for scheme in ("key", "shuffle", "fish")
    ]
    return [*_zipf_points(setting), *together]


def _relative_memory(rows: Rows, to: str) -> list[Row]:
    """Return pairs relative to those of ``to`` in runs as long."""
    parts = [[row for row in rows if row["label"].endswith(TOGETHER) == whole] for whole in (False, True)]
    by = ("workers", "z")
    return [
        row
        for part, base in zip(parts, (to, f"{to}{TOGETHER}"), strict=True)
        for row in relative(part, "replicas", base, by)
    ]


def _plot_memory(to: str, ylabel: str) -> Any:
    def plot(figure: Any, rows: Rows) -> None:
        found = _relative_memory(rows, to)
        lines(figure, found, x="z", y="relative", series="label", panels="workers", xlabel="skew z",
              ylabel=ylabel, logy=True)  # fmt: skip

    return plot


def _fish_memory(label: str) -> Callable[[Rows], Judgement]:
    def judged(rows: Rows) -> Judgement:
        own = [row["relative"] for row in _relative_memory(rows, "key") if row["label"] == label]
        spelled = f"{min(own):.2f}x to {{:.2f}}x"
        return at_most(max(own), 3.0, loosely=6.0, spelled=spelled)

    return judged


def _shuffle_range(rows: Rows) -> Judgement:
    found = _relative_memory(rows, "key")
    own = [row["relative"] for row in found if row["label"] == f"shuffle{TOGETHER}"]
    close = abs(max(own) / 88.32 - 1) <= 0.3 and abs(min(own) / 15.52 - 1) <= 0.3
    verdict = HOLDS if close else DIRECTION if min(own) > 3 else DIFFERS
    return Judgement(verdict, f"{min(own):.1f}x to {max(own):.1f}x")


def _of_shuffle(limit: float, skews: Sequence[float] = SKEWS) -> Callable[[Rows], Judgement]:
    def judged(rows: Rows) -> Judgement:
        found = select(_relative_memory(rows, "shuffle"), label=f"fish{TOGETHER}")
        worst = max(row["relative"] for row in found if row["z"] in skews)
        return at_most(worst, limit, loosely=3 * limit, spelled="{:.2%}")

    return judged


# Fig. 12-16: parameters and parts


def _variants(setting: Setting, variants: dict[str, Row], uneven: bool = False) -> list[Row]:
    """Return points of FISH with other parameters; ``uneven``: half of the workers are twice as fast.

    What FISH does by default is spelled with no parameters, so that all figures share it.
    """
    subjects = [(label, "fish", parameters) for label, parameters in variants.items()]
    subjects += [(name, name, {}) for name in setting.joining]
    points = [
        _point(scheme, evolving(z, setting.pick(1e6, 5e6), seed), n, parameters=parameters,
               labels={"label": label, "z": z})
        for n in setting.pick((64,), WORKERS)
        for z in setting.pick((1.0, 2.0), SKEWS)
        for seed in range(1, setting.pick(1, 3) + 1)
        for label, scheme, parameters in subjects
    ]  # fmt: skip
    for point in points if uneven else []:
        half = point["workers"] // 2
        point["queueing"] = point["queueing"] | {"capacity": f"{half}x2,{half}x1"}
    return points


def _decay_points(setting: Setting) -> list[Row]:
    values = setting.pick((0.0, 0.2, 1.0), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    return _variants(setting, {f"{value:g}": {"decay": value} if value != 0.2 else {} for value in values})


def _threshold_points(setting: Setting) -> list[Row]:
    factors = setting.pick((2.0, 0.25), (2.0, 1.0, 0.5, 0.25, 0.125))
    points = _variants(setting, {f"{factor:g}/n": {"factor": factor} for factor in factors})
    for point in points:
        factor = point.pop("parameters", {}).get("factor", 0.25)
        if factor != 0.25:
            point["parameters"] = {"theta": factor / point["workers"]}
    return points


def _plot_both(figure: Any, rows: Rows) -> None:
    settings = dict.fromkeys((row["label"], row["workers"], row["z"]) for row in rows)
    long = [
        {"label": label, "z": z, "panel": f"{name}, n = {n}",
         "value": _mean(rows, value, label=label, workers=n, z=z)}
        for value, name in (("makespan", "execution time, s"), ("memory", "pairs per key"))
        for label, n, z in settings
    ]  # fmt: skip
    lines(
        figure,
        long,
        x="z",
        y="value",
        series="label",
        panels="panel",
        xlabel="skew z",
        ylabel="value",
        own_scale=True,
    )


def _mean(rows: Rows, value: str, **where: Any) -> float:
    return fmean(row[value] for row in select(rows, **where))


def _worst(rows: Rows, workers: int, label: str, other: str) -> float:
    """Return the largest ratio of execution times of two variants, over the skews."""
    return max(
        _mean(rows, "makespan", label=label, workers=workers, z=z)
        / _mean(rows, "makespan", label=other, workers=workers, z=z)
        for z in {row["z"] for row in rows}
    )


def _no_decay_is_slow(rows: Rows) -> Judgement:
    n = max(row["workers"] for row in rows)
    worst = _worst(rows, n, "1", "0.2")
    return near(worst, 12.14, within=0.3, same_side_of=1.02, spelled="{:.2f}x")


def _forgetting_costs(rows: Rows) -> Judgement:
    n = max(row["workers"] for row in rows)
    ratio = _mean(rows, "memory", label="0", workers=n, z=1.0) / _mean(
        rows, "memory", label="0.2", workers=n, z=1.0
    )
    return near(ratio, 2.65, within=0.3, same_side_of=1.01, spelled="{:.2f}x")


def _only_the_largest(rows: Rows) -> Judgement:
    n = max(row["workers"] for row in rows)
    worst = _worst(rows, n, "2/n", "0.25/n")
    return at_least(worst, 1.1, loosely=1.01, spelled="2/n takes {:.3f} times as long as 1/(4n)")


def _epoch_points(setting: Setting) -> list[Row]:
    return _variants(setting, {"w/ epoch": {}, "w/o epoch": {"epochs": False}})


def _epochs_help(rows: Rows) -> Judgement:
    best = 0.0
    for n in {row["workers"] for row in rows}:
        for z in {row["z"] for row in rows}:
            own = _mean(rows, "makespan", label="w/ epoch", workers=n, z=z)
            best = max(best, _mean(rows, "makespan", label="w/o epoch", workers=n, z=z) / own)
    return near(best, 11.91, within=0.3, same_side_of=1.05, spelled="{:.2f}x")


def _choice_points(setting: Setting) -> list[Row]:
    return _variants(
        setting, {"CHK": {}, "w/ W-C": {"choices": "w-choices"}, "w/ D-C": {"choices": "d-choices"}}
    )


def _chk_saves(rows: Rows) -> Judgement:
    checks = []
    for n in {row["workers"] for row in rows}:
        for z in {row["z"] for row in rows}:
            own = _mean(rows, "memory", label="CHK", workers=n, z=z)
            checks.append(own <= _mean(rows, "memory", label="w/ W-C", workers=n, z=z) * 1.001)
    return share_of(checks, "settings where CHK needs no more memory than W-C's choices")


def _assignment_points(setting: Setting) -> list[Row]:
    return _variants(
        setting, {"w/ hwa": {"assignment": "backlog"}, "w/o hwa": {"assignment": "counts"}}, uneven=True
    )


def _assignment_helps(rows: Rows) -> Judgement:
    best = 0.0
    for n in {row["workers"] for row in rows}:
        for z in {row["z"] for row in rows}:
            own = _mean(rows, "makespan", label="w/ hwa", workers=n, z=z)
            best = max(best, _mean(rows, "makespan", label="w/o hwa", workers=n, z=z) / own)
    return near(best, 2.61, within=0.3, same_side_of=1.05, spelled="{:.2f}x")


# Fig. 17: churn


def _churn_points(setting: Setting) -> list[Row]:
    return [
        {"workers": n, "change": change, "z": z, "ring": ring, "messages": setting.pick(1_000_000, 5_000_000)}
        for n in setting.pick((64,), WORKERS)
        for change in (1, -1)
        for z in setting.pick((1.0, 2.0), SKEWS)
        for ring in (True, False)
    ]


def _measure_churn(workers: int, change: int, z: float, ring: bool, messages: int) -> list[Row]:
    events = [Rescale(at=messages // 2, workers=workers + change)]
    result = simulate(ef.scheme("fish", ring=ring), evolving(z, messages), workers=workers, events=events)
    return [
        {
            "workers": workers,
            "change": "add" if change > 0 else "remove",
            "z": z,
            "label": "w/ CH" if ring else "w/o CH",
            "memory": result.row()["memory"],
        }
    ]


def _plot_churn(figure: Any, rows: Rows) -> None:
    long = [{**row, "panel": f"{row['change']}, n = {row['workers']}"} for row in rows]
    lines(figure, long, x="z", y="memory", series="label", panels="panel", xlabel="skew z", ylabel="memory")


def _ring_saves(rows: Rows) -> Judgement:
    ratios = []
    for row in select(rows, label="w/ CH", z=1.0):
        other = pick(rows, label="w/o CH", z=1.0, workers=row["workers"], change=row["change"])
        ratios.append(other["memory"] / row["memory"])
    return near(min(ratios), 2.0, within=0.3, same_side_of=1.05, spelled="{:.2f}x")


# Fig. 18, 19: the cluster, as queues


def _cluster_points(setting: Setting) -> list[Row]:
    return [
        _point(scheme, setting.stream(name), 128, SOURCES, labels={"label": scheme, "data": name})
        for name in ("MT", "AM")
        for scheme in setting.schemes(
            "key", "partial-key", "d-choices", "w-choices", "shuffle", "fish", "fill"
        )
    ]


def _plot_cluster(value: str, label: str) -> Any:
    def plot(figure: Any, rows: Rows) -> None:
        groups(figure, rows, x="label", y=value, series="data", ylabel=label, logy=True)

    return plot


def _cut(value: str, expected: float) -> Any:
    def judged(rows: Rows) -> Judgement:
        cuts = []
        for name in ("MT", "AM"):
            other = pick(rows, label="w-choices", data=name)[value]
            cuts.append(1 - pick(rows, label="fish", data=name)[value] / max(other, 1e-12))
        best = max(cuts)
        verdict = HOLDS if best >= expected else DIRECTION if best > 0.05 else DIFFERS
        return Judgement(verdict, f"{-best:.0%}")

    return judged


def _faster_than(other: str, expected: float) -> Any:
    def judged(rows: Rows) -> Judgement:
        best = max(
            pick(rows, label="fish", data=name)["throughput"]
            / pick(rows, label=other, data=name)["throughput"]
            for name in ("MT", "AM")
        )
        verdict = HOLDS if best >= 0.85 * expected else DIRECTION if best > 1.02 else DIFFERS
        return Judgement(verdict, f"{best:.2f}x")

    return judged


def _table_points(setting: Setting) -> list[Row]:
    return [{"data": name, "stream": setting.stream(name)} for name in ("MT", "AM")]


_REPAIRED = (
    "D-C and W-C as we read them find the head with enough counters and repair what the published code gets "
    "wrong, so they lose far less to drift than in the paper."
)
_STAND_IN = "The stand-in streams drift and are skewed in other measures than the paper's."
_SOON = (
    "A key that becomes hot passes the threshold of 1/(4n) of all messages so far after a few percent of the "
    "stream and gets its workers then; the paper's factor is of the order of leaving it on two to the end."
)
_MISTAKEN = (
    "Three messages in an epoch of 1000 make a key hot at 128 workers (threshold 1/512), and each source "
    "errs with other keys. The paper does not say how many sources it simulates; with epochs of 10,000 runs "
    "of 5 M need 2.0x."
)
_GROWS = (
    "SG's memory grows with the messages per key, up to the paper's 50 M tuples; FISH's grows as well, by "
    "keys that are mistaken for hot ones (see Fig. 11)."
)
_RARE = "Many of the 10^5 keys come once or twice in a half, so they have few pairs to lose or to double."

_STILL_TWO = (
    "A key below 2/n still has two workers, which is enough for it; any above is hot under each threshold."
)

EXPERIMENTS = [
    Experiment(
        "evolving",
        "table2",
        "The streams",
        "Counted.",
        _table_points,
        measure_data,
        None,
        (
            Claim(
                "6.1",
                "sizes of MT and AM",
                "MT 49.21 M, 0.39 M keys; AM 7.91 M, 0.25 M keys",
                same_streams(MT=(49.21e6, 0.39e6, None), AM=(7.91e6, 0.25e6, None)),
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig2",
        "Latency on AM by the number of workers",
        SATURATED,
        _sketch_points,
        simulated,
        _plot_latency,
        (
            Claim(
                "2.3",
                "one or two workers per key give a high p99",
                "FG 3945 ms, PKG 2808 ms",
                _high_latency,
                _STAND_IN,
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig3",
        "Memory on AM by the number of workers",
        "Pairs per key.",
        _sketch_points,
        simulated,
        lambda figure, rows: lines(figure, rows, x="workers", y="memory", series="label", logy=True),
        (
            Claim(
                "2.3",
                "with 100 counters D-C and W-C cost nearly what SG costs",
                "D-C100, W-C100 like SG",
                _too_few_counters,
                _STAND_IN,
            ),
            Claim("2.3", "SG costs up to 23 times FG at 128 workers", "23.16x", _shuffle_memory, _STAND_IN),
        ),
    ),
    Experiment(
        "evolving",
        "fig4",
        "Fluctuation of a worker's speed",
        "A measurement of an engine: see the deployments on Spark.",
        lambda setting: [],
        simulated,
        None,
        (
            Claim(
                "3",
                "the same work takes the same time on a worker",
                "within 4.37 percent",
                lambda rows: at_most(max(row["change"] for row in rows), 0.0437, loosely=0.1),
                "no simulation can show how an engine's speed changes",
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig9",
        "Execution time relative to SG on AM and MT",
        SATURATED,
        _real_points,
        simulated,
        _plot_relative("makespan", "shuffle", "workers", "data", "execution time / SG's"),
        (
            Claim("6.2", "FISH is within 1.07 of SG", "1.07x", _near_shuffle(("workers", "data"), 1.07)),
            Claim(
                "6.2",
                "up to 8.32 times faster than PKG",
                "8.32x",
                _improvement("partial-key", 8.32, ("workers", "data")),
                _STAND_IN,
            ),
            Claim(
                "6.2",
                "up to 7.44 times faster than D-C",
                "7.44x",
                _improvement("d-choices", 7.44, ("workers", "data")),
                _REPAIRED,
            ),
            Claim(
                "6.2",
                "up to 6.95 times faster than W-C",
                "6.95x",
                _improvement("w-choices", 6.95, ("workers", "data")),
                _REPAIRED,
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig10",
        "Execution time relative to SG by skew",
        f"{SATURATED} {LAW}",
        _zipf_points,
        simulated,
        _plot_relative("makespan", "shuffle", "z", "workers", "execution time / SG's", logy=True),
        (
            Claim(
                "6.2",
                "FISH is within 1.32 of SG at any number of workers",
                "1.32x",
                _near_shuffle(("workers", "z"), 1.35),
            ),
            Claim(
                "6.2",
                "up to 13.57 times faster than D-C",
                "13.57x",
                _improvement("d-choices", 13.57, ("workers", "z")),
                _REPAIRED,
            ),
            Claim(
                "6.2",
                "up to 12.05 times faster than W-C",
                "12.05x",
                _improvement("w-choices", 12.05, ("workers", "z")),
                _REPAIRED,
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig11",
        "Memory relative to FG by skew",
        f"Pairs. Runs of 5 M; one stream: all 50 M tuples (a fifth of both at scale small). {LAW}",
        _memory_points,
        simulated,
        _plot_memory("key", "memory / FG's"),
        (
            Claim(
                "6.2",
                "FISH's memory is at most 2.61 times FG's (five sources)",
                "1.11x to 2.61x",
                _fish_memory("fish"),
                _MISTAKEN,
            ),
            Claim(
                "6.2",
                "the same from one source, at 128 workers",
                "1.11x to 2.61x",
                _fish_memory(ALONE),
                _MISTAKEN,
            ),
            Claim(
                "6.2",
                "the same of all tuples as one stream, at 128 workers",
                "1.11x to 2.61x",
                _fish_memory(f"fish{TOGETHER}"),
                _MISTAKEN,
            ),
            Claim(
                "6.2",
                "SG's is 15 to 88 times FG's at 128 workers (one stream)",
                "15.52x to 88.32x",
                _shuffle_range,
                "SG's memory grows with the messages per key: as the paper's only with its 50 M tuples",
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig12",
        "Decay: execution time and memory",
        f"{SATURATED} {LAW}",
        _decay_points,
        simulated,
        _plot_both,
        (
            Claim(
                "6.3",
                "without decay (1.0) execution takes much longer",
                "up to 12.14x",
                _no_decay_is_slow,
                _SOON,
            ),
            Claim(
                "6.3",
                "forgetting everything (0) costs memory at low skew",
                "2.65x at z = 1.0",
                _forgetting_costs,
                "a key that returns finds its old workers here: candidates are nested",
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig13",
        "Threshold: execution time and memory",
        f"{SATURATED} {LAW}",
        _threshold_points,
        simulated,
        _plot_both,
        (Claim("6.3", "only the threshold 2/n unbalances", "2/n", _only_the_largest, _STILL_TWO),),
    ),
    Experiment(
        "evolving",
        "fig14",
        "With and without epochs",
        f"{SATURATED} {LAW}",
        _epoch_points,
        simulated,
        _plot_both,
        (Claim("6.4", "epochs shorten execution", "up to 11.91x", _epochs_help, _SOON),),
    ),
    Experiment(
        "evolving",
        "fig15",
        "CHK against D-C's and W-C's choices",
        f"{SATURATED} {LAW}",
        _choice_points,
        simulated,
        _plot_both,
        (Claim("6.4", "CHK needs less memory than W-C's choices", "less", _chk_saves),),
    ),
    Experiment(
        "evolving",
        "fig16",
        "With and without heuristic worker assignment",
        f"Half of the workers twice as fast. {SATURATED} {LAW}",
        _assignment_points,
        simulated,
        _plot_both,
        (
            Claim(
                "6.4",
                "inferring backlogs shortens execution where workers differ",
                "up to 2.61x",
                _assignment_helps,
                "where half of the workers are twice as fast, equal shares cost 1.5 times at most",
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig17",
        "A worker more or less at half, with and without consistent hashing",
        LAW,
        _churn_points,
        _measure_churn,
        _plot_churn,
        (
            Claim(
                "6.5", "without consistent hashing memory doubles at low skew", "about 2x", _ring_saves, _RARE
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig18",
        "Latency, 128 workers, 32 sources",
        f"{SATURATED} The paper ran Storm.",
        _cluster_points,
        simulated,
        _plot_cluster("latency_p99", "p99 of latency, s"),
        (
            Claim(
                "6.6",
                "FISH's mean latency is far below W-C's",
                "-87.12 percent",
                _cut("latency_mean", 0.87),
                _REPAIRED,
            ),
            Claim(
                "6.6", "FISH's p99 is far below W-C's", "-76.34 percent", _cut("latency_p99", 0.76), _REPAIRED
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig19",
        "Throughput, 128 workers, 32 sources",
        f"{SATURATED} The paper ran Storm.",
        _cluster_points,
        simulated,
        _plot_cluster("throughput", "messages per second"),
        (
            Claim(
                "6.6",
                "FISH's throughput is 1.32 times W-C's",
                "1.32x",
                _faster_than("w-choices", 1.32),
                _REPAIRED,
            ),
            Claim(
                "6.6",
                "FISH's throughput is 1.48 times D-C's",
                "1.48x",
                _faster_than("d-choices", 1.48),
                _REPAIRED,
            ),
        ),
    ),
    Experiment(
        "evolving",
        "fig20",
        "Memory relative to SG by skew",
        f"Pairs. Runs of 5 M; one stream: all 50 M tuples (a fifth of both at scale small). {LAW}",
        _long_points,
        simulated,
        _plot_memory("shuffle", "memory / SG's"),
        (
            Claim(
                "6.6",
                "at z = 1.0 FISH's memory is 3.34 percent of SG's (one stream)",
                "3.34 percent",
                _of_shuffle(0.0334, [1.0]),
                _GROWS,
            ),
            Claim(
                "6.6",
                "always below 16 percent of SG's (one stream)",
                "< 16 percent",
                _of_shuffle(0.16),
                _GROWS,
            ),
        ),
    ),
]
