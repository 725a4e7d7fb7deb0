"""Fig. 7, 8 and 11-14 of `heterogeneous`: queues, latency and utilisation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import evenflow as ef
from evenflow.papers import rules as r
from evenflow.papers.experiment import Claim, Experiment, Row, RunConfig
from evenflow.papers.figures import Lines
from evenflow.papers.grid import at, grid, joined, on_stream, schemes, streams
from evenflow.papers.heterogeneous.loads import PAGES, SCHEMES, TWEETS, VIRTUAL_WORKERS, WP_MESSAGES, WP_RATE
from evenflow.papers.table import Table
from evenflow.simulator import Capacities, Queueing, simulate
from evenflow.simulator.prescan import survey
from evenflow.simulator.result import plain
from evenflow.streams import open_stream
from evenflow.streams.sample import take_sample

SLOT = 100  # messages per worker
EQUAL = "10x1"
UNEQUAL = "3x5,7x1"
SHOWN = (3, 5)  # faster workers, times
SPREADS = ("queue_spread", "latency_spread")
CHANGES = [[6_000_000, "3x1,3x5,4x1"], [12_000_000, "7x1,3x5"]]
EVEN = 0.15  # utilisation spread of workers that are balanced
CLUSTER_RATE = 0.8 * 24_000  # messages per second: 24 equal workers of 1 ms run at 80 percent
LONGEST_DELAY = 1.0  # ms, the paper's
SLOW = 0.3  # of the capacity that two of Fig. 14's workers have
BINARY = {"CG, binary signals": 100, "CG, binary signals, slots of 1000": 1000}  # as in the paper

# Over time: spreads of queue, latency and utilisation (Fig. 7, 8, 11, 12)


def measure_time(
    symbol: str, stream: str, capacity: str, virtual_workers: int = VIRTUAL_WORKERS,
    changes: list[Any] | None = None, marks: int = 100,
) -> list[Row]:  # fmt: skip
    """Queue a stream at ten workers; one row per mark. ``changes``: capacities from a message of WP on."""
    scheme = SCHEMES.get(symbol, symbol)
    parameters = {"virtual_workers": virtual_workers} if scheme == "consistent" else {}
    opened = open_stream(stream)
    messages = survey(opened, counts=False, seconds=False).messages
    changed = scaled_changes(changes or [], messages)
    result = simulate(
        ef.scheme(scheme, **parameters),
        opened,
        workers=10,
        sources=1,
        queueing=Queueing(rate=WP_RATE, capacity=capacity, load=0.8),
        events=[Capacities(message, spec) for message, spec in changed],
        marks=marks,
    )
    same = {"symbol": symbol, "virtual_workers": virtual_workers, "changed_at": [at for at, _ in changed]}
    kept = ("messages", "queue_spread", "latency_spread", "utilisation_spread", "utilisation_mean")
    return [{**same, **{name: mark[name] for name in kept}} for mark in plain(result.table().to_pylist())]


def scaled_changes(changes: list[Any], messages: int) -> list[tuple[int, str]]:
    """Return before which message capacities change: as in WP, or after the same share of a shorter stream.

    >>> scaled_changes([[6_000_000, "1x2,9x1"]], 2_200_000)
    [(600000, '1x2,9x1')]
    """
    return [(min(message, message * messages // WP_MESSAGES), spec) for message, spec in changes]


def measure_cluster(symbol: str, stream: str, messages: int | None, capacity: str, delay: float) -> list[Row]:
    """Queue TW at 24 workers of ``delay`` ms per message, from 8 sources."""
    if symbol in BINARY:
        scheme = ef.scheme("consistent", slot=BINARY[symbol], certainty=0.0, patience=1)
    else:
        scheme = ef.scheme(SCHEMES.get(symbol, symbol))
    sample = take_sample(open_stream(stream), messages)
    half = sample.messages // 2
    queueing = Queueing(rate=CLUSTER_RATE, capacity=capacity, load=None, cost=delay / 1000, warm_up=half)
    row = simulate(scheme, sample, workers=24, sources=8, queueing=queueing).row()
    kept = ("throughput", "latency_mean", "latency_p99", "memory", "max_over_mean")
    return [{"symbol": symbol, "delay": delay, **{name: row[name] for name in kept}}]


# Points


def _time_point(
    data: tuple[str, str], capacity: str, symbol: str = "", subject: tuple[str, str, int] | None = None,
    **point: Any,
) -> Row:  # fmt: skip
    """Return the point of a scheme, or of a subject: scheme, name of its line, virtual workers."""
    name, stream = data
    if subject:
        symbol, series, point["virtual_workers"] = subject
    labels = {"data": name, "series": series if subject else symbol}
    return {"symbol": symbol, "stream": stream, "capacity": capacity, **point, "labels": labels}


def _unequal_point(cluster: tuple[int, int], **point: Any) -> Row:
    """Return the point of a cluster: so many faster workers, so many times faster."""
    faster, times = cluster
    found = _time_point(capacity=f"{faster}x{times},{10 - faster}x1", **point)
    return found | {"labels": found["labels"] | {"faster": faster, "times": times}}


def _change_subjects(config: RunConfig) -> list[tuple[str, str, int]]:
    others = [(name, name, VIRTUAL_WORKERS) for name in config.schemes("KG", "SG")]
    return others + [("CG", f"CG, {alpha} virtual workers", alpha) for alpha in (10, 100)]


def _virtual_subjects(config: RunConfig) -> list[tuple[str, str, int]]:
    alphas = config.pick((5, 10, 20, 100, 1000), (5, 10, 20, 50, 100, 1000))
    return [("CG", f"{alpha} virtual workers", alpha) for alpha in alphas]


def _cluster_points(capacity: str) -> Callable[[RunConfig], list[Row]]:
    delays = at((0.1, 0.5, 1.0, 1.25), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25))
    return grid(on_stream, data=streams(*TWEETS), messages=at(10**6, None), capacity=capacity, delay=delays,
                symbol=schemes("KG", "PKG", "CG", "SG", *BINARY))  # fmt: skip


_TIMED = schemes("KG", "CG", "SG")
_OTHER_CLUSTERS = [(y, z) for y in (1, 3, 5, 7, 9) for z in (2, 5, 10) if (y, z) != SHOWN]
_UNEQUAL_POINTS = joined(
    grid(_unequal_point, data=streams(*PAGES), cluster=[SHOWN], symbol=_TIMED),
    grid(_unequal_point, data=streams("WP"), cluster=at([(1, 10), (9, 2)], _OTHER_CLUSTERS), marks=20,
         symbol=_TIMED),
)  # fmt: skip


# Over time


def _shown(t: Table) -> Table:
    """Return the rows of the cluster that the figures show."""
    return t.only(faster=SHOWN[0], times=SHOWN[1]) if "faster" in t else t


def _runs(t: Table) -> list[dict[str, Table]]:
    """Return the marks by series of every data set."""
    parts = [part for _, part in _shown(t).groupby("data", sort=False)]
    return [{name: Table(run) for name, run in part.groupby("series", sort=False)} for part in parts]


def _late(t: Table, column: str, by: str = "series") -> Any:
    """Return the means of a spread over the second half of every run: a row per data set."""
    runs = _shown(t).groupby(["data", by], sort=False)[column]
    late = _shown(t)[runs.cumcount() >= runs.transform("size") // 2]
    return late.groupby(["data", by], sort=False)[column].mean().unstack(by)


def _grow(*symbols: str) -> r.Rule:
    def doubled(t: Table) -> list[bool]:
        runs = [runs[symbol][column] for runs in _runs(t) for symbol in symbols for column in SPREADS]
        return [run.iloc[-1] >= 2 * run.iloc[len(run) // 4 - 1] for run in runs]

    return r.each(doubled, f"spreads of {' and '.join(symbols)} that double after a quarter of the run")


def _stays_low(*others: str) -> r.Rule:
    def ratios(t: Table) -> float:
        late = [_late(t, column) for column in SPREADS]
        return max((own["CG"] / own[other].clip(lower=1e-12)).max() for own in late for other in others)

    return r.at_most(ratios, 0.01, 0.2, f"at most {{:.3g}} of {' and '.join(others)}")


def _is_even(*others: str) -> r.Rule:
    def spreads(t: Table) -> tuple[float, float]:
        late = _late(t, "utilisation_spread")
        return late["CG"].max(), late[list(others)].min().min()

    return r.graded(spreads, lambda mine, theirs: mine <= 0.1 < theirs,
                    lambda mine, theirs: mine <= theirs / 2,
                    f"CG {{:.3f}}, {' and '.join(others)} at least {{:.3f}}")  # fmt: skip


def _clusters(t: Table) -> Table:
    """Return the last queue spreads, by data set and cluster."""
    last = t.groupby(["data", "faster", "times", "symbol"], sort=False).tail(1)
    return Table(last).wide("queue_spread", "data", "faster", "times")


def _everywhere_alike(t: Table) -> list[bool]:
    """Check that CG's is a fifth of KG's, and of SG's wherever SG overloads the slower machines."""
    checks = []
    for (_, faster, times), own in _clusters(t).iterrows():
        slow_under_shuffle = 0.8 * (faster * times + 10 - faster) / 10
        others = ["KG", "SG"] if slow_under_shuffle > 1 else ["KG"]
        checks += [own["CG"] <= own[other] / 5 for other in others]
    return checks


