"""Fig. 4-6, 9, 10 and both tables of `heterogeneous`: loads and memory at the end of a stream."""

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
    at_most,
    near,
    pick,
    select,
    share_of,
)
from evenflow.papers.heterogeneous.common import (
    EPSILON,
    LAW,
    SCHEMES,
    VIRTUAL_WORKERS,
    bound,
    by_symbol,
    pages,
)
from evenflow.papers.measures import measure_data, same_streams, simulated, zipf
from evenflow.papers.plots import lines
from evenflow.simulator.prescan import survey
from evenflow.streams import open_stream

BOUNDED = ("random-choices", "bounded-load", "consistent")  # those with an epsilon
WORKERS = (5, 10, 50, 100)
SKEWS = [round(0.2 * step, 1) for step in range(1, 11)]

# Loads: normalised imbalance and memory, at the end


def measure_loads(
    symbol: str,
    stream: str,
    workers: int,
    sources: int = 1,
    epsilon: float = EPSILON,
    inside: bool = False,
) -> list[Row]:
    """Route a stream; ``inside``: by CG, with ``symbol`` as its allocation to virtual workers."""
    scheme = SCHEMES.get(symbol, symbol)
    parameters: dict[str, Any] = {"epsilon": epsilon} if scheme in BOUNDED else {}
    if inside:
        scheme, parameters = "consistent", {"epsilon": epsilon, "allocation": scheme}
    row = simulated(scheme, stream, workers, sources, parameters=parameters)[0]
    bins = workers * (VIRTUAL_WORKERS if scheme == "consistent" else 1)
    return [
        {
            "symbol": symbol,
            "workers": workers,
            "sources": sources,
            "epsilon": epsilon,
            "bins": bins,
            "messages": row["messages"],
            "keys": row["keys"],
            "normalised": max(0.0, row["max_over_mean"] - 1),
            "memory": row["memory"],
        }
    ]


def _plot_loads(x: str, xlabel: str, panels: str | None = None, logx: bool = False) -> Any:
    """Draw imbalance and memory, each on log axes, in panels for the values of ``panels``."""

    def plot(figure: Any, rows: Rows) -> None:
        long = [
            {x: row[x], "symbol": row["symbol"], "value": row[key], "panel": name + _suffix(row, panels)}
            for key, name in (("normalised", "normalised imbalance"), ("memory", "memory relative to KG"))
            for row in rows
        ]
        lines(
            figure,
            long,
            x=x,
            y="value",
            series="symbol",
            panels="panel",
            logx=logx,
            logy=True,
            own_scale=True,
            xlabel=xlabel,
            ylabel=" ",
        )

    return plot


def _suffix(row: Row, panels: str | None) -> str:
    return "" if panels is None else f", {row[panels]}{'' if panels == 'data' else f' {panels}'}"


def _bounded(symbol: str) -> Callable[[Rows], Judgement]:
    """Judge that no imbalance exceeds epsilon by more than the rounding to whole messages."""

    def judged(rows: Rows) -> Judgement:
        own = select(rows, symbol=symbol)
        worst = max(own, key=lambda row: row["normalised"] - bound(row))
        verdict = HOLDS if worst["normalised"] <= bound(worst) * (1 + 1e-9) else DIFFERS
        where = f"{worst['bins']} bins" + (f", {worst['data']}" if "data" in worst else "")
        return Judgement(
            verdict,
            f"{len(own)} settings; at worst {worst['normalised']:.6g} of {bound(worst):.6g} ({where})",
        )

    return judged


# Fig. 4: allocation to virtual workers, by skew


def _skew_points(setting: Setting) -> list[Row]:
    return [
        {
            "symbol": symbol,
            "stream": zipf(z, 1e5, setting.pick(1e6, 1e7)),
            "workers": bins,
            "epsilon": 0.3,
            "labels": {"z": z},
        }
        for bins in (10, 100, 1000)
        for z in setting.pick((0.4, 1.0, 1.6, 2.0), SKEWS)
        for symbol in setting.schemes("KG", "PKG", "PoTC", "PoRC", "CH", "SG")
    ]


