"""Fig. 4-6, 9, 10 and both tables of `heterogeneous`: loads and memory at the end of a stream."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import evenflow as ef
from evenflow.papers import rules as r
from evenflow.papers.experiment import Claim, Experiment, Row, RunConfig
from evenflow.papers.figures import Lines
from evenflow.papers.grid import at, grid, joined, on_stream, schemes, streams
from evenflow.papers.measures import data_points, measure_data, same_streams, simulated, zipf
from evenflow.papers.table import Table
from evenflow.simulator.prescan import survey
from evenflow.streams import open_stream

SCHEMES = {
    "KG": "key",
    "PKG": "partial-key",
    "PoTC": "two-choices",
    "PoRC": "random-choices",
    "CH": "bounded-load",
    "SG": "shuffle",
    "CG": "consistent",
}
EPSILON = 0.01
VIRTUAL_WORKERS = 10
WP_MESSAGES = 22_000_000
WP_RATE = 10_817.0  # messages per second
QUEUES = ", queues"  # after a symbol: measured with queues, so that workers signal
PAGES = ("WP", "WP-made")
TWEETS = ("TW", "TW-made")
BOUNDED = ("random-choices", "bounded-load", "consistent")  # those with an epsilon
WORKERS = (5, 10, 50, 100)
SKEWS = [round(0.2 * step, 1) for step in range(1, 11)]
ALLOCATIONS = ("KG", "PKG", "PoTC", "PoRC", "CH", "SG")
EPSILONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def bound(rows: Any) -> Any:
    """Return what PoRC's normalised imbalance may be: epsilon, and one message per bin and source."""
    return rows["epsilon"] + rows["bins"] * rows["sources"] / rows["messages"]


# Measurements


def measure_loads(
    symbol: str, stream: str, workers: int, sources: int = 1, epsilon: float = EPSILON, inside: bool = False,
    queues: bool = False,
) -> list[Row]:  # fmt: skip
    """Route a stream; ``inside``: by CG, with ``symbol`` as its allocation to virtual workers.

    ``queues``: equal workers at 80 percent of their capacity, which signal busy and idle.
    """
    scheme = SCHEMES.get(symbol, symbol)
    parameters: dict[str, Any] = {"epsilon": epsilon} if scheme in BOUNDED else {}
    if inside:
        scheme, parameters = "consistent", {"epsilon": epsilon, "allocation": scheme}
    queueing = {"rate": WP_RATE, "load": 0.8} if queues else None
    row = simulated(scheme, stream, workers, sources, parameters=parameters, queueing=queueing)[0]
    bins = workers * (VIRTUAL_WORKERS if scheme == "consistent" else 1)
    symbol += QUEUES if queues else ""
    same = {"symbol": symbol, "workers": workers, "sources": sources, "epsilon": epsilon, "bins": bins}
    found = {name: row[name] for name in ("messages", "keys", "memory")}
    return [{**same, **found, "normalised": max(0.0, row["max_over_mean"] - 1)}]


def measure_table(data: str, stream: str, bins: int, symbols: list[str]) -> list[Row]:
    """Measure one column of Table 1, with the share of the hottest key."""
    found = survey(open_stream(stream), counts=True, seconds=False)
    assert found.counts is not None
    same = {"data": data, "p1": float(found.counts.max() / found.messages)}
    return [{**row, **same} for symbol in symbols for row in measure_loads(symbol, stream, bins, epsilon=0.3)]


def measure_epsilon(symbol: str, stream: str, epsilon: float, data: str, queues: bool = False) -> list[Row]:
    """Measure CG with one epsilon, and on how many virtual workers PoRC puts the hottest key."""
    row = measure_loads(symbol, stream, 10, epsilon=epsilon, inside=symbol != "CG", queues=queues)[0]
    row["data"] = data
    if symbol == "CG" and not queues:
        row["hottest_on"] = homes_of_hottest(stream, row["bins"], epsilon)
    return [row]


def homes_of_hottest(stream: str, bins: int, epsilon: float) -> int:
    """Return to how many of ``bins`` virtual workers PoRC sends the hottest key."""
    opened = open_stream(stream)
    found = survey(opened, counts=True, seconds=False)
    assert found.counts is not None
    hottest = int(found.counts.argmax())
    router = ef.scheme("random-choices", epsilon=epsilon).router(bins)
    used = np.zeros(bins, np.bool_)
    for chunk in opened.chunks():
        used[router.route(opened.hashes[chunk.ids])[chunk.ids == hottest]] = True
    return int(used.sum())