def settled_at(run: Table) -> float:
    """Return after how many messages the utilisation spread is below 0.15 for good; infinity if never."""
    uneven = run["messages"][run["utilisation_spread"] >= EVEN]
    after = run["messages"] if uneven.empty else run["messages"][run["messages"] > uneven.max()]
    return float("inf") if after.empty else float(after.iloc[0])


def _queues(t: Table) -> Any:
    """Return the late queue spreads: a row per data set, a column per number of virtual workers."""
    return _late(t, "queue_spread", "virtual_workers")


def _hundred(t: Table) -> tuple[float, str]:
    queues = _queues(t)
    return (queues[100] / queues.min(axis=1)).max(), ", ".join(map(str, queues.idxmin(axis=1)))


def _settled(t: Table) -> list[list[float]]:
    """Return after how many messages runs with 1000 and with 100 virtual workers are even."""
    found = [{run["virtual_workers"].iloc[0]: settled_at(run) for run in runs.values()} for runs in _runs(t)]
    return [[own[1000], own[100]] for own in found]


def _twice_as_long(pair: list[float]) -> bool:
    """Whether the first takes twice as long as the second, which is over at some time."""
    thousand, hundred = pair
    return hundred < float("inf") and thousand >= 2 * hundred


def _settled_text(found: list[list[float]]) -> str:
    texts = [
        [f"{count:,.0f} messages" if np.isfinite(count) else "never" for count in pair] for pair in found
    ]
    return "balanced after " + "; ".join(" against ".join(pair) for pair in texts)