def _grows_with_skew_and_bins(rows: Rows) -> Judgement:
    checks = []
    for symbol in ("KG", "PKG"):
        own = [row for row in select(rows, symbol=symbol) if row["z"] >= 1]
        for row in own:
            larger = [other for other in own if other["z"] == row["z"] and other["bins"] == 10 * row["bins"]]
            steeper = [other for other in own if other["bins"] == row["bins"] and other["z"] > row["z"]]
            checks += [other["normalised"] > row["normalised"] for other in [*larger, *steeper[:1]]]
    return share_of(checks, "steps to ten times the bins or the next skew, z >= 1, that raise KG's or PKG's")


def _others_do_well(rows: Rows) -> Judgement:
    checks = [row["normalised"] <= 0.05 for row in rows if row["symbol"] in ("PoTC", "SG")]
    checks += [
        row["normalised"] <= bound(row) * (1 + 1e-9) for row in rows if row["symbol"] in ("PoRC", "CH")
    ]
    return share_of(checks, "settings: PoTC and SG within 5 percent, PoRC and CH within epsilon")


def _memory_is_the_price(rows: Rows) -> Judgement:
    checks = []
    for own in by_symbol(rows, "bins", "z"):
        most = min(own["PoTC"]["memory"], own["SG"]["memory"])
        middle = [own[symbol]["memory"] for symbol in ("PKG", "PoRC", "CH")]
        checks.append(own["KG"]["memory"] == 1 and all(1 <= memory <= most * 1.001 for memory in middle))
    return share_of(checks, "settings with KG least, PoTC and SG most")


# Table 1: normalised imbalance on WP and TW by the number of virtual workers


def _table_points(setting: Setting) -> list[Row]:
    return [
        {"data": name, "stream": setting.stream(name), "bins": bins, "symbols": _table_symbols(setting)}
        for name in ("WP", "TW")
        for bins in (10, 100, 1000, 10_000)
    ]


def _table_symbols(setting: Setting) -> list[str]:
    return setting.schemes("KG", "PKG", "PoTC", "SG", "PoRC", "CH")


def measure_table(data: str, stream: str, bins: int, symbols: list[str]) -> list[Row]:
    """Measure one column of Table 1, with the share of the hottest key."""
    found = survey(open_stream(stream), counts=True, seconds=False)
    assert found.counts is not None
    same = {"data": data, "p1": float(found.counts.max() / found.messages)}
    return [{**row, **same} for symbol in symbols for row in measure_loads(symbol, stream, bins, epsilon=0.3)]


def _plot_table(figure: Any, rows: Rows) -> None:
    lines(
        figure,
        rows,
        x="bins",
        y="normalised",
        series="symbol",
        panels="data",
        logx=True,
        logy=True,
        xlabel="virtual workers",
        ylabel="normalised imbalance",
    )


def _by_the_hottest_key(rows: Rows) -> Judgement:
    """KG's n p1 - 1, PKG's n p1 / 2 - 1, give or take what else is on that worker (about 1)."""
    checks = []
    for row in rows:
        homes = {"KG": 1, "PKG": 2}.get(row["symbol"])
        if homes and row["bins"] >= 1000:
            checks.append(abs(row["normalised"] - (row["bins"] * row["p1"] / homes - 1)) <= 2)
    return share_of(checks, "of KG's and PKG's values at 10^3 and 10^4 within 2 of n p1 / homes - 1")


def _tw_as_printed(rows: Rows) -> Judgement:
    return near(pick(rows, data="TW", symbol="KG", bins=10_000)["normalised"], 2469, within=0.2)


def _wp_as_printed(rows: Rows) -> Judgement:
    return near(pick(rows, data="WP", symbol="KG", bins=10_000)["normalised"], 931, within=0.2)


def _nearly_perfect(rows: Rows) -> Judgement:
    """Lemma 6.2: max - mean is O(ln ln n), in messages; SG's is below one."""
    gaps = {
        symbol: max(row["normalised"] * row["messages"] / row["bins"] for row in select(rows, symbol=symbol))
        for symbol in ("PoTC", "SG")
    }
    limit = np.log(np.log(10_000)) / np.log(2) + 2
    verdict = HOLDS if gaps["PoTC"] <= limit and gaps["SG"] < 1 + 1e-9 else DIFFERS
    return Judgement(
        verdict, f"max - mean at worst {gaps['PoTC']:.2f} (PoTC), {gaps['SG']:.2f} (SG) messages"
    )