# Points


def _skew_point(z: float, messages: float, **point: Any) -> Row:
    return {"stream": zipf(z, 1e5, messages), **point, "epsilon": 0.3, "labels": {"z": z}}


def _data_point(data: tuple[str, str], **point: Any) -> Row:
    name, stream = data
    return {"data": name, "stream": stream, **point}


def _table_points(config: RunConfig) -> list[Row]:
    symbols = config.schemes("KG", "PKG", "PoTC", "SG", "PoRC", "CH")
    made = ("WP-made", config.data["WP-made"])  # WP's own size with 10^4 bins: 4 GB of (key, bin) pairs
    data = [*streams("WP", *TWEETS)(config), made]
    return grid(_data_point, data=data, bins=(10, 100, 1000, 10_000), symbols=[symbols])(config)


def _epsilon_points(config: RunConfig) -> list[Row]:
    values = config.pick(EPSILONS[::2], EPSILONS)
    subjects = [("KG", values[0]), ("SG", values[0]), *(("CG", value) for value in values)]
    alone = [_data_point(data, symbol=symbol, epsilon=epsilon)
             for data in streams(*PAGES)(config) for symbol, epsilon in subjects]  # fmt: skip
    queued = [("WP", config.stream("WP"))]
    return alone + [_data_point(data, symbol="CG", epsilon=epsilon, queues=True)
                    for data in queued for epsilon in values]  # fmt: skip


# What claims measure, where no comparator has it


def _in_bound(*symbols: str) -> r.Measure:
    return lambda t: t.only(symbol=symbols).pipe(lambda own: own["normalised"] <= bound(own) * (1 + 1e-9))


def _bounded(symbol: str) -> r.Rule:
    """Judge that no imbalance exceeds epsilon by more than the rounding to whole messages."""

    def worst(t: Table) -> tuple[float, float, int, str]:
        own = t.only(symbol=symbol)
        row = own.loc[(own["normalised"] - bound(own)).idxmax()]
        where = f"{row['bins']} bins" + (f", {row['data']}" if "data" in own else "")
        return row["normalised"], bound(row), len(own), where

    return r.graded(worst, lambda found, most, *_: found <= most * (1 + 1e-9),
                    text="{2} settings; at worst {0:.6g} of {1:.6g} ({3})")  # fmt: skip


def _uneven_by_skew_and_bins(t: Table) -> list[Any]:
    wide = [t.wide("normalised", "bins", subject="z", query="z >= 1", symbol=name).sort_index()
            for name in ("KG", "PKG")]  # fmt: skip
    return [
        part.to_numpy() > 0 for own in wide for part in (own.diff().iloc[1:], own.diff(axis=1).iloc[:, 1:])
    ]


def _gap(symbol: str) -> r.Measure:
    """Measure max - mean in messages: Lemma 6.2 has O(ln ln n) for PoTC; SG's is below one."""
    return lambda t: t.only(symbol=symbol).eval("normalised * messages / bins").max()


def _by_epsilon(t: Table, own: str = "CG") -> list[tuple[Table, Any, Any]]:
    """Return, for each stream, CG by rising epsilon, and the rows of KG and SG."""
    parts = [Table(part) for _, part in t.groupby("data", sort=False) if own in set(part["symbol"])]
    return [(Table(part.only(symbol=own).sort_values("epsilon")),
             *(part.only(symbol=name).iloc[0] for name in ("KG", "SG"))) for part in parts]  # fmt: skip


def _trades(t: Table, symbol: str = "CG") -> list[Any]:
    steps = [(own.iloc[:-1].reset_index(), own.iloc[1:].reset_index()) for own, *_ in _by_epsilon(t, symbol)]
    return [check for low, high in steps for check in (low["normalised"] <= high["normalised"] * 1.02,
                                                       low["memory"] >= high["memory"] * 0.98)]  # fmt: skip