def recovery(run: Table) -> list[tuple[float, float]]:
    """Return, per change, the slots until the spread stays below 0.15, and the largest one after 20 alpha.

    A mark tells of the time since the mark before; after the deadline count marks whose time begins there.
    Where the deadline lies beyond the next change (or the end), the last mark before that counts.
    """
    slot = 10 * SLOT
    messages = run["messages"]
    step = messages.iloc[1] - messages.iloc[0]
    found = []
    for changed, end in pairwise([*run["changed_at"].iloc[0], messages.iloc[-1]]):
        deadline = changed + 20 * run["virtual_workers"].iloc[0] * slot
        own = Table(run[(changed < messages) & (messages <= end)])
        after = own["utilisation_spread"][own["messages"] - step >= deadline]
        last = own["utilisation_spread"].iloc[-1]
        found.append(((settled_at(own) - changed) / slot, float(after.max() if len(after) else last)))
    return found


def _recoveries(t: Table) -> list[tuple[float, int, float]]:
    """Return slots, deadline and largest spread after it, of every change in CG's runs."""
    own = [run for runs in _runs(t) for run in runs.values() if run["symbol"].iloc[0] == "CG"]
    return [(slots, 20 * run["virtual_workers"].iloc[0], spread)
            for run in own for slots, spread in recovery(run)]  # fmt: skip