def _exactly_epsilon(rows: Rows) -> Judgement:
    own = [row for row in rows if row["symbol"] in ("PoRC", "CH")]
    checks = [row["normalised"] >= 0.29 and row["normalised"] <= bound(row) * (1 + 1e-9) for row in own]
    return share_of(checks, "values between 0.29 and epsilon + bins/m")


# Fig. 5: epsilon


def _epsilon_points(setting: Setting) -> list[Row]:
    values = setting.pick((0.001, 0.01, 0.1, 1.0, 10.0), (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0))
    return [
        {"symbol": symbol, "stream": stream, "epsilon": epsilon, "data": name}
        for name, stream in pages(setting)
        for symbol, epsilons in (("KG", values[:1]), ("SG", values[:1]), ("CG", values))
        for epsilon in epsilons
    ]


def measure_epsilon(symbol: str, stream: str, epsilon: float, data: str) -> list[Row]:
    """Measure CG with one epsilon, and on how many virtual workers PoRC puts the hottest key."""
    row = measure_loads(symbol, stream, 10, epsilon=epsilon, inside=symbol != "CG")[0]
    row["data"] = data
    if symbol == "CG":
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


def _plot_epsilon(figure: Any, rows: Rows) -> None:
    """Draw CG over epsilon, KG and SG as level lines."""
    epsilons = sorted({row["epsilon"] for row in rows})
    level = [
        {**row, "epsilon": epsilon}
        for row in rows
        if row["symbol"] != "CG"
        for epsilon in (epsilons[0], epsilons[-1])
    ]
    several = len({row["data"] for row in rows}) > 1
    _plot_loads("epsilon", "epsilon", "data" if several else None, logx=True)(
        figure, [*select(rows, symbol="CG"), *level]
    )


def _trades(rows: Rows) -> Judgement:
    checks = []
    for data in dict.fromkeys(row["data"] for row in rows):
        own = sorted(select(rows, symbol="CG", data=data), key=lambda row: float(row["epsilon"]))
        for low, high in pairwise(own):
            checks.append(low["normalised"] <= high["normalised"] * 1.02)
            checks.append(low["memory"] >= high["memory"] * 0.98)
    return share_of(checks, "steps to a larger epsilon with more imbalance or less memory")


def _interpolates(rows: Rows) -> Judgement:
    checks, parts = [], []
    for data in dict.fromkeys(row["data"] for row in rows):
        own = sorted(select(rows, symbol="CG", data=data), key=lambda row: float(row["epsilon"]))
        key, shuffle = pick(rows, symbol="KG", data=data), pick(rows, symbol="SG", data=data)
        checks.append(all(1 <= row["memory"] <= shuffle["memory"] for row in own))
        checks.append(all(row["normalised"] <= key["normalised"] for row in own))
        checks.append(own[-1]["memory"] <= 1.05 and own[0]["normalised"] <= 0.005)
        parts.append(
            f"memory {own[-1]['memory']:.2f} to {own[0]['memory']:.2f} of SG's {shuffle['memory']:.2f}"
        )
    return Judgement(share_of(checks, "").verdict, "; ".join(parts))


def _never_everywhere(rows: Rows) -> Judgement:
    own = [row for row in rows if row["symbol"] == "CG" and row["epsilon"] > 1 / (row["bins"] - 1)]
    checks = [row["hottest_on"] < row["bins"] for row in own]
    most = max(row["hottest_on"] for row in own)
    return Judgement(HOLDS if all(checks) else DIFFERS, f"hottest key on at most {most} of {own[0]['bins']}")


# Fig. 6, 9: allocations inside CG; schemes


def _allocation_points(setting: Setting) -> list[Row]:
    return [
        {
            "symbol": symbol,
            "stream": stream,
            "workers": n,
            "inside": True,
            "labels": {"data": name},
        }
        for name, stream in pages(setting)
        for n in WORKERS
        for symbol in ("KG", "PKG", "PoTC", "PoRC", "CH", "SG")
    ]


def _scheme_points(setting: Setting) -> list[Row]:
    return [
        {"symbol": symbol, "stream": stream, "workers": n, "labels": {"data": name}}
        for name, stream in pages(setting)
        for n in WORKERS
        for symbol in setting.schemes("KG", "PKG", "PoTC", "CH", "SG", "CG")
    ]