def _interpolates(t: Table, symbol: str = "CG") -> tuple[list[bool], str]:
    checks, parts = [], []
    for own, key, shuffle in _by_epsilon(t, symbol):
        memory, imbalance = own["memory"], own["normalised"]
        checks += [memory.between(1, shuffle["memory"]).all(), (imbalance <= key["normalised"]).all()]
        checks.append(memory.iloc[-1] <= 1.05 and imbalance.iloc[0] <= 0.005)
        parts.append(f"memory {memory.iloc[-1]:.2f} to {memory.iloc[0]:.2f} of SG's {shuffle['memory']:.2f}")
    return checks, "; ".join(parts)


def _perfect_and_large(symbol: str) -> r.Measure:
    """Check that a scheme is balanced within epsilon and needs more memory than the others."""
    return r.both(r.compared("normalised", "data", "workers", check=f"{symbol} < {EPSILON}"),
                  *(r.below("memory", other, symbol, "data", "workers", strictly=True)
                    for other in ("KG", "PKG", "CH", "CG")))  # fmt: skip


def _little_change(over: str, symbol: str = "CG") -> r.Rule:
    """Judge that imbalance and memory of each stream change by at most half a decade."""
    fixed = {"sources": "workers", "workers": "sources"}[over]

    def worst(t: Table) -> tuple[float, ...]:
        groups = t.only(symbol=symbol).groupby(["data", fixed])[["normalised", "memory"]]
        return tuple((groups.max() / groups.min()).max())

    return r.graded(worst, lambda *found: max(found) <= 10**0.5, lambda *found: max(found) <= 10,
                    "imbalance by at most {:.2f} times, memory by {:.2f} times")  # fmt: skip


def _value(**where: Any) -> r.Measure:
    return lambda t: t.value("normalised", **where)


def _level_rows(t: Table) -> Table:
    """Return CG over epsilon, KG and SG as level lines."""
    ours = t["symbol"].isin(["CG", f"CG{QUEUES}"])
    ends = [t[~ours].assign(epsilon=end) for end in (t["epsilon"].min(), t["epsilon"].max())]
    return Table(pd.concat([t[ours], *ends], ignore_index=True))


_MEMORY_ORDER = [f"{least} <= {name} <= 1.001 * {most}" for name in ("PKG", "PoRC", "CH")
                 for least, most in (("1", "PoTC"), ("1", "SG"))]  # fmt: skip
_Loads = partial(Lines, y={"normalised": "normalised imbalance", "memory": "memory relative to KG"},
                 logy=True,
                 panels="data")  # fmt: skip
_TIGHT = ("PoRC", "CH")
_MOVES = (
    "A virtual worker that moves changes a worker's load by a tenth and leaves state behind. Without queues "
    "(figure `heterogeneous/fig5`, the claims before), where none moves, it holds; with them a large epsilon,"
    " which allows uneven virtual workers, has these moved, to the same memory as a small one."
)
_SHARE = (
    "2469 = n p1 - 1 and 1233 = n p1 / 2 - 1 require p1 = 24.7 percent; Table 2 gives 2.67 for TW, which "
    "TW-made has; TW has 4.3. Zipf laws of 10^5 keys (study `share-of-tw`): 2472 with p1 = 24.7 percent, 267 "
    "with 2.67."
)
_FEW = (
    "A capacity is a whole number of messages. The bound of a claim below (figure `heterogeneous/fig10`), "
    "epsilon + sources x bins / m, is 0.11 with 100 sources and 100 workers for the 10^6 messages of WP-made."
)
_HOT = "A virtual worker with the hottest key cannot be divided."
_figure = partial(Experiment, "heterogeneous")