def _last_queue(t: Table) -> float:
    last = _shown(t).groupby(["data", "symbol", "series"], sort=False).tail(1).groupby(["data", "symbol"])
    most, least = (Table(getattr(last["queue_spread"], end)().unstack()) for end in ("max", "min"))
    return float((most["CG"] / least[["KG", "SG"]].min(axis=1)).max())


# The cluster: delays of the paper's range

_DELAYS = f"delay <= {LONGEST_DELAY}"


def _longest(t: Table, column: str, data: str) -> Any:
    """Return a column by symbol at the longest delay."""
    return t.wide(column, "delay", query=_DELAYS, data=data).iloc[-1]


def _over_key(t: Table, data: str) -> tuple[dict[str, float], float]:
    throughput, latency = _longest(t, "throughput", data), _longest(t, "latency_mean", data)
    names = ["PKG", "SG", "CG"]
    return dict(throughput[names] / throughput["KG"]), (latency[names] / latency["KG"]).max(skipna=False)


def _over_key_text(found: tuple[dict[str, float], float]) -> str:
    ratios = ", ".join(f"{name} {times:.2f}x" for name, times in found[0].items())
    return f"throughput {ratios} of KG's at 1 ms; latency at most {found[1]:.2g} of KG's"


def memory_in_order(memory: Any) -> bool:
    """Whether KG needs the least memory and SG the most."""
    low, high = sorted((memory["PKG"], memory["CG"]))
    return bool(memory["KG"] <= low and high < memory["SG"])


def memory_near_pkg(memory: Any) -> bool:
    """Whether memory is in order, and CG's at most a third of the way from PKG's to SG's, on a log scale."""
    way = np.log(memory["CG"] / memory["PKG"]) / np.log(memory["SG"] / memory["PKG"])
    return bool(memory_in_order(memory) and way <= 1 / 3)


def memory_alike(memory: Any) -> bool:
    """Whether PKG and CG need the same memory, within a quarter."""
    low, high = sorted((memory["PKG"], memory["CG"]))
    return bool(high / low <= 1.25)


def _best(column: str, top: str, bottom: str, data: str) -> r.Rule:
    """Judge CG's best advantage over KG; abstract and text exchange 2 and 3.44, so both are tested at 2.

    Twice the larger of the two is another magnitude.
    """
    found = r.ratio(column, top, bottom, "delay", query=_DELAYS, data=data)
    return r.between(found, 2, 2 * 3.44, 2 ** (1 / 3), "{:.3g}x")


_Time = Lines(
    x="messages",
    y={"queue_spread": "queue length, max - min", "latency_spread": "latency in s, max - min",
       "utilisation_spread": "utilisation, max - min"},
    by="series", panels="data", logy=["queue_spread", "latency_spread"], markers=False, rows=_shown,
    floor={"queue_spread": 1.0, "latency_spread": 1e-3},
)  # fmt: skip
_Cluster = Lines(x="delay", y={"throughput": "messages per second", "latency_mean": "mean latency in s"},
                 logy=["latency_mean"], panels="data", xlabel="delay per message, ms")  # fmt: skip