def _plot_workers(figure: Any, rows: Rows) -> None:
    several = len({row["data"] for row in rows}) > 1
    _plot_loads("workers", "workers", "data" if several else None)(figure, rows)


def _high_against_perfect(rows: Rows) -> Judgement:
    checks = []
    for own in by_symbol(rows, "data", "workers"):
        if next(iter(own.values()))["workers"] >= 50:
            high = min(own[symbol]["normalised"] for symbol in ("KG", "PKG"))
            low = max(own[symbol]["normalised"] for symbol in ("PoTC", "SG"))
            checks.append(high > 0.5 and low < EPSILON)
    return share_of(checks, "settings at 50 and 100 workers: KG, PKG above 0.5, PoTC, SG below epsilon")


def _grows_linearly(rows: Rows) -> Judgement:
    ratios = [
        pick(rows, symbol=symbol, data=data, workers=100)["normalised"]
        / pick(rows, symbol=symbol, data=data, workers=10)["normalised"]
        for data in dict.fromkeys(row["data"] for row in rows)
        for symbol in ("KG", "PKG")
    ]
    ok = all(5 <= ratio <= 20 for ratio in ratios)
    up = all(ratio > 1 for ratio in ratios)
    text = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return Judgement(HOLDS if ok else DIRECTION if up else DIFFERS, f"from 10 to 100 workers {text} times")


def _memory_ratio(symbol: str, other: str) -> Callable[[Rows], float]:
    def ratio(rows: Rows) -> float:
        return max(own[symbol]["memory"] / own[other]["memory"] for own in by_symbol(rows, "data", "workers"))

    return ratio


def _as_low_as_pkg(rows: Rows) -> Judgement:
    return at_most(_memory_ratio("PoRC", "PKG")(rows), 1.25, loosely=10**0.5, spelled="{:.2f} times PKG's")


def _key_is_worst(rows: Rows) -> Judgement:
    checks = []
    for own in by_symbol(rows, "data", "workers"):
        worst = max(row["normalised"] for row in own.values())
        checks.append(own["KG"]["normalised"] == worst and own["KG"]["memory"] == 1)
    return share_of(checks, "settings with KG's imbalance highest and its memory 1")


def _pkg_fails_at_scale(rows: Rows) -> Judgement:
    few = [row["normalised"] for row in select(rows, symbol="PKG") if row["workers"] <= 10]
    many = [row["normalised"] for row in select(rows, symbol="PKG") if row["workers"] >= 50]
    verdict = (
        HOLDS if max(few) < EPSILON and min(many) > 0.5 else DIRECTION if max(few) < min(many) else DIFFERS
    )
    return Judgement(verdict, f"at most {max(few):.2g} up to 10 workers, at least {min(many):.2g} from 50 on")


def _perfect_and_large(rows: Rows) -> Judgement:
    checks = []
    for own in by_symbol(rows, "data", "workers"):
        for symbol in ("PoTC", "SG"):
            most = max(own[other]["memory"] for other in ("KG", "PKG", "CH", "CG"))
            checks.append(own[symbol]["normalised"] < EPSILON and own[symbol]["memory"] > most)
    return share_of(checks, "settings with PoTC's and SG's imbalance below epsilon and memory highest")


def _ch_between(rows: Rows) -> Judgement:
    checks = []
    for own in by_symbol(rows, "data", "workers"):
        most = min(own[other]["memory"] for other in ("PoTC", "SG"))
        checks.append(own["CH"]["normalised"] <= bound(own["CH"]) * (1 + 1e-9) and own["CH"]["memory"] < most)
    return share_of(checks, "settings with CH within epsilon and less memory than PoTC and SG")


def _cg_below_ch(rows: Rows) -> Judgement:
    ratios = [own["CG"]["memory"] / own["CH"]["memory"] for own in by_symbol(rows, "data", "workers")]
    verdict = HOLDS if max(ratios) < 1 else DIRECTION if np.mean(ratios) < 1 else DIFFERS
    return Judgement(verdict, f"CG's memory {min(ratios):.2f} to {max(ratios):.2f} of CH's")


# Fig. 10: sources


