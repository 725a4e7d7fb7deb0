"""Fig. 9-14 and the cost of a lookup: sizes of counters and maps, time to build and to use them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from evenflow.papers.experiment import (
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
from evenflow.papers.functions.common import (
    CHANNELS,
    DEFAULTS,
    NARROW_SKEWS,
    OURS,
    SIGMAS,
    WIDE_SKEWS,
    Plot,
    averaged,
    graded,
    mean,
    spelled,
    values,
)
from evenflow.papers.functions.growth import building, looking_up, sizes
from evenflow.papers.plots import lines

_BUILT = f"CPU seconds of the last step: ring (1000 replicas, 100 buckets) and map. {DEFAULTS}"


def _runs(setting: Setting) -> range:
    return range(setting.pick(1, 5))


# Fig. 9-11: sizes


def _sigma_sizes(setting: Setting) -> list[Row]:
    return [
        {"resources": one, "sigma": sigma, "seed": seed}
        for one in ("LCL", "LLL", "LQL")
        for sigma in setting.pick([0.008, 0.1, 0.25, 0.5], SIGMAS)
        for seed in _runs(setting)
    ]


def _skew_sizes(setting: Setting) -> list[Row]:
    wide = setting.pick([0.2, 0.6, 0.8, 1.0], WIDE_SKEWS)
    narrow = setting.pick([0.25, 0.35, 0.5], NARROW_SKEWS)
    return [
        {"resources": one, "z": z, "seed": seed}
        for one in ("LCL", "LLL", "LQL")
        for z in (narrow if one == "LQL" else wide)
        for seed in _runs(setting)
    ]


def _channel_sizes(setting: Setting) -> list[Row]:
    return [
        {"resources": one, "workers": n, "seed": seed}
        for one in ("LCL", "LQL")
        for n in setting.pick([4, 8, 16, 32], CHANNELS)
        for seed in _runs(setting)
    ]


def _plot_sizes(x: str, xlabel: str, logx: bool = False) -> Plot:
    def plot(figure: Any, rows: Rows) -> None:
        left = figure.subplots()
        right = left.twinx()
        for place, resources in enumerate(dict.fromkeys(row["resources"] for row in rows)):
            own = averaged(select(rows, resources=resources), x, columns=("counted", "mapped"))
            own.sort(key=lambda row: row[x])
            for axes, column, line, name in (
                (left, "counted", "-", "counter"),
                (right, "mapped", "--", "explicit"),
            ):
                axes.plot(
                    [row[x] for row in own],
                    [row[column] for row in own],
                    linestyle=line,
                    label=f"{resources}, {name}",
                    color=f"C{place}",
                    marker="osD"[place % 3],
                    markersize=4,
                    linewidth=1.3,
                )
        left.set(xlabel=xlabel, ylabel="items in the lossy counter (solid)", yscale="log")
        right.set(ylabel="items in the explicit hash (dashed)")
        if logx:
            left.set_xscale("log")
        left.grid(alpha=0.25)
        handles = [*left.get_lines(), *right.get_lines()]
        names = [handle.get_label() for handle in handles]
        figure.legend(handles, names, loc="outside upper center", ncols=3, fontsize=7, frameon=False)

    return plot


def _grows_with_sigma(rows: Rows) -> Judgement:
    checks = []
    for one in ("LCL", "LQL"):
        found = [mean(rows, "counted", resources=one, sigma=sigma) for sigma in values(rows, "sigma")]
        checks += [low > high for low, high in pairwise(found)]
    return share_of(checks, "steps in which a lower sigma holds more")


def _overlap(rows: Rows) -> Judgement:
    checks = []
    for sigma in values(rows, "sigma"):
        linear, all_linear = (mean(rows, "counted", resources=one, sigma=sigma) for one in ("LCL", "LLL"))
        checks.append(linear == all_linear)
    return share_of(checks, "values of sigma with equal counters for LCL and LLL")


def _counter_size(resources: str, expected: float, within: float) -> Any:
    def judge(rows: Rows) -> Judgement:
        found = mean(rows, "counted", resources=resources, sigma=0.1)
        return near(found, expected, within, same_side_of=10**6)

    return judge


def _map_range(rows: Rows) -> Judgement:
    found = [row["mapped"] for row in rows]
    fair = max(found) <= 1200
    return graded(min(found) >= 1 and max(found) <= 600, fair, f"{min(found)} to {max(found)}")


def _map_size(rows: Rows) -> Judgement:
    return near(mean(rows, "mapped", resources="LCL", sigma=0.1), 50, within=0.25, same_side_of=2500)


def _same_maps(rows: Rows) -> Judgement:
    apart = []
    for sigma in values(rows, "sigma"):
        found = [mean(rows, "mapped", resources=one, sigma=sigma) for one in ("LCL", "LLL", "LQL")]
        apart.append(1 - min(found) / max(found))
    return at_most(max(apart), 0.15, loosely=0.35, spelled="{:.1%} apart")


def _by_skew(rows: Rows, column: str, resources: str) -> dict[float, float]:
    own = select(rows, resources=resources)
    return {z: mean(own, column, z=z) for z in values(own, "z")}


def _curve(found: dict[float, float]) -> str:
    return ", ".join(f"{value:.4g} at {x:g}" for x, value in found.items())


def _counter_flat(rows: Rows) -> Judgement:
    found = _by_skew(rows, "counted", "LCL")
    ratio = max(found.values()) / min(found.values())
    smaller = found[1.0] < max(found.values())
    return graded(ratio <= 2 and smaller, ratio <= 4, _curve(found))


def _quadratic_rises_then_falls(rows: Rows) -> Judgement:
    found = _by_skew(rows, "counted", "LQL")
    highest = max(found, key=found.__getitem__)
    return graded(min(found) < highest < max(found), False, _curve(found))


def _map_superlinear(rows: Rows) -> Judgement:
    found = _by_skew(rows, "mapped", "LCL")
    first, second = found[0.8] - found[0.6], found[1.0] - found[0.8]
    return graded(second > first > 0, second > 0, _curve(found))


def _linear_in_channels(rows: Rows) -> Judgement:
    own = select(rows, resources="LCL")
    fits = {}
    for column in ("counted", "mapped"):
        pairs = np.array([[row["workers"], row[column]] for row in own], float)
        fits[column] = float(np.corrcoef(pairs.T)[0, 1] ** 2)
    least = min(fits.values())
    return graded(least >= 0.97, least >= 0.9, f"R^2 of straight lines: {spelled(fits)}")


# Fig. 12-14: time of construction


def _time_points(vary: str, small: list[Any], paper: list[Any]) -> Any:
    def points(setting: Setting) -> list[Row]:
        return [
            {"algorithm": name, vary: value, "seed": seed}
            for name in OURS
            for value in setting.pick(small, paper)
            for seed in _runs(setting)
        ]

    return points


def _plot_times(x: str, xlabel: str, logx: bool = False) -> Plot:
    def plot(figure: Any, rows: Rows) -> None:
        own = averaged(rows, x, "algorithm", columns=("ring_seconds", "map_seconds"))
        long = []
        for row in own:
            name, ring, mapping = row["algorithm"], row["ring_seconds"], row["map_seconds"]
            long.append({x: row[x], "series": name, "seconds": ring + mapping})
            long.append({x: row[x], "series": f"{name}, map alone", "seconds": mapping})
            if name == "scan":
                long.append({x: row[x], "series": "ring alone", "seconds": ring})
        lines(figure, long, x, "seconds", "series", xlabel=xlabel, ylabel="CPU seconds", logx=logx, logy=True)

    return plot


def _seconds(rows: Rows, algorithm: str, **where: Any) -> float:
    return mean(rows, "map_seconds", algorithm=algorithm, **where)


def _readj_explodes(rows: Rows) -> Judgement:
    low, default = _seconds(rows, "readj", sigma=0.008), _seconds(rows, "readj", sigma=0.1)
    ratio = low / default
    return graded(ratio >= 200, ratio >= 20, f"{low:.2g} s and {default:.2g} s, {ratio:.0f} times")


def _redist_half_second(rows: Rows) -> Judgement:
    seconds = _seconds(rows, "redist", sigma=0.008)
    return graded(seconds <= 0.6, False, f"{seconds:.2g} s")


def _scan_cheapest(by: str) -> Any:
    def judge(rows: Rows) -> Judgement:
        checks = []
        for value in values(rows, by):
            if mean(rows, "items", **{by: value}) >= 20:  # with few keys there is nothing to compare
                scan, redist, readj = (_seconds(rows, name, **{by: value}) for name in OURS)
                checks += [scan <= redist, redist <= readj]
        return share_of(checks, "comparisons in the order scan, redist, readj")

    return judge


def _superlinear(rows: Rows) -> Judgement:
    first, last = 8, max(values(rows, "workers"))
    exponents = {}
    for name in OURS:
        rise = _seconds(rows, name, workers=last) / _seconds(rows, name, workers=first)
        exponents[name] = float(np.log(rise) / np.log(last / first))
    checks = [value > 1 for value in exponents.values()]
    return graded(all(checks), any(checks), f"N to the power of: {spelled(exponents)}")


def _against_ring(rows: Rows, *names: str) -> dict[str, float]:
    last = max(values(rows, "workers"))
    ring = mean(rows, "ring_seconds", workers=last)
    return {name: _seconds(rows, name, workers=last) / ring for name in names}


def _scan_like_ring(rows: Rows) -> Judgement:
    found = _against_ring(rows, "scan")
    return graded(0.5 <= found["scan"] <= 2, found["scan"] < 0.5, f"map / ring: {spelled(found)}")


def _others_above_ring(rows: Rows) -> Judgement:
    found = _against_ring(rows, "redist", "readj")
    above = [value > 2 for value in found.values()]
    return graded(all(above), any(above), f"map / ring: {spelled(found)}")


def _scan_insensitive(rows: Rows) -> Judgement:
    own = select(rows, algorithm="scan")
    found = [mean(own, "map_seconds", z=z) + mean(own, "ring_seconds", z=z) for z in values(own, "z")]
    return at_most(max(found) / min(found), 1.5, loosely=3)


def _rises_after(rows: Rows) -> Judgement:
    rise = {name: _seconds(rows, name, z=1.0) / _seconds(rows, name, z=0.8) for name in ("redist", "readj")}
    both = min(rise.values()) > 1.5
    return graded(both and rise["readj"] > rise["redist"], both, f"from z = 0.8 to 1: times {spelled(rise)}")


# lookup


def _lookup_points(setting: Setting) -> list[Row]:
    return [{"workers": n} for n in setting.pick([4, 32], [4, 8, 16, 32, 64, 100])]


def _plot_lookup(figure: Any, rows: Rows) -> None:
    lines(figure, rows, "workers", "nanoseconds", "way", xlabel="channels N", ylabel="ns per message")


def _constant_lookup(rows: Rows) -> Judgement:
    low, *_, high = values(rows, "workers")
    few, many = (pick(rows, way="map and ring", workers=n)["nanoseconds"] for n in (low, high))
    found = at_least(few / many, 0.5, loosely=0.25)
    return Judgement(found.verdict, f"{few:.3g} ns at N = {low}, {many:.3g} ns at N = {high}")


EXPERIMENTS = [
    Experiment(
        "functions",
        "fig9",
        "Size of the partitioning function by sigma",
        f"Lossy counting over windows of |D| messages, epsilon = 0.1 delta. {DEFAULTS}",
        _sigma_sizes,
        sizes,
        _plot_sizes("sigma", "sigma", logx=True),
        (
            Claim("5.4", "the counter grows as sigma falls", "grows", _grows_with_sigma),
            Claim("5.4", "the counter is the same for LCL and LLL", "lines overlap", _overlap),
            Claim(
                "5.4",
                "around 2500 items are counted at sigma = 0.1",
                "2500",
                _counter_size("LCL", 2500, 0.25),
            ),
            Claim("5.4", "50,000 items are counted for LQL", "50000", _counter_size("LQL", 50_000, 0.3)),
            Claim("5.4", "the explicit hash has 1 to 500 items", "1-500", _map_range),
            Claim("5.4", "the explicit hash has around 50 items at sigma = 0.1", "50", _map_size),
            Claim(
                "5.4",
                "the explicit hash has the same size for all resource functions",
                "lines overlap",
                _same_maps,
            ),
        ),
    ),
    Experiment(
        "functions",
        "fig10",
        "Size of the partitioning function by skew",
        f"LQL up to z = 0.5. {DEFAULTS}",
        _skew_sizes,
        sizes,
        _plot_sizes("z", "skew z"),
        (
            Claim("5.4", "the counter is mostly flat, a little smaller at high skew", "flat", _counter_flat),
            Claim(
                "5.4",
                "for LQL the counter rises, then falls a little",
                "rises, falls",
                _quadratic_rises_then_falls,
            ),
            Claim("5.4", "the explicit hash grows faster and faster", "super-linear", _map_superlinear),
        ),
    ),
    Experiment(
        "functions",
        "fig11",
        "Size of the partitioning function by the number of channels",
        DEFAULTS,
        _channel_sizes,
        sizes,
        _plot_sizes("workers", "channels N"),
        (Claim("5.4", "counter and explicit hash grow linearly in N", "linear", _linear_in_channels),),
    ),
    Experiment(
        "functions",
        "fig12",
        "Construction time by sigma",
        _BUILT,
        _time_points("sigma", [0.008, 0.1], SIGMAS),
        building,
        _plot_times("sigma", "sigma", logx=True),
        (
            Claim(
                "5.5",
                "readj takes around 10 s at sigma = 0.008 and less than 0.05 s at 0.1",
                "at least 200 times",
                _readj_explodes,
            ),
            Claim(
                "5.5",
                "redist takes slightly above 0.5 s at sigma = 0.008",
                "<= 0.6 s",
                _redist_half_second,
                peer="redist in Scala: 40-290 ms for 50-100 items on 10-50 channels",
            ),
            Claim("5.5", "scan is cheapest, readj dearest", "scan, redist, readj", _scan_cheapest("sigma")),
        ),
    ),
    Experiment(
        "functions",
        "fig13",
        "Construction time by the number of channels",
        _BUILT,
        _time_points("workers", [4, 8, 16, 32], CHANNELS),
        building,
        _plot_times("workers", "channels N"),
        (
            Claim("5.5", "all algorithms are super-linear in N", "N^x, x > 1", _superlinear),
            Claim("5.5", "scan is cheapest", "scan, redist, readj", _scan_cheapest("workers")),
            Claim(
                "5.5",
                "scan's map takes about as long as the ring",
                "1",
                _scan_like_ring,
                peer="scan in Scala: 3-9 ms for 50-100 items on 10-50 channels",
            ),
            Claim(
                "5.5",
                "the others' maps take significantly longer than the ring",
                "> 2",
                _others_above_ring,
                "maps are built by compiled code in O(1) per placement tried, redist trying two per key, and "
                "are cheaper than sorting the ring's 1000 N points",
            ),
        ),
    ),
    Experiment(
        "functions",
        "fig14",
        "Construction time by skew",
        _BUILT,
        _time_points("z", [0.2, 0.8, 0.9, 1.0], WIDE_SKEWS),
        building,
        _plot_times("z", "skew z"),
        (
            Claim("5.5", "scan's time hardly depends on the skew", "flat", _scan_insensitive),
            Claim("5.5", "redist's and readj's rise after z = 0.8, readj's faster", "rise", _rises_after),
        ),
    ),
    Experiment(
        "functions",
        "lookup",
        "Cost of a lookup",
        "Nanoseconds per message, Zipf z = 1, 10^6 keys: ring alone, map and ring, the same with counting.",
        _lookup_points,
        looking_up,
        _plot_lookup,
        (Claim("4.1.1", "a lookup takes O(1)", "flat in N", _constant_lookup),),
    ),
]