_SHORT = "The stand-in for WP is twelve times shorter than WP."
_MEASURED = "Queueing model at 80 percent of all capacity, ten workers, one source."
_OWN = "The best number depends on the ratio of the capacities and on how workers' signals are paired."
_CLUSTER = (
    "Queueing model: 8 sources, 24 workers; equal workers run at 80 percent at 1 ms, the paper's longest "
    "delay; claims are judged up to there. At 1.25 ms all workers are busy, CG's signals cannot tell them "
    "apart, and CG falls behind PKG and SG, in Fig. 14 behind all. Throughput: messages over the time until "
    "all are done; latency: of the second half. The paper ran Storm."
)
_PAIRS = (
    "The paper's percentages include the engine, memory here is (key, worker) pairs per key; a virtual "
    "worker that moves leaves its keys' state behind."
)
_OPEN = (
    "The queueing model has no backpressure, so an overloaded worker's latency grows throughout the run, "
    "whereas the paper's engine slows the sources down."
)

_COARSE = (
    "A slow worker has 4 or 5 of the 100 virtual workers, 0.70 or 0.88 of its capacity. Queues are even 49 "
    "and 44 slots after the changes. With binary signals (study `sure-signals`) virtual workers move to and "
    "fro, which takes the spread from 0.19 to 0.06 and memory from 2.71 to 3.19."
)
_OTHERS = ("KG", "PKG", "SG")
_figure = partial(Experiment, "heterogeneous")


def _equal_claims(data: str, also: str) -> tuple[Claim, ...]:
    """Return the claims of Fig. 13 on one stream."""
    return (
        Claim("7.2 Q4", f"PKG, SG and CG beat KG in throughput and latency{also}", "better",
              r.graded(partial(_over_key, data=data),
                       lambda ratios, latency: min(ratios.values()) > 1.05 and 1 / latency > 1.05,
                       text=_over_key_text), _OPEN),
        Claim("7.2 Q4", f"memory of the cluster: KG 7, PKG and CG 8.5, SG 14 percent{also}",
              "KG < PKG = CG < SG",
              r.graded(lambda t: _longest(t, "memory", data),
                       lambda memory: memory_in_order(memory) and memory_alike(memory),
                       memory_near_pkg, r.named(".2f", names=("KG", "PKG", "CG", "SG", *BINARY))),
              caveat=_PAIRS),
    )  # fmt: skip


def _slower_claims(data: str, also: str) -> tuple[Claim, ...]:
    """Return the claims of Fig. 14 on one stream."""
    own: dict[str, Any] = {"query": _DELAYS, "data": data}
    slow = own | {"query": f"{_DELAYS} and {CLUSTER_RATE / 24_000} * delay > {SLOW}"}
    return (
        Claim("7.2 Q4", f"CG outperforms KG, PKG and SG in both{also}", "all",
              r.each(r.all_of(r.below("throughput", _OTHERS, "CG", "delay", factor=1 / 0.98, **own),
                              r.below("latency_mean", "CG", _OTHERS, "delay", factor=1.02, **own),
                              r.below("throughput", _OTHERS, "CG", "delay", factor=1 / 1.05, **slow),
                              r.below("latency_mean", "CG", _OTHERS, "delay", factor=1 / 1.05, **slow)),
                     "comparisons of throughput and latency with KG, PKG and SG: never behind, and ahead "
                     "where a slow worker's fair share is too much for it"), _OPEN),
        Claim("7.2 Q4", f"throughput up to 3.44 times KG's (abstract: 2){also}", ">= 2x",
              _best("throughput", "CG", "KG", data), caveat=_OPEN),
        Claim("7.2 Q4", f"latency up to 2 times better than KG's (abstract: 3.44){also}", ">= 2x",
              _best("latency_mean", "KG", "CG", data), caveat=_OPEN),
    )  # fmt: skip


_EACH = ((TWEETS[0], ""), (TWEETS[1], f" ({TWEETS[1]})"))