def _source_points(setting: Setting) -> list[Row]:
    return [
        {"symbol": "CG", "stream": stream, "workers": n, "sources": sources, "labels": {"data": name}}
        for name, stream in pages(setting)
        for n in WORKERS
        for sources in setting.pick((1, 10, 100), (1, 10, 50, 100))
    ]


def _plot_sources(figure: Any, rows: Rows) -> None:
    named = [{**row, "symbol": f"{row['workers']} workers"} for row in rows]
    several = len({row["data"] for row in rows}) > 1
    _plot_loads("sources", "sources", "data" if several else None, logx=True)(figure, named)
    for panel in figure.axes:  # the paper's claim is about decades
        low, high = panel.get_ylim()
        panel.set_ylim(low / 3, high * 3)


def _same_on_a_log_scale(over: str, within: float) -> Callable[[Rows], Judgement]:
    """Judge that imbalance and memory of the longest stream change less than ``within`` times."""
    fixed = {"sources": "workers", "workers": "sources"}[over]

    def judged(rows: Rows) -> Judgement:
        longest = max(row["messages"] for row in rows)
        worst = dict.fromkeys(("normalised", "memory"), 1.0)
        for value in dict.fromkeys(row[fixed] for row in rows):
            own = select(rows, messages=longest, **{fixed: value})
            for key in worst:
                found = [row[key] for row in own]
                worst[key] = max(worst[key], max(found) / min(found))
        top = max(worst.values())
        verdict = HOLDS if top <= within else DIRECTION if top <= 10 * within else DIFFERS
        return Judgement(
            verdict, f"imbalance {worst['normalised']:.2f}, memory {worst['memory']:.2f} times at most"
        )

    return judged


# Table 2


def _data_points(setting: Setting) -> list[Row]:
    named = [(name, setting.stream(name)) for name in ("WP", "TW")]
    return [{"data": name, "stream": stream} for name, stream in [*named, ("ZF", zipf(1.0, 1e5, 1e6))]]


_SHORT = "The stand-in for WP is twelve times shorter than WP."