# fmt: off
EXPERIMENTS = [
    _figure("fig4", "Imbalance and memory of the allocations by skew",
            "Zipf, 10^5 keys, one source, epsilon 0.3; 10, 100 and 1000 virtual workers.",
            grid(_skew_point, workers=(10, 100, 1000), z=at((0.4, 1.0, 1.6, 2.0), SKEWS),
                 messages=at(1e6, 1e7), symbol=schemes(*ALLOCATIONS)), measure_loads,
            _Loads(x="z", xlabel="skew z", panels="{bins} bins"), (
        Claim("5.1", "imbalance of hashing and PKG grows with skew and with the number of virtual workers",
              "both rise",
              r.each(_uneven_by_skew_and_bins,
                     "steps to ten times the bins or the next skew, z >= 1, that raise KG's or PKG's "
                     "imbalance")),
        Claim("5.1", "the other schemes perform fairly well", "low imbalance",
              r.each(r.all_of(r.holds("normalised <= 0.05", symbol=("PoTC", "SG")),
                              _in_bound(*_TIGHT)),
                     "settings: PoTC and SG within 5 percent, PoRC and CH within epsilon")),
        Claim("6.1", "PoRC's imbalance is at most epsilon", "<= epsilon + bins/m", _bounded("PoRC"),
              peer="exactly epsilon on every skewed stream"),
        Claim("5.1", "PoRC uses the room that epsilon gives, on every skewed stream", "epsilon",
              r.each(r.holds("normalised >= 0.95 * epsilon", "z >= 1", symbol="PoRC"),
                     "settings with z >= 1 and an imbalance of epsilon")),
        Claim("5.1", "PoRC, which rehashes, needs less memory than CH, which spills to the neighbour (ours)",
              "less",
              r.each(r.below("memory", "PoRC", "CH", "bins", "z", strictly=True),
                     "settings where PoRC needs less memory")),
        Claim("5.1", "balance is paid for with memory", "KG least, PoTC and SG most",
              r.each(r.compared("memory", "bins", "z", check=" and ".join(["KG == 1", *_MEMORY_ORDER])),
                     "settings with KG least, PoTC and SG most")),
    )),
    _figure("table1", "Normalised imbalance on WP and TW by the number of virtual workers",
            "One source, epsilon 0.3.", _table_points, measure_table,
            Lines(x="bins", y="normalised", panels="data", logx=True, logy=True, xlabel="virtual workers",
                  ylabel="normalised imbalance"), (
        Claim("5.1", "KG's imbalance is due to the hottest key, PKG's to half of it",
              "n p1 - 1, n p1 / 2 - 1",
              r.each(r.all_of(*(r.holds(f"abs(normalised - (bins * p1 / {homes} - 1)) <= 2", "bins >= 1000",
                                  symbol=name)
                                for name, homes in (("KG", 1), ("PKG", 2)))),
                     "values of KG and PKG at 10^3 and 10^4 within 2 of n p1 / candidates - 1")),
        *(Claim("5.1", f"{symbol} at 10^4 virtual workers on {name}", f"{paper}",
                r.near(_value(data=name, symbol=symbol, bins=10_000), paper, 0.15), why)
          for names, why, printed in ((PAGES, "the stand-in has another p1", (931, 464)),
                                      (TWEETS, _SHARE, (2469, 1233)))
          for symbol, paper in zip(("KG", "PKG"), printed, strict=True) for name in names),
        Claim("5.1, 6.1", "PoTC and SG are nearly perfect", "max - mean O(ln ln n) and below 1 message",
              r.graded(lambda t: (_gap("PoTC")(t), _gap("SG")(t)),
                       lambda potc, sg: potc <= np.log2(np.log(10_000)) + 2 and sg < 1 + 1e-9,
                       text="max - mean at worst {:.2f} (PoTC), {:.2f} (SG) messages")),
        Claim("5.1", "PoRC and CH reach epsilon but do not exceed it", "0.3",
              r.each(r.both(_in_bound(*_TIGHT), r.holds("normalised >= 0.29", symbol=_TIGHT)),
                     "values between 0.29 and epsilon + bins/m"),
              "with ten virtual workers hashing alone spreads TW to within 19 percent"),
    )),
    _figure("fig5", "Imbalance and memory of CG by epsilon",
            "10 workers with 10 virtual workers each, one source; KG and SG allocate to the same virtual "
            "workers.",
            _epsilon_points, measure_epsilon, _Loads(x="epsilon", logx=True, rows=_level_rows), (
        Claim("7.2 Q1", "epsilon trades imbalance for memory", "monotone",
              r.each(_trades, "steps to a larger epsilon with more imbalance or less memory")),
        Claim("7.2 Q1", "CG lies between KG and SG", "between",
              r.Rule(_interpolates, lambda found: r.share(found[0]), "{1}")),
        Claim("6.1", "CG's imbalance is at most epsilon", "<= epsilon + bins/m", _bounded("CG")),
        Claim("7.2 Q1", "the same with queues: epsilon trades imbalance for memory", "monotone",
              r.each(partial(_trades, symbol=f"CG{QUEUES}"),
                     "steps to a larger epsilon with more imbalance or less memory"), _MOVES),
        Claim("7.2 Q1", "the same with queues: CG lies between KG and SG", "between",
              r.Rule(partial(_interpolates, symbol=f"CG{QUEUES}"), lambda found: r.share(found[0]), "{1}"),
              _MOVES),
        Claim("6.2", "with epsilon > 1/(n - 1) no key is on all virtual workers", "fewer than 100",
              r.graded(lambda t: tuple(t.only("epsilon > 1 / (bins - 1)", symbol="CG")
                                [["hottest_on", "bins"]].max()),
                       lambda most, bins: most < bins, text="hottest key on at most {:g} of {:g}")),
    )),
    _figure("fig6", "Imbalance and memory of CG by allocation",
            "Equal workers with 10 virtual workers each, one source, epsilon 0.01.",
            joined(grid(on_stream, data=streams(*PAGES), workers=WORKERS, inside=True, symbol=ALLOCATIONS),
                   grid(on_stream, data=streams("WP"), workers=(10, 100), inside=True,
                        symbol=("KG", "PKG", "PoRC", "SG"), queues=True)), measure_loads,
            _Loads(x="workers"), (
        Claim("7.2 Q1", "KG and PKG are imbalanced, PoTC and SG nearly perfect", "high, and near 0",
              r.each(r.compared("normalised", "data", "workers", query="workers >= 50",
                                check=f"KG > 0.5 and PKG > 0.5 and PoTC < {EPSILON} and SG < {EPSILON}"),
                     "settings at 50 and 100 workers: KG, PKG above 0.5, PoTC, SG below epsilon")),
        *(Claim("7.2 Q1", f"{symbol}'s imbalance is close to epsilon", "epsilon",
                r.each(r.both(_in_bound(symbol), r.holds("normalised >= 0.5 * epsilon", symbol=symbol)),
                       "settings from half of epsilon to epsilon + bins/m")) for symbol in _TIGHT),
        Claim("7.2 Q1", "KG's and PKG's imbalance grows linearly with the workers", "10 times from 10 to 100",
              r.graded(r.of_wide("normalised", "data", "symbol", subject="workers", symbol=("KG", "PKG"),
                                 measure=lambda wide: (wide[100] / wide[10]).tolist()),
                       lambda found: all(5 <= times <= 20 for times in found),
                       lambda found: min(found) >= 10 ** (1 / 3),
                       lambda found: f"10 to 100 workers: {', '.join(f'{n:.2f}' for n in found)} times")),
        Claim("7.2 Q1", "PoRC needs as little memory as PKG", "about 1 (log scale)",
              r.at_most(r.ratio("memory", "PoRC", "PKG", "data", "workers"), 1.25, 10**0.5,
                        "{:.2f} times PKG's"),
              "PoRC splits every key that meets a full bin; PKG never splits a key into more than two."),
        Claim("7.2 Q1", "with queues CG evens out what KG and PKG allocate unevenly (ours)", "lower",
              r.each(lambda t: [t.value("normalised", symbol=f"{name}{QUEUES}", workers=10)
                                < 0.5 * t.value("normalised", symbol=name, workers=10, data="WP")
                                for name in ("KG", "PKG")],
                     "allocations with half of the imbalance, 10 workers",
                     lambda t: ", ".join(
                         f"{name} {t.value('normalised', symbol=name, workers=10, data='WP'):.3f}"
                         for name in ("KG", f"KG{QUEUES}", "PKG", f"PKG{QUEUES}"))), _HOT),
        Claim("7.2 Q1", "with queues PoRC needs as little memory as PKG", "about 1 (log scale)",
              r.at_most(r.ratio("memory", f"PoRC{QUEUES}", f"PKG{QUEUES}", "workers"), 1.25, 10**0.5,
                        "{:.2f} times PKG's"), _MOVES),
    )),
    _figure("fig9", "Imbalance and memory of the schemes",
            "Equal workers, one source, epsilon 0.01; CG with 10 virtual workers each.",
            joined(grid(on_stream, data=streams(*PAGES), workers=WORKERS,
                        symbol=schemes("KG", "PKG", "PoTC", "CH", "SG", "CG")),
                   grid(on_stream, data=streams("WP"), workers=WORKERS, symbol="CG", queues=True)),
            measure_loads, _Loads(x="workers"), (
        Claim("7.2 Q2", "KG has the worst balance and the least memory", "worst, 1",
              r.each(r.both(r.of_wide("normalised", "data", "workers",
                                      measure=lambda wide: wide["KG"] == wide.max(axis=1)),
                            r.compared("memory", "data", "workers", check="KG == 1")),
                     "settings with KG's imbalance highest and its memory 1")),
        Claim("7.2 Q2", "PKG is nearly perfect with 5 and 10 workers and imbalanced beyond",
              "near 0, then high",
              r.graded(lambda t: (t.only("workers <= 10", symbol="PKG")["normalised"].max(),
                                  t.only("workers >= 50", symbol="PKG")["normalised"].min()),
                       lambda few, many: few < EPSILON and many > 0.5,
                       lambda few, many: few < many,
                       "at most {:.2g} up to 10 workers, at least {:.2g} from 50 on")),
        Claim("7.2 Q2", "PoTC and SG are nearly perfect and need more memory", "most",
              r.each(r.all_of(_perfect_and_large("PoTC"), _perfect_and_large("SG")),
                     "settings with PoTC's and SG's imbalance below epsilon and memory highest")),
        Claim("7.2 Q2", "CH is bounded and needs less memory than PoTC and SG", "less",
              r.each(r.both(_in_bound("CH"),
                            r.compared("memory", "data", "workers", check="CH < PoTC and CH < SG")),
                     "settings with CH within epsilon and less memory than PoTC and SG")),
        Claim("7.2 Q2", "CG is bounded", "<= epsilon + bins/m", _bounded("CG")),
        Claim("7.2 Q2", "CG needs less memory than CH", "below 1",
              r.graded(r.ratio("memory", "CG", "CH", "data", "workers",
                               take=lambda ratios: (ratios.min(), ratios.max(), ratios.mean())),
                       lambda low, high, mean: high < 1, lambda low, high, mean: mean < 1,
                       "CG's memory {:.2f} to {:.2f} of CH's")),
        Claim("7.2 Q2", "with queues CG is bounded", "<= epsilon + a virtual worker's tenth",
              r.at_most(r.largest("normalised", symbol=f"CG{QUEUES}"), EPSILON + 0.1 / 10, EPSILON + 0.1,
                        "{:.4f}"), _MOVES),
        Claim("7.2 Q2", "with queues CG needs less memory than CH", "below 1",
              r.graded(r.ratio("memory", f"CG{QUEUES}", "CH", "data", "workers",
                               take=lambda ratios: (ratios.min(), ratios.max(), ratios.mean())),
                       lambda low, high, mean: high < 1, lambda low, high, mean: mean < 1,
                       "CG's memory {:.2f} to {:.2f} of CH's"), _MOVES),
    )),
    _figure("fig10", "Imbalance and memory of CG by sources and workers",
            "Equal workers with 10 virtual workers each, epsilon 0.01.",
            joined(grid(on_stream, data=streams(*PAGES), workers=WORKERS, symbol="CG",
                        sources=at((1, 10, 100), (1, 10, 50, 100))),
                   grid(on_stream, data=streams("WP"), workers=at((10, 100), WORKERS), symbol="CG",
                        sources=at((1, 10, 100), (1, 10, 50, 100)), queues=True)), measure_loads,
            _Loads(x="sources", by="{symbol}, {workers} workers", logx=True), (
        Claim("7.2 Q3", "more sources barely change imbalance and memory, on a log scale",
              "within half a decade", _little_change("sources"), _FEW),
        Claim("7.2 Q3", "more workers barely change imbalance and memory, on a log scale",
              "within half a decade", _little_change("workers"), _FEW),
        Claim("6.1", "CG's imbalance is at most epsilon with any number of sources",
              "<= epsilon + sources x bins/m", _bounded("CG")),
        Claim("7.2 Q3", "with queues more sources barely change imbalance and memory, on a log scale",
              "within half a decade", _little_change("sources", f"CG{QUEUES}"), _MOVES),
    )),
    _figure("table2", "The streams",
            "Messages, keys, share of the hottest key; ZF is one of the Zipf streams.",
            data_points(*PAGES, *TWEETS, ZF=zipf(1.0, 1e5, 1e6)), measure_data, None, (
        Claim("7.1", "sizes and skew of the streams",
              "WP 22 M, 2.9 M keys, 9.32 percent; TW 1.2 G, 31 M, 2.67",
              same_streams(WP=(22e6, 2.9e6, 0.0932), TW=(1.2e9, 31e6, 0.0267))),
    )),
]