# fmt: off
EXPERIMENTS = [
    _figure("fig7", "Equal workers over time", _MEASURED,
            grid(_time_point, data=streams(*PAGES), capacity=EQUAL, symbol=_TIMED), measure_time, _Time, (
        Claim("7.2 Q2", "KG's queue and latency spreads grow over time", "grow", _grow("KG")),
        Claim("7.2 Q2", "CG keeps both very low", "far below KG's", _stays_low("KG")),
        Claim("7.2 Q2", "CG's utilisation spread is close to zero", "KG positive, CG 0", _is_even("KG")),
    )),
    _figure("fig8", "Unequal workers over time",
            "Three of ten workers five times faster; the table also has other clusters (y faster, z times). "
            f"{_MEASURED}", _UNEQUAL_POINTS, measure_time, _Time, (
        Claim("7.2 Q2", "queue and latency spreads grow for KG and SG", "grow", _grow("KG", "SG")),
        Claim("7.2 Q2", "CG's are lower", "far below", _stays_low("KG", "SG")),
        Claim("7.2 Q2", "CG's utilisation spread is close to zero, KG's and SG's are high", "0 against high",
              _is_even("KG", "SG"), _COARSE),
        Claim("7.2 Q2", "the same holds for all y from 1 to n - 1 and z from 2 to 10", "alike",
              r.each(_everywhere_alike, lambda t: f"comparisons in {len(_clusters(t))} clusters with CG's "
                                                  "last queue spread at most a fifth")),
    )),
    _figure("fig11", "Unequal workers over time, by CG's virtual workers",
            f"Three of ten workers five times faster. {_MEASURED}",
            grid(_time_point, data=streams(*PAGES), capacity=UNEQUAL, subject=_virtual_subjects),
            measure_time, _Time, (
        Claim("7.2 Q3", "5 virtual workers are too few", "not the desired result",
              r.at_least(lambda t: (_queues(t)[5] / _queues(t)[100]).min(), 2, 1.1,
                         "queue spread {:.1f} times that of 100"), _OWN),
        Claim("7.2 Q3", "10 and 20 perform alike", "similar",
              r.at_most(lambda t: np.exp(abs(np.log(_queues(t)[10] / _queues(t)[20]))).max(), 2, 10,
                        "queue spreads within a factor of {:.2f}"), _OWN),
        Claim("7.2 Q3", "100 are best", "best",
              r.at_most(_hundred, 1.1, 2, "{:.2f} times the smallest queue spread, that of {}"), _OWN),
        Claim("7.2 Q3", "1000 take longer to converge than 100", "longer",
              r.graded(_settled,
                       lambda found: all(map(_twice_as_long, found)),
                       lambda found: any(map(_twice_as_long, found)), _settled_text), _SHORT),
    )),
    _figure("fig12", "Capacities that change",
            "Three of ten workers are five times faster; which three changes after 6 M and 12 M of 22 M "
            f"messages. {_MEASURED}",
            grid(_time_point, data=streams(*PAGES), capacity=UNEQUAL, changes=[CHANGES],
                 subject=_change_subjects),
            measure_time, _Time, (
        Claim("7.2 Q3", "CG adapts to a change: utilisation spread below 0.15 after 20 alpha slots",
              "very efficiently",
              r.Rule(_recoveries, lambda found: r.share([spread < EVEN for *_, spread in found]),
                     lambda found: "; ".join(f"{slots:g} of {deadline} slots, then at most {spread:.3f}"
                                             for slots, deadline, spread in found)), _COARSE),
        Claim("7.2 Q3", "CG's last queue spread is at most a fifth of KG's and of SG's", "far below",
              r.at_most(_last_queue, 0.2, 0.8, "{:.2g} of theirs")),
    )),
    _figure("fig13", "Throughput and latency on equal workers", _CLUSTER, _cluster_points("24x1"),
            measure_cluster, _Cluster, tuple(claim for own in _EACH for claim in _equal_claims(*own))),
    _figure("fig14", "Throughput and latency with two of 24 workers at 30 percent", _CLUSTER,
            _cluster_points(f"2x{SLOW},22x1"), measure_cluster, _Cluster,
            tuple(claim for own in _EACH for claim in _slower_claims(*own))),
]