EXPERIMENTS = [
    Experiment(
        "heterogeneous",
        "fig4",
        "Imbalance and memory of the allocations by skew",
        "Zipf, 10^5 keys, one source, epsilon 0.3; 10, 100 and 1000 virtual workers.",
        _skew_points,
        measure_loads,
        _plot_loads("z", "skew z", "bins"),
        (
            Claim(
                "5.1",
                "hashing and PKG grow uneven as skew and virtual workers grow",
                "both rise",
                _grows_with_skew_and_bins,
            ),
            Claim("5.1", "the other schemes perform fairly well", "low imbalance", _others_do_well),
            Claim(
                "6.1",
                "PoRC's imbalance is at most epsilon",
                "<= epsilon + bins/m",
                _bounded("PoRC"),
                peer="exactly epsilon on every skewed stream",
            ),
            Claim(
                "5.1",
                "balance is paid for with memory",
                "KG least, PoTC and SG most",
                _memory_is_the_price,
            ),
        ),
    ),
    Experiment(
        "heterogeneous",
        "table1",
        "Normalised imbalance on WP and TW by the number of virtual workers",
        f"One source, epsilon 0.3. {LAW}",
        _table_points,
        measure_table,
        _plot_table,
        (
            Claim(
                "5.1",
                "KG's imbalance is that of the hottest key, PKG's of half of it",
                "n p1 - 1, n p1 / 2 - 1",
                _by_the_hottest_key,
            ),
            Claim(
                "5.1",
                "KG at 10^4 virtual workers on WP",
                "931",
                _wp_as_printed,
                "the stand-in's p1 is another",
            ),
            Claim(
                "5.1",
                "KG at 10^4 virtual workers on TW",
                "2469",
                _tw_as_printed,
                "2469 = n p1 - 1 needs p1 = 24.7 percent; Table 2 gives TW 2.67, the stand-in has 4.3.",
            ),
            Claim(
                "5.1, 6.1",
                "PoTC and SG are nearly perfect",
                "max - mean O(ln ln n) and below 1 message",
                _nearly_perfect,
            ),
            Claim("5.1", "PoRC and CH reach epsilon and no more", "0.3", _exactly_epsilon),
        ),
    ),
    Experiment(
        "heterogeneous",
        "fig5",
        "Imbalance and memory of CG by epsilon",
        f"10 workers with 10 virtual workers each, one source; KG and SG on the same ones. {LAW}",
        _epsilon_points,
        measure_epsilon,
        _plot_epsilon,
        (
            Claim("7.2 Q1", "epsilon trades imbalance for memory", "monotone", _trades),
            Claim("7.2 Q1", "CG lies between KG and SG", "between", _interpolates),
            Claim("6.1", "CG's imbalance is at most epsilon", "<= epsilon + bins/m", _bounded("CG")),
            Claim(
                "6.2",
                "with epsilon > 1/(n - 1) no key is on all virtual workers",
                "fewer than 100",
                _never_everywhere,
            ),
        ),
    ),
    Experiment(
        "heterogeneous",
        "fig6",
        "Imbalance and memory of CG by allocation",
        f"Equal workers with 10 virtual workers each, one source, epsilon 0.01. {LAW}",
        _allocation_points,
        measure_loads,
        _plot_workers,
        (
            Claim(
                "7.2 Q1",
                "KG and PKG are uneven, PoTC and SG nearly perfect",
                "high, and near 0",
                _high_against_perfect,
            ),
            Claim("7.2 Q1", "PoRC's imbalance is close to epsilon", "<= epsilon + bins/m", _bounded("PoRC")),
            Claim("7.2 Q1", "CH's imbalance is close to epsilon", "<= epsilon + bins/m", _bounded("CH")),
            Claim(
                "7.2 Q1",
                "KG's and PKG's imbalance grows linearly with the workers",
                "10 times from 10 to 100",
                _grows_linearly,
            ),
            Claim(
                "7.2 Q1",
                "PoRC needs as little memory as PKG",
                "about 1 (log scale)",
                _as_low_as_pkg,
                "PoRC splits every key that meets a full bin, PKG none into more than two.",
            ),
        ),
    ),
    Experiment(
        "heterogeneous",
        "fig9",
        "Imbalance and memory of the schemes",
        f"Equal workers, one source, epsilon 0.01; CG with 10 virtual workers each. {LAW}",
        _scheme_points,
        measure_loads,
        _plot_workers,
        (
            Claim("7.2 Q2", "KG is the least even and has the least memory", "worst, 1", _key_is_worst),
            Claim(
                "7.2 Q2",
                "PKG is nearly perfect with 5 and 10 workers and grows uneven beyond",
                "near 0, then high",
                _pkg_fails_at_scale,
            ),
            Claim(
                "7.2 Q2", "PoTC and SG are nearly perfect and need more memory", "most", _perfect_and_large
            ),
            Claim("7.2 Q2", "CH is bounded and needs less memory than PoTC and SG", "less", _ch_between),
            Claim("7.2 Q2", "CG is bounded", "<= epsilon + bins/m", _bounded("CG")),
            Claim("7.2 Q2", "CG needs less memory than CH", "below 1", _cg_below_ch),
        ),
    ),
    Experiment(
        "heterogeneous",
        "fig10",
        "Imbalance and memory of CG by sources and workers",
        f"Equal workers with 10 virtual workers each, epsilon 0.01. {LAW}",
        _source_points,
        measure_loads,
        _plot_sources,
        (
            Claim(
                "7.2 Q3",
                "more sources change imbalance and memory little, on a log scale",
                "within half a decade",
                _same_on_a_log_scale("sources", 10**0.5),
                _SHORT,
            ),
            Claim(
                "7.2 Q3",
                "more workers change imbalance and memory little, on a log scale",
                "within a decade",
                _same_on_a_log_scale("workers", 10),
                _SHORT,
            ),
            Claim(
                "6.1",
                "CG's imbalance is at most epsilon with any number of sources",
                "<= epsilon + sources x bins/m",
                _bounded("CG"),
            ),
        ),
    ),
    Experiment(
        "heterogeneous",
        "table2",
        "The streams",
        f"Messages, keys, share of the hottest key; ZF is one of the Zipf streams. {LAW}",
        _data_points,
        measure_data,
        None,
        (
            Claim(
                "7.1",
                "sizes and skew of the streams",
                "WP 22 M, 2.9 M keys, 9.32 percent; TW 1.2 G, 31 M, 2.67",
                same_streams(WP=(22e6, 2.9e6, 0.0932), TW=(1.2e9, 31e6, 0.0267)),
            ),
        ),
    ),
]
