"""Fig. 7, 8 and 11-14 of `heterogeneous`: queues, latency and utilisation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

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
    share_of,
)
from evenflow.papers.heterogeneous.common import (
    LAW,
    SCHEMES,
    VIRTUAL_WORKERS,
    WP_MESSAGES,
    by_symbol,
    pages,
)
from evenflow.papers.plots import lines
from evenflow.simulator import Capacities, Queueing, simulate
from evenflow.simulator.prescan import survey
from evenflow.simulator.result import plain
from evenflow.streams import open_stream
from evenflow.streams.sample import take_sample

SLOT = 100  # messages per worker
WP_RATE = 10_817.0
EQUAL = "10x1"
UNEQUAL = "3x5,7x1"
CHANGES = [[6_000_000, "3x1,3x5,4x1"], [12_000_000, "7x1,3x5"]]
EVEN = 0.15  # utilisation spread of workers that are balanced
CLUSTER_RATE = 0.8 * 24_000  # messages per second: 24 equal workers of 1 ms run at 80 percent
LONGEST_DELAY = 1.0  # ms, the paper's
LONG_SLOTS = "CG, ten times longer slots"

# Over time: spreads of queue, latency and utilisation (Fig. 7, 8, 11, 12)


def measure_time(
    symbol: str,
    stream: str,
    capacity: str,
    virtual_workers: int = VIRTUAL_WORKERS,
    changes: list[Any] | None = None,
    marks: int = 100,
) -> list[Row]:
    """Queue a stream at ten workers; one row per mark. ``changes``: capacities from a message of WP on."""
    scheme = SCHEMES.get(symbol, symbol)
    parameters = {"virtual_workers": virtual_workers} if scheme == "consistent" else {}
    opened = open_stream(stream)
    messages = survey(opened, counts=False, seconds=False).messages
    places = change_places(changes or [], messages)
    result = simulate(
        ef.scheme(scheme, **parameters),
        opened,
        workers=10,
        sources=1,
        queueing=Queueing(rate=WP_RATE, capacity=capacity, load=0.8),
        events=[Capacities(at, spec) for at, spec in places],
        marks=marks,
    )
    same = {"symbol": symbol, "virtual_workers": virtual_workers, "changed_at": [at for at, _ in places]}
    kept = ("messages", "queue_spread", "latency_spread", "utilisation_spread", "utilisation_mean")
    return [{**same, **{name: mark[name] for name in kept}} for mark in plain(result.table().to_pylist())]


def change_places(changes: list[Any], messages: int) -> list[tuple[int, str]]:
    """Return before which message capacities change: as in WP, or after the same share of a shorter stream.

    >>> change_places([[6_000_000, "1x2,9x1"]], 2_200_000)
    [(600000, '1x2,9x1')]
    """
    return [(min(at, at * messages // WP_MESSAGES), spec) for at, spec in changes]


def _time_points(setting: Setting) -> list[Row]:
    return [
        {"symbol": symbol, "stream": stream, "capacity": EQUAL, "labels": {"data": name, "series": symbol}}
        for name, stream in pages(setting)
        for symbol in setting.schemes("KG", "CG", "SG")
    ]


def _unequal_points(setting: Setting) -> list[Row]:
    shown = [
        {
            "symbol": symbol,
            "stream": stream,
            "capacity": UNEQUAL,
            "labels": {"data": name, "series": symbol, "faster": 3, "times": 5},
        }
        for name, stream in pages(setting)
        for symbol in setting.schemes("KG", "CG", "SG")
    ]
    grid = setting.pick([(1, 10), (9, 2)], [(y, z) for y in (1, 3, 5, 7, 9) for z in (2, 5, 10)])
    others = [
        {
            "symbol": symbol,
            "stream": setting.stream("WP"),
            "capacity": f"{y}x{z},{10 - y}x1",
            "marks": 20,
            "labels": {"data": "WP", "series": symbol, "faster": y, "times": z},
        }
        for y, z in grid
        if (y, z) != (3, 5)
        for symbol in setting.schemes("KG", "CG", "SG")
    ]
    return shown + others


def _virtual_points(setting: Setting) -> list[Row]:
    return [
        {
            "symbol": "CG",
            "stream": stream,
            "capacity": UNEQUAL,
            "virtual_workers": alpha,
            "labels": {"data": name, "series": f"{alpha} virtual workers"},
        }
        for name, stream in pages(setting)
        for alpha in setting.pick((5, 10, 20, 100, 1000), (5, 10, 20, 50, 100, 1000))
    ]


def _change_points(setting: Setting) -> list[Row]:
    points = []
    for name, stream in pages(setting):
        for symbol in setting.schemes("KG", "SG", "CG"):
            for alpha in (10, 100) if symbol == "CG" else (VIRTUAL_WORKERS,):
                series = f"CG, {alpha} virtual workers" if symbol == "CG" else symbol
                points.append(
                    {
                        "symbol": symbol,
                        "stream": stream,
                        "capacity": UNEQUAL,
                        "virtual_workers": alpha,
                        "changes": CHANGES,
                        "labels": {"data": name, "series": series},
                    }
                )
    return points


def _plot_time(figure: Any, rows: Rows) -> None:
    """Draw the three spreads over the messages; queue and latency on a log axis (0 as 1 and 1 ms)."""
    own = [row for row in rows if (row.get("faster", 3), row.get("times", 5)) == (3, 5)]
    several = len({row["data"] for row in own}) > 1
    parts = (
        ("queue_spread", "queue length, max - min", 1.0),
        ("latency_spread", "latency in s, max - min", 1e-3),
        ("utilisation_spread", "utilisation, max - min", 0.0),
    )
    long = [
        {
            "messages": row["messages"],
            "series": row["series"],
            "panel": name + (f", {row['data']}" if several else ""),
            "value": None if row[key] is None else max(row[key], least),
        }
        for data in dict.fromkeys(row["data"] for row in own)
        for key, name, least in parts
        for row in own
        if row["data"] == data
    ]
    lines(
        figure,
        long,
        x="messages",
        y="value",
        series="series",
        panels="panel",
        logy={row["panel"] for row in long if "utilisation" not in row["panel"]},
        own_scale=True,
        markers=False,
        xlabel="messages",
        ylabel=" ",
    )


def _runs(rows: Rows) -> list[dict[str, list[Row]]]:
    """Return the marks by series of every data set, of the cluster that the figures show."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if (row.get("faster", 3), row.get("times", 5)) == (3, 5):
            found.setdefault(row["data"], {}).setdefault(row["series"], []).append(row)
    return list(found.values())


def _late(run: Rows, key: str) -> float:
    """Return the mean of a spread over the second half of a run."""
    found = [row[key] for row in run[len(run) // 2 :] if row[key] is not None]
    return float(np.mean(found))


def _grow(*symbols: str) -> Callable[[Rows], Judgement]:
    def judged(rows: Rows) -> Judgement:
        checks = [
            run[-1][key] >= 2 * run[len(run) // 4 - 1][key]
            for runs in _runs(rows)
            for run in (runs[symbol] for symbol in symbols)
            for key in ("queue_spread", "latency_spread")
        ]
        return share_of(checks, f"spreads of {' and '.join(symbols)} that double after a quarter of the run")

    return judged


def _cg_stays_low(*others: str) -> Callable[[Rows], Judgement]:
    def judged(rows: Rows) -> Judgement:
        ratios = [
            _late(runs["CG"], key) / max(_late(runs[other], key), 1e-12)
            for runs in _runs(rows)
            for other in others
            for key in ("queue_spread", "latency_spread")
        ]
        found = at_most(max(ratios), 0.2, loosely=0.8)
        return Judgement(found.verdict, f"at most {max(ratios):.3g} of {' and '.join(others)}")

    return judged


def _cg_is_even(*others: str) -> Callable[[Rows], Judgement]:
    def judged(rows: Rows) -> Judgement:
        mine = max(_late(runs["CG"], "utilisation_spread") for runs in _runs(rows))
        theirs = min(_late(runs[other], "utilisation_spread") for runs in _runs(rows) for other in others)
        verdict = HOLDS if mine <= 0.1 < theirs else DIRECTION if mine <= theirs / 2 else DIFFERS
        return Judgement(verdict, f"CG {mine:.3f}, {' and '.join(others)} at least {theirs:.3f}")

    return judged


def _everywhere_alike(rows: Rows) -> Judgement:
    """CG's last queue spread a fifth of KG's, and of SG's wherever SG overloads the slower machines."""
    groups: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:  # later marks replace earlier ones
        groups.setdefault((row["data"], row["faster"], row["times"]), {})[row["symbol"]] = row
    checks = []
    for (_, faster, times), own in groups.items():
        slow_under_shuffle = 0.8 * (faster * times + 10 - faster) / 10
        others = ["KG", "SG"] if slow_under_shuffle > 1 else ["KG"]
        checks += [own["CG"]["queue_spread"] <= own[other]["queue_spread"] / 5 for other in others]
    return share_of(checks, f"comparisons in {len(groups)} clusters with CG's last queue spread a fifth")


def settled_at(run: Rows) -> float:
    """Return after how many messages the utilisation spread is below 0.15 for good; infinity if never."""
    late = [row["messages"] for row in run if row["utilisation_spread"] >= EVEN]
    if not late:
        return float(run[0]["messages"])
    after = [row["messages"] for row in run if row["messages"] > max(late)]
    return float(after[0]) if after else float("inf")


def _late_by_alpha(rows: Rows, key: str) -> list[dict[int, float]]:
    return [{run[0]["virtual_workers"]: _late(run, key) for run in runs.values()} for runs in _runs(rows)]


def _five_are_too_few(rows: Rows) -> Judgement:
    ratio = min(own[5] / own[100] for own in _late_by_alpha(rows, "queue_spread"))
    return at_least(ratio, 2, loosely=1.1, spelled="queue spread {:.1f} times that of 100")


def _ten_like_twenty(rows: Rows) -> Judgement:
    ratios = [own[10] / own[20] for own in _late_by_alpha(rows, "queue_spread")]
    worst = max(max(ratio, 1 / ratio) for ratio in ratios)
    return at_most(worst, 2, loosely=10, spelled="queue spreads within {:.2f} times")


def _hundred_is_best(rows: Rows) -> Judgement:
    worst = max(own[100] / min(own.values()) for own in _late_by_alpha(rows, "queue_spread"))
    best = [min(own, key=lambda alpha: own[alpha]) for own in _late_by_alpha(rows, "queue_spread")]
    found = at_most(worst, 1.1, loosely=2)
    return Judgement(
        found.verdict, f"{worst:.2f} times the least queue spread, which {', '.join(map(str, best))} has"
    )


def _thousand_is_slow(rows: Rows) -> Judgement:
    verdicts, parts = [], []
    for runs in _runs(rows):
        places = {run[0]["virtual_workers"]: settled_at(run) for run in runs.values()}
        verdicts.append(places[1000] >= 2 * places[100])
        parts.append(f"{_messages(places[1000])} against {_messages(places[100])}")
    return Judgement(HOLDS if all(verdicts) else DIFFERS, "even after " + "; ".join(parts))


def _messages(count: float) -> str:
    return "never" if np.isinf(count) else f"{count:,.0f} messages"


# Fig. 12: capacities change


def recovery(run: Rows) -> list[tuple[float, float]]:
    """Return, per change, the slots until the spread stays below 0.15, and the largest one after 20 alpha.

    A mark tells of the time since the mark before; after the deadline count marks whose time begins there. A
    change whose deadline lies beyond the next change (or the end) is left out.
    """
    slot = 10 * SLOT
    step = run[1]["messages"] - run[0]["messages"]
    places = [*run[0]["changed_at"], run[-1]["messages"]]
    found = []
    for at, end in pairwise(places):
        deadline = at + 20 * run[0]["virtual_workers"] * slot
        own = [row for row in run if at < row["messages"] <= end]
        after = [row["utilisation_spread"] for row in own if row["messages"] - step >= deadline]
        if after:
            found.append(((settled_at(own) - at) / slot, max(after)))
    return found


def _adapts(rows: Rows) -> Judgement:
    parts, checks = [], []
    for runs in _runs(rows):
        for run in runs.values():
            if run[0]["symbol"] == "CG":
                alpha = run[0]["virtual_workers"]
                for slots, spread in recovery(run):
                    checks.append(spread < EVEN)
                    parts.append(f"{slots:.0f} of {20 * alpha} slots, then at most {spread:.3f}")
    return Judgement(share_of(checks, "").verdict, "; ".join(parts))


def _ends_with_a_fifth(rows: Rows) -> Judgement:
    ratios = []
    for runs in _runs(rows):
        others = min(runs[name][-1]["queue_spread"] for name in ("KG", "SG"))
        ratios += [run[-1]["queue_spread"] / others for run in runs.values() if run[0]["symbol"] == "CG"]
    return at_most(max(ratios), 0.2, loosely=0.8, spelled="{:.2g} of theirs")


# Fig. 13, 14: the cluster, as queues


def _cluster_points(capacity: str) -> Callable[[Setting], list[Row]]:
    def points(setting: Setting) -> list[Row]:
        return [
            {
                "symbol": symbol,
                "stream": setting.stream("TW"),
                "messages": setting.pick(10**6, None),
                "capacity": capacity,
                "delay": delay,
            }
            for delay in setting.pick(
                (0.1, 0.5, 1.0, 1.25), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25)
            )
            for symbol in setting.schemes("KG", "PKG", "CG", "SG", LONG_SLOTS)
        ]

    return points


def measure_cluster(symbol: str, stream: str, messages: int | None, capacity: str, delay: float) -> list[Row]:
    """Queue TW at 24 workers of ``delay`` ms per message, from 8 sources."""
    long = symbol == LONG_SLOTS
    scheme = ef.scheme("consistent", slot=10 * SLOT) if long else ef.scheme(SCHEMES.get(symbol, symbol))
    sample = take_sample(open_stream(stream), messages)
    result = simulate(
        scheme,
        sample,
        workers=24,
        sources=8,
        queueing=Queueing(
            rate=CLUSTER_RATE,
            capacity=capacity,
            load=None,
            cost=delay / 1000,
            warm_up=sample.messages // 2,
        ),
    )
    row = result.row()
    kept = ("throughput", "latency_mean", "latency_p99", "memory", "max_over_mean")
    return [{"symbol": symbol, "delay": delay, **{name: row[name] for name in kept}}]


def _plot_cluster(figure: Any, rows: Rows) -> None:
    parts = (("throughput", "messages per second"), ("latency_mean", "mean latency in s"))
    long = [
        {"delay": row["delay"], "symbol": row["symbol"], "panel": name, "value": row[key]}
        for key, name in parts
        for row in rows
    ]
    lines(
        figure,
        long,
        x="delay",
        y="value",
        series="symbol",
        panels="panel",
        logy={"mean latency in s"},
        own_scale=True,
        xlabel="delay per message, ms",
        ylabel=" ",
    )


def _by_delay(rows: Rows) -> list[dict[str, Row]]:
    """Return the rows by symbol of every delay of the paper's range, shortest first."""
    return by_symbol([row for row in rows if row["delay"] <= LONGEST_DELAY], "delay")


def _superior_to_key(rows: Rows) -> Judgement:
    own = _by_delay(rows)[-1]
    ratios = {name: own[name]["throughput"] / own["KG"]["throughput"] for name in ("PKG", "SG", "CG")}
    latencies = [own["KG"]["latency_mean"] / own[name]["latency_mean"] for name in ratios]
    verdict = HOLDS if min(ratios.values()) > 1.05 and min(latencies) > 1.05 else DIFFERS
    text = ", ".join(f"{name} {ratio:.2f}x" for name, ratio in ratios.items())
    return Judgement(
        verdict, f"throughput {text} of KG's at 1 ms; latency {1 / min(latencies):.2g} of it at most"
    )


def _memory_order(rows: Rows) -> Judgement:
    own = _by_delay(rows)[-1]
    memory = {name: own[name]["memory"] for name in ("KG", "PKG", "CG", "SG", LONG_SLOTS)}
    small = max(memory["PKG"], memory["CG"])
    alike = max(memory["PKG"] / memory["CG"], memory["CG"] / memory["PKG"]) <= 1.25
    ordered = memory["KG"] <= min(memory["PKG"], memory["CG"]) and small < memory["SG"]
    verdict = HOLDS if ordered and alike else DIRECTION if ordered else DIFFERS
    return Judgement(verdict, ", ".join(f"{name} {value:.2f}" for name, value in memory.items()), _PAIRS)


def _best(quantity: str) -> Callable[[Rows], Judgement]:
    """Judge CG's best advantage over KG; abstract and text exchange 2 and 3.44, so both are tested at 2.

    Twice the larger of the two is another magnitude.
    """

    def judged(rows: Rows) -> Judgement:
        ratios = []
        for own in _by_delay(rows):
            ratio = own["CG"][quantity] / own["KG"][quantity]
            ratios.append(1 / ratio if quantity == "latency_mean" else ratio)
        best = max(ratios)
        verdict = HOLDS if 2 <= best <= 2 * 3.44 else DIRECTION if best > 1.05 else DIFFERS
        return Judgement(verdict, f"{best:.3g}x", _OPEN)

    return judged


def _outperforms(rows: Rows) -> Judgement:
    checks = []
    for own in _by_delay(rows):
        for other in ("KG", "PKG", "SG"):
            checks.append(own["CG"]["throughput"] >= 0.98 * own[other]["throughput"])
            checks.append(own["CG"]["latency_mean"] <= 1.02 * own[other]["latency_mean"])
    return share_of(checks, "comparisons of throughput and latency with KG, PKG and SG")


_SHORT = "The stand-in for WP is twelve times shorter than WP."
_MEASURED = f"Queueing model at 80 percent of all capacity, ten workers, one source. {LAW}"
_OWN = "Which number fits best depends on the capacities' ratio and on how a worker's signals are paired."
_CLUSTER = (
    "Queueing model: 8 sources, 24 workers; equal ones run at 80 percent at 1 ms, the longest delay; claims "
    "are judged up to there. At 1.25 ms all are busy, CG's signals tell no worker from another, and CG is "
    "behind PKG and SG, in Fig. 14 behind all. Throughput: messages over the time until all are done; "
    "latency: of the second half. The paper ran Storm."
)
_PAIRS = (
    "The paper's percentages include the engine, here memory is (key, worker) pairs per key; a virtual "
    "worker that moves leaves its keys' state behind, and short slots move more of them by chance."
)
_OPEN = (
    "Arrivals do not slow down in the queueing model, so an overloaded worker's latency grows with the run, "
    "where the paper's engine holds the sources back."
)


EXPERIMENTS = [
    Experiment(
        "heterogeneous",
        "fig7",
        "Equal workers over time",
        _MEASURED,
        _time_points,
        measure_time,
        _plot_time,
        (
            Claim("7.2 Q2", "KG's queue and latency spreads grow over time", "grow", _grow("KG")),
            Claim("7.2 Q2", "CG keeps both very low", "far below KG's", _cg_stays_low("KG")),
            Claim(
                "7.2 Q2", "CG's utilisation spread is close to zero", "KG positive, CG 0", _cg_is_even("KG")
            ),
        ),
    ),
    Experiment(
        "heterogeneous",
        "fig8",
        "Unequal workers over time",
        f"Three of ten workers five times faster; the table also has others (y faster, z times). {_MEASURED}",
        _unequal_points,
        measure_time,
        _plot_time,
        (
            Claim("7.2 Q2", "queue and latency spreads grow for KG and SG", "grow", _grow("KG", "SG")),
            Claim("7.2 Q2", "CG's are lower", "far below", _cg_stays_low("KG", "SG")),
            Claim(
                "7.2 Q2",
                "CG's utilisation spread is close to zero, KG's and SG's are high",
                "0 against high",
                _cg_is_even("KG", "SG"),
            ),
            Claim(
                "7.2 Q2",
                "all y from 1 to n - 1 and z from 2 to 10 behave alike",
                "alike",
                _everywhere_alike,
            ),
        ),
    ),
    Experiment(
        "heterogeneous",
        "fig11",
        "Unequal workers over time, by CG's virtual workers",
        f"Three of ten workers five times faster. {_MEASURED}",
        _virtual_points,
        measure_time,
        _plot_time,
        (
            Claim(
                "7.2 Q3", "5 virtual workers are too few", "not the desired result", _five_are_too_few, _OWN
            ),
            Claim("7.2 Q3", "10 and 20 are alike", "similar", _ten_like_twenty, _OWN),
            Claim("7.2 Q3", "100 are best", "best", _hundred_is_best, _OWN),
            Claim("7.2 Q3", "1000 take longer to converge than 100", "longer", _thousand_is_slow, _SHORT),
        ),
    ),
    Experiment(
        "heterogeneous",
        "fig12",
        "Capacities that change",
        "Three of ten workers five times faster, other three from 6 M and from 12 M messages of 22 M on. "
        f"{_MEASURED}",
        _change_points,
        measure_time,
        _plot_time,
        (
            Claim(
                "7.2 Q3",
                "CG adapts to a change: utilisation spread below 0.15 from 20 alpha slots on",
                "very efficiently",
                _adapts,
            ),
            Claim(
                "7.2 Q3",
                "CG's last queue spread is at most a fifth of KG's and of SG's",
                "far below",
                _ends_with_a_fifth,
            ),
        ),
    ),
    Experiment(
        "heterogeneous",
        "fig13",
        "Throughput and latency on equal workers",
        f"{_CLUSTER} {LAW}",
        _cluster_points("24x1"),
        measure_cluster,
        _plot_cluster,
        (
            Claim("7.2 Q4", "PKG, SG and CG outdo KG in throughput and latency", "better", _superior_to_key),
            Claim(
                "7.2 Q4",
                "memory of the cluster: KG 7, PKG and CG 8.5, SG 14 percent",
                "KG < PKG = CG < SG",
                _memory_order,
                _PAIRS,
            ),
        ),
    ),
    Experiment(
        "heterogeneous",
        "fig14",
        "Throughput and latency with two of 24 workers at 30 percent",
        f"{_CLUSTER} {LAW}",
        _cluster_points("2x0.3,22x1"),
        measure_cluster,
        _plot_cluster,
        (
            Claim("7.2 Q4", "CG outperforms KG, PKG and SG in both", "all", _outperforms, _OPEN),
            Claim(
                "7.2 Q4",
                "throughput up to 3.44 times KG's (abstract: 2)",
                ">= 2x",
                _best("throughput"),
                _OPEN,
            ),
            Claim(
                "7.2 Q4",
                "latency up to 2 times better than KG's (abstract: 3.44)",
                ">= 2x",
                _best("latency_mean"),
                _OPEN,
            ),
        ),
    ),
]
