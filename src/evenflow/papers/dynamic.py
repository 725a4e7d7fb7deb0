"""`dynamic`: Dalabasmaz and Can, "Dynamic Key Grouping".

Table 1-3 and Fig. 9-13. Fig. 1-8 are drawings. The paper ran Storm; here the queueing model: messages come as
fast as shuffle grouping can just serve them, over as many seconds as the paper's runs took; "latency" is the
time until the last one is done (the paper's word for the run's elapsed time) and throughput is messages over
that time (Eq. 6).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

import evenflow as ef
from evenflow.papers import rules as r
from evenflow.papers.data import GENERATED
from evenflow.papers.experiment import Claim, Experiment, Row, RunConfig
from evenflow.papers.figures import Bars, Lines, melted
from evenflow.papers.grid import at, grid, joined, schemes, streams
from evenflow.papers.measures import data_points, measure_data, simulated, zipf
from evenflow.papers.table import Table
from evenflow.schemes.dynamic_key import DynamicKeyRouter, threshold_for, width_limit_for
from evenflow.streams import open_stream

SCHEMES = ("shuffle", "key", "partial-key", "dynamic-key")
DKG, PKG = "dynamic-key", "partial-key"
SKEWS = list(range(0, 101, 10))
SECONDS = 1000.0  # what the paper's runs take at SG's speed: DKG looks at its keys every 15 and 60 seconds
MODEL = "Queueing model, ten workers saturated under shuffle grouping; the paper ran Storm."
ELECTION = "twitter-election is generated: one key with 68 percent of the messages, and rare keys."
METRICS = {
    "makespan": "latency (elapsed), s",
    "standard_deviation": "StdDev, percent",
    "distribution_cost": "DistCost",
    "throughput": "throughput, 1/s",
}
STREAMS = ("twitter-ticker", "wikipedia-clickstream", "wikipedia-pageviews", "wikipedia-pageviews-by-lang")
SKEWNESS = {"twitter-election": 0.68, "twitter-ticker": 0.10, "wikipedia-clickstream": 0.10,
            "wikipedia-pageviews": 0.09, "wikipedia-pageviews-by-lang": 0.27}  # fmt: skip
ALIKE = ("twitter-ticker", "wikipedia-pageviews", "wikipedia-pageviews-by-lang")  # Fig. 9b, 9d, 9e
HALF = "country-half-skew-r80"
PRINTED = {5: (24.47, 5), 10: (13.16, 8), 20: (7.24, 14), 50: (3.41, 30), 100: (2.0, 51)}


def countries(skew: int, messages: float) -> str:
    """Spell the country stream of a skew in percent."""
    return f"countries:skew={skew},messages={int(messages)},seed=1"


def election(config: RunConfig) -> str:
    """Return the user's twitter-election, or the generated one in the length of the scale."""
    spec = config.stream("twitter-election")
    if spec != GENERATED["twitter-election"]:
        return spec
    return f"election:messages={config.pick(500_000, 5_000_000)},seed=18"


# Points


def _point(scheme: str, stream: str, workers: int = 10, sources: int = 5, **labels: Any) -> Row:
    """Return a point; workers are as fast as ten that can just serve the stream, however many there are."""
    messages = open_stream(stream).messages or 10**6
    queueing = {"rate": messages / SECONDS, "load": 10 / workers}
    point = {"scheme": scheme, "stream": stream, "workers": workers, "sources": sources}
    return point | {"queueing": queueing, "labels": labels}


def _real_point(data: tuple[str, str], scheme: str) -> Row:
    name, stream = data
    return _point(scheme, stream, data=name)


def _country_point(skew: int, messages: float, scheme: str) -> Row:
    return _point(scheme, countries(skew, messages), skew=skew)


def _half_point(messages: float, scheme: str) -> Row:
    return _point(scheme, f"{countries(80, messages)},then=0", data=HALF)


def _data_points(config: RunConfig) -> list[Row]:
    messages = config.pick(1e5, 1e7)
    made = {f"country-skew-r{skew}": countries(skew, messages) for skew in SKEWS}
    made[HALF] = f"{countries(80, messages)},then=0"
    return data_points("twitter-election", *STREAMS, **made)(config)


def _real_streams(config: RunConfig) -> list[tuple[str, str]]:
    return [("twitter-election", election(config)), *streams(*STREAMS)(config)]


def _width_point(data: str, workers: int, messages: float, scheme: str) -> Row:
    made = {HALF: f"{countries(80, messages)},then=0", "Zipf": zipf(1.4, 1e4, messages)}
    return {"scheme": scheme, "stream": made[data], "workers": workers, "labels": {"data": data}}


_WIDTH_POINTS = joined(*(grid(_width_point, data=data, workers=workers, messages=at(3e5, 1e7), scheme=DKG)
                         for data, workers in ((HALF, 10), ("Zipf", 100))))  # fmt: skip
_COMPARED = schemes(*SCHEMES, "fill")
_SKEW_POINTS = grid(_country_point, skew=at([0, 20, 30, 50, 80, 100], SKEWS), messages=at(3e5, 1e7),
                    scheme=_COMPARED)  # fmt: skip
_HALF_POINTS = grid(_half_point, messages=at(3e5, 1e7), scheme=_COMPARED)


def _measure_thresholds(workers: int) -> list[Row]:
    found = {"ideal": 100 / workers, "threshold": threshold_for(workers), "widest": width_limit_for(workers)}
    return [{"workers": workers, **found}]


def _measure_widths(scheme: str, stream: str, workers: int) -> list[Row]:
    """Route a stream from one source over the seconds of a run; a row per tenth of it.

    ``hottest``: workers that the key of the most messages may go to; ``wide``: keys with more than two;
    ``found``: how many of the keys whose share is above twice the threshold have had more than two so far;
    ``due``: how many such keys there are.
    """
    opened = open_stream(stream)
    ids = np.concatenate([chunk.ids.copy() for chunk in opened.chunks()])
    counts = np.bincount(ids)
    times = np.arange(ids.size) * (SECONDS / ids.size)
    hot = np.flatnonzero(counts > 2 * threshold_for(workers) / 100 * ids.size)
    due = {int(key) for key in opened.hashes[hot]}
    hottest = int(opened.hashes[counts.argmax()])
    router = cast(DynamicKeyRouter, ef.scheme(scheme).router(workers))
    found: set[int] = set()
    rows: list[Row] = []
    for tenth in range(10):
        part = slice(tenth * ids.size // 10, (tenth + 1) * ids.size // 10)
        router.route(opened.hashes[ids[part]], times[part])
        widths = router.widths
        found |= due & set(widths)
        row = {"scheme": scheme, "workers": workers, "seconds": (tenth + 1) * SECONDS / 10, "due": len(due)}
        rows.append(row | {"hottest": widths.get(hottest, 2), "wide": len(widths), "found": len(found)})
    return rows


# What claims measure, where no comparator has it


def _hottest(t: Table) -> dict[str, float]:
    """Return the widths of the half-skewed stream's hot key: after 100 s, at most, and at the end."""
    curve = t.curve("hottest", "seconds", data=HALF)
    return {"after 100 s": curve[100.0], "at most": max(curve.values()), "at the end": curve[SECONDS]}


def _as_skewed(factor: float) -> Callable[[dict[str, float]], bool]:
    """Check that every stream has the paper's skew, up to a factor."""
    return lambda found: all(1 / factor <= found[name] / share <= factor for name, share in SKEWNESS.items())


def _off_the_names(t: Table) -> tuple[float, float]:
    own = t[t["data"].str.startswith("country")].set_index("data")["p1"]
    named_ = {name: 0.4 if "half" in name else int(name.rpartition("r")[2]) / 100 for name in own.index}
    return max(abs(own[name] - share) for name, share in named_.items()), own[HALF]


def _over_pkg(t: Table) -> tuple[float, bool]:
    own = t.only(data="twitter-election")
    deviation = own.wide("standard_deviation").iloc[0]
    return r.ratio("throughput", DKG, PKG)(own), bool(deviation[DKG] < deviation[PKG])


def _gains(t: Table, query: str) -> dict[int, float]:
    """Return by how much DKG's throughput exceeds PKG's, by skew."""
    return dict(r.gain("throughput", DKG, PKG, "skew", take=lambda found: found.sort_index(), query=query)(t))


def _gain_range(query: str, prefix: str) -> Any:
    def text(t: Table) -> str:
        found = _gains(t, query).values()
        return f"{prefix} {min(found):+.1%} to {max(found):+.1%}"

    return text


def _by_skew(t: Table) -> Table:
    """Return the rows of the country streams that have one skew throughout."""
    return Table(t.dropna(subset=["skew"]))


def _half(t: Table) -> tuple[float, ...]:
    """Return DKG's throughput over PKG's, and its StdDev over PKG's, on the half-skewed stream."""
    return tuple(r.ratio(column, DKG, PKG, data=HALF)(t)
                 for column in ("throughput", "standard_deviation"))  # fmt: skip


def _close_and_stable(t: Table) -> list[Any]:
    """Check DistCost: SG's is far above the others', which stay as they are whatever the workers."""
    wide = t.wide("distribution_cost", "workers")
    others = wide[["key", PKG, DKG]]
    return [others.max(axis=1) <= 0.75 * wide["shuffle"], others.max() / others.min() - 1 <= 0.15]


def _from_key_to_shuffle(wide: Any) -> float:
    """Return how far the larger of PKG's and DKG's values is on the way from KG's to SG's, at most."""
    return float(((wide[[PKG, DKG]].max(axis=1) - wide["key"]) / (wide["shuffle"] - wide["key"])).max())


def _second_to_shuffle(t: Table) -> list[bool]:
    wide = t.wide("throughput", "skew", query="80 <= skew < 100")[list(SCHEMES)]
    return [list(row.sort_values().index[-2:]) == [DKG, "shuffle"] for _, row in wide.iterrows()]


def better_everywhere(by: str, mine: str = DKG, other: r.Names = PKG) -> r.Rule:
    """Judge that one scheme is faster and steadier than another, or several, at every value of ``by``."""
    checks = r.all_of(
        r.below("throughput", other, mine, by, strictly=True),
        r.below("standard_deviation", mine, other, by, strictly=True),
    )
    named_ = "PKG" if isinstance(other, str) else "KG and PKG"
    return r.each(checks, f"comparisons of throughput and StdDev with {named_}")


def _alike(t: Table) -> str:
    gains = r.gain("throughput", DKG, PKG, "data", data=ALIKE, take=lambda ratios: ratios)(t)
    return "DKG " + ", ".join(f"{gain:+.0%} on {name}" for name, gain in gains.items())


def _clickstream(t: Table) -> str:
    own = t.wide("throughput", data="wikipedia-clickstream").iloc[0]
    return "throughput of KG's: " + ", ".join(
        f"{name} {own[name] / own['key']:.2f}x" for name in ("shuffle", PKG, DKG)
    )


def _relative(t: Table, *by: str) -> Table:
    """Return the metrics, each relative to its highest value, overall or by ``by``."""
    highest = t.groupby(list(by))[list(METRICS)].transform("max") if by else t[list(METRICS)].max()
    return melted(METRICS, Table(t.assign(**(t[list(METRICS)] / highest).fillna(0))), "relative", "metric")


_STORM = "The model has no engine: skew is the only cost."
_SATURATED = (
    "In Table 3, KG has 1/7.1 of SG's throughput: with a key of 68 percent, one of ten saturated workers "
    "gets 71 percent of all messages. So it is here (figure `dynamic/table3`, 1336 of the paper's 1344 per "
    "second), and a key of 30 percent then costs a factor of 3."
)
_CLOCK = (
    "A key's width is revised once a minute, one worker at a time, while lifetime loads send nearly all hot "
    "messages to the most recently added worker."
)
_NEIGHBOURS = (
    "DKG's candidates are neighbours (hash, hash + 1), so a tenth of the other keys share exactly the hot "
    "key's two workers; these fill up to the threshold of 13.16 percent (10 would be balanced) before a "
    "third is added, which is removed below it. Under PKG hardly any key shares the hot key's pair. "
    "Without scaling out (study `neighbours`) DKG is 25 percent below PKG at 20 percent skew."
)
_ALIKE = (
    "27 percent is where DKG begins to widen a key, not close to the 9 and 10 of the others. With the same "
    "300 keys and other exponents (study `widens-from`) DKG's throughput over PKG's is -0.2 percent at p1 = "
    "10 percent, +0.7 at 20, +10 at 24, +22 at 27, +29 at 30."
)
_KG = (
    "In the model nothing but load counts, and splitting a key costs nothing. Study `pairs-cost-nothing`: "
    "with p1 = 1 percent (AM-many) KG has 0.88 of PKG's throughput, so less skew is not the cause; here PKG "
    "holds 36,000 more pairs than KG, so KG would lead if merging one cost as much as 24 messages."
)
_ROOM = (
    "Here every further worker is a further machine: the hot key's workers get fewer of the other keys, 3.2 "
    "percent of all messages each at n = 10, 0.3 at n = 100. With the width limited to 8 at every n (study "
    "`same-width`): 0.85 times, so the higher limit of Table 1 is not the cause. The paper's workers shared "
    "one server."
)
_ON = f"{MODEL} {ELECTION}"
_ABOVE_80 = "80 <= skew < 100"
_SKEWED = f"10 workers, 5 sources. {MODEL}"
_metrics = partial(Lines, y=METRICS, ylabel="value")
_figure = partial(Experiment, "dynamic")

# fmt: off
EXPERIMENTS = [
    _figure("table1", "Thresholds by the number of workers",
            "L_s = L_i + sqrt(L_i); widest = floor(100 / L_s) + 1.",
            grid(workers=tuple(PRINTED)), _measure_thresholds, None, (
        Claim("4.3", "thresholds and widths", "24.47 13.16 7.24 3.41 2.00; 5 8 14 30 51",
              r.each(lambda t: [abs(t.value("threshold", workers=n) - level) < 0.011
                                and t.value("widest", workers=n) == widest
                                for n, (level, widest) in PRINTED.items()], "rows as printed")),
    )),
    _figure("widths", "Workers of hot keys over time",
            "One source, 1000 seconds. country-half-skew-r80 on 10 workers: one key has 80 percent of the "
            "messages, from the middle on as many as any other. Zipf z = 1.4, 10^4 keys on 100 workers: "
            "several keys are above twice the threshold.",
            _WIDTH_POINTS, _measure_widths,
            Lines(x="seconds", y={"hottest": "workers of the hottest key", "wide": "keys with more than two"},
                  by="data"), (
        Claim("4.3", "a hot key gets one more worker at a time, up to the limit of Table 1",
              "at most 8 of 10",
              r.graded(_hottest, lambda found: found["after 100 s"] <= 4 and found["at most"] == 8,
                       lambda found: found["after 100 s"] <= 4 and 4 <= found["at most"] <= 8,
                       r.named(names=("after 100 s", "at most")))),
        Claim("4.4", "when the key is back to normal, it is scaled down to two workers", "2",
              r.graded(_hottest, lambda found: found["at the end"] == 2 < found["at most"],
                       lambda found: found["at the end"] <= 0.5 * found["at most"],
                       r.named(names=("at most", "at the end")))),
        Claim("4.1", "every key that is hot reaches the old space and gets more workers", "all",
              r.graded(lambda t: tuple(t.only(data="Zipf", seconds=SECONDS)[["found", "due"]].iloc[0]),
                       lambda found, due: found == due, lambda found, due: found >= 0.75 * due,
                       "{:g} of {:g} keys above twice the threshold")),
        Claim("4.2", "only keys in the old space, which holds ten, get more workers", "at most 10",
              r.at_most(r.largest("wide"), 10, 15, "at most {:g} keys")),
    )),
    _figure("table2", "The streams", ELECTION, _data_points, measure_data, None, (
        Claim("5.1", "skew of the streams", "68, 10 and 9 percent",
              r.graded(lambda t: {name: t.value("p1", data=name) for name in SKEWNESS},
                       _as_skewed(1.25), _as_skewed(2), r.named(".1%"))),
        Claim("5.1", "skew of the country streams", "as their names; half-skew 40 percent",
              r.at_most(_off_the_names, 0.01, text="within {:.1%}; the half-skewed one {:.1%}")),
    )),
    _figure("table3", "twitter-election, 5 sources, 10 workers", _ON,
            grid(_point, stream=election, data="twitter-election", scheme=_COMPARED), simulated, None, (
        Claim("5.3", "throughput: DKG between PKG and SG", "SG 9511, DKG 4529, PKG 2739, KG 1344 per second",
              r.as_printed(r.values("throughput"), {"shuffle": 9511, DKG: 4529, PKG: 2739, "key": 1344}, 0.15,
                           by_order=True, least=0.05, unit="shuffle"), _STORM),
        Claim("5.3", "StdDev: DKG a third of PKG's", "SG 0.0001, DKG 4.10, PKG 12.35, KG 20.32",
              r.as_printed(r.values("standard_deviation"), {"shuffle": 0.0001, DKG: 4.0972, PKG: 12.3513,
                         "key": 20.3202}, 0.2, by_order=True, least=0.05), _CLOCK),
        Claim("5.3", "DistCost: DKG close to PKG's (the generator was fitted to SG's and PKG's)",
              "SG 2.449, DKG 1.241, PKG 1.165, KG 1", r.as_printed(r.values("distribution_cost"),
                         {"shuffle": 2.4491, DKG: 1.2414, PKG: 1.1647, "key": 1.0},
                         0.1, by_order=True, least=0.05)),
    )),
    _figure("fig9", "Real streams, 5 sources, 10 workers", _ON,
            grid(_real_point, data=_real_streams, scheme=_COMPARED), simulated,
            Bars(x="metric", y="relative", by="scheme", panels="data", ylabel="relative to the highest",
                 rows=lambda t: _relative(t, "data")), (
        Claim("5.3", "on twitter-election DKG clearly beats PKG", "1.65x the throughput",
              r.graded(_over_pkg, lambda times, steadier: 1.32 <= times <= 2.06 and steadier,
                       lambda times, steadier: r.reaches(times, 1.65) and steadier,
                       "{:.2f}x PKG's throughput"), _STORM),
        Claim("5.3", "on the other streams PKG and DKG perform alike", "similar",
              r.each(r.ratio("throughput", DKG, PKG, "data", data=ALIKE,
                             take=lambda ratios: (ratios - 1).abs() <= 0.1),
                     "streams where DKG's throughput is within 10 percent of PKG's",
                     _alike), _ALIKE),
        Claim("5.3", "on wikipedia-clickstream KG does better than the others (9c)", "KG best",
              r.each(r.all_of(r.below("throughput", ("shuffle", PKG, DKG), "key", factor=1 / 0.98,
                                      data="wikipedia-clickstream"),
                              r.below("distribution_cost", "key", ("shuffle", PKG, DKG),
                                      data="wikipedia-clickstream")),
                     "comparisons of throughput and DistCost", _clickstream), _KG),
    )),
    _figure("fig10", "Each scheme by skew, country streams", _SKEWED, _SKEW_POINTS, simulated,
            Lines(x="skew", y="relative", by="metric", panels="scheme", xlabel="skew, percent",
                  ylabel="relative to the highest", rows=_relative), (
        Claim("5.4", "skew does not affect SG", "constant",
              r.at_most(r.changes("throughput", "shuffle"), 0.01, 0.05, "within {:.1%}")),
        Claim("5.4", "KG's throughput falls steadily above 30 percent", "gradual decrease",
              r.each(r.steps("throughput", "skew", falling=True, query="skew >= 30", scheme="key"),
                     "steps of skew that lower KG's throughput")),
        Claim("5.4", "up to 30 percent KG is not affected", "very successful results",
              r.at_least(lambda t: t.value("throughput", scheme="key", skew=30)
                         / t.value("throughput", scheme="key", skew=0), 0.9, 0.6,
                         "{:.2f} times the throughput without skew"), _SATURATED),
        Claim("5.4", "PKG degrades only after 20 to 30 percent", "after 20-30 percent",
              r.each(r.all_of(lambda t: t.value("throughput", scheme=PKG, skew=20)
                              >= 0.95 * t.value("throughput", scheme=PKG, skew=0),
                              r.steps("throughput", "skew", falling=True, query="skew >= 30", scheme=PKG)),
                     "checks: as fast at 20 percent as without skew, slower with each step from 30 on")),
        Claim("5.4", "up to 60 percent PKG does much better than KG", "much more successful",
              r.each(r.below("throughput", "key", PKG, "skew", factor=1 / 1.5, query="30 <= skew <= 60"),
                     "skews from 30 to 60 percent with 1.5 times KG's throughput")),
        Claim("5.4", "DKG is more predictable than the others: skew changes its throughput least",
              "much more predictable",
              r.at_most(lambda t: r.changes("throughput", DKG)(t) / min(
                            r.changes("throughput", name)(t) for name in ("key", PKG)), 0.5, 0.8,
                        "its throughput changes {:.2f} times as much as PKG's or KG's")),
        Claim("5.4", "DKG is second to SG at 80 and 90 percent", "second",
              r.each(_second_to_shuffle, "skews of 80 and 90 percent with DKG second to SG")),
        Claim("6", "at 30 percent DKG's latency is up to 7 percent below PKG's", "-7 percent",
              r.near(r.gain("makespan", DKG, PKG, skew=30), -0.07, 0.7, 0.0, "{:+.1%}"), _STORM),
        Claim("6", "at 30 percent DKG's throughput is up to 8 percent above PKG's", "+8 percent",
              r.near(r.gain("throughput", DKG, PKG, skew=30), 0.08, 0.7, 0.0, "{:+.1%}"), _STORM),
        Claim("6", "above 80 percent DKG's latency is up to 48 percent below PKG's", "-48 percent",
              r.cut(r.reduction("makespan", DKG, PKG, "skew", query=_ABOVE_80), 0.48), _STORM),
        Claim("6", "above 80 percent DKG's throughput is up to 93 percent above PKG's", "+93 percent",
              r.times(r.ratio("throughput", DKG, PKG, "skew", query=_ABOVE_80), 1.93), _STORM),
    )),
    _figure("fig11", "The four metrics by skew, country streams",
            f"{_SKEWED} {HALF}: 80 percent in the first half, none in the second; not drawn.",
            joined(_SKEW_POINTS, _HALF_POINTS), simulated,
            _metrics(x="skew", xlabel="skew, percent", rows=_by_skew), (
        Claim("5.4", "DKG is ahead of PKG from 30 percent on", "ahead",
              r.each(r.below("throughput", PKG, DKG, "skew", strictly=True, query="skew >= 30"),
                     "skews from 30 percent on", _gain_range("skew >= 30", "throughput")), _CLOCK,
              "a worker added late takes nearly everything: imbalance swings from 0.04 to 0.64"),
        Claim("5.4", "below 30 percent PKG is ahead", "PKG higher",
              r.each(r.below("throughput", DKG, PKG, "skew", factor=1.001, query="skew < 30"),
                     "skews below 30 percent with PKG at least as fast", _gain_range("skew < 30", "DKG")),
                   _STORM),
        Claim("5.4", "below 26 percent the two perform alike", "within 2 percent",
              r.graded(lambda t: _gains(t, "skew < 26"), lambda found: max(map(abs, found.values())) <= 0.02,
                       lambda found: max(map(abs, found.values())) <= 0.1,
                       lambda found: "DKG's throughput over PKG's: " + ", ".join(
                         f"{more:+.1%} at {skew:g}" for skew, more in found.items()) + " percent skew"),
              _NEIGHBOURS),
        Claim("5.2, 5.4", f"on {HALF}, 40 percent on the whole, DKG is ahead of PKG",
              "ahead, as from 30 percent on",
              r.graded(_half, lambda faster, uneven: faster >= 1.08 and uneven < 1,
                       lambda faster, uneven: faster > 1, "throughput {:.2f}x, StdDev {:.2f}x of PKG's"),
              _STORM),
        Claim("5.4", "KG's and PKG's latency and StdDev rise with the skew", "continuously",
              r.each(r.all_of(*(r.steps(column, "skew", query="skew >= 30", scheme=name)
                                for column in ("makespan", "standard_deviation") for name in ("key", PKG))),
                     "steps of skew from 30 percent on that raise them")),
        Claim("5.4", "above 30 percent SG's and DKG's StdDev is clearly lower than KG's and PKG's",
              "clearly better",
              r.each(r.below("standard_deviation", ("shuffle", DKG), ("key", PKG), "skew", factor=0.5,
                             query="skew > 30"), "comparisons with at most half of it"), _CLOCK),
        Claim("5.4", "SG has the highest DistCost", "highest",
              r.each(r.is_highest("distribution_cost", "shuffle", SCHEMES, "skew", query="skew < 100"),
                     "skews with SG's DistCost the highest")),
        Claim("5.4", "the others' DistCost are very similar", "very similar",
              r.at_most(r.of_wide("distribution_cost", "skew", query="skew < 100",
                                  measure=_from_key_to_shuffle), 0.25, 0.5,
                        "at most {:.2f} of the way from KG's to SG's")),
        Claim("5.4", "DKG's DistCost has its peak at 100 percent", "a peak",
              r.graded(lambda t: t.curve("distribution_cost", "skew", scheme=DKG),
                       lambda curve: curve[100] >= 1.25 * max(cost for skew, cost in curve.items()
                                                              if skew < 100),
                       lambda curve: curve[100] == max(curve.values()), r.curve_text)),
    )),
    _figure("fig12", "More workers, twitter-election", _ON,
            grid(_point, stream=election, workers=(10, 50, 100), scheme=_COMPARED), simulated,
            _metrics(x="workers"), (
        Claim("5.5", "more workers barely change KG's and PKG's latency at this skew", "barely changed",
              r.at_most(r.changes("makespan", ("key", PKG)), 0.1, 0.3, "within {:.1%}"), _STORM),
        Claim("5.5", "DKG's latency rises slightly with the workers", "slightly",
              r.graded(lambda t: t.value("makespan", scheme=DKG, workers=100)
                       / t.value("makespan", scheme=DKG, workers=10),
                       lambda rise: 1.0 < rise <= 1.3, lambda rise: 1.0 <= rise <= 1.6, "{:.3f} times"),
              _ROOM),
        Claim("5.5", "KG has the highest latency and SG the lowest", "KG, SG",
              r.each(r.all_of(r.below("makespan", (PKG, DKG), "key", "workers", strictly=True),
                              r.below("makespan", "shuffle", (PKG, DKG), "workers", strictly=True)),
                     "comparisons of latency")),
        Claim("5.5", "StdDev falls with the workers; KG's is the highest, SG's the lowest", "falls",
              r.each(r.all_of(*(r.steps("standard_deviation", "workers", falling=True, scheme=name)
                                for name in ("key", PKG, DKG)),
                              r.below("standard_deviation", (PKG, DKG), "key", "workers", strictly=True),
                              r.below("standard_deviation", "shuffle", (PKG, DKG), "workers",
                                      strictly=True)),
                     "steps that lower it and comparisons")),
        Claim("5.5", "DKG's StdDev is much lower than PKG's", "much better; 0.33 at n = 10",
              r.at_most(r.ratio("standard_deviation", DKG, PKG, "workers"), 0.5, 0.8, "at most {:.2f}x"),
              _CLOCK),
        Claim("5.5", "SG's DistCost is the highest, the others' are close and stable", "SG highest",
              r.each(_close_and_stable, "settings with the others at least a quarter below SG, and schemes "
                                        "that change by at most 15 percent")),
        Claim("5.5", "SG's throughput is the highest", "highest",
              r.each(r.is_highest("throughput", "shuffle", SCHEMES, "workers"),
                     "numbers of workers with SG's throughput the highest")),
        Claim("5.5", "DKG is better than PKG at every number of workers", "better",
              better_everywhere("workers"), _CLOCK),
    )),
    _figure("fig13", "More sources, twitter-election", _ON,
            grid(_point, stream=election, sources=(5, 10, 15, 20), scheme=_COMPARED), simulated,
            _metrics(x="sources"), (
        Claim("5.6", "the number of sources has no effect", "none",
              r.at_most(r.changes("throughput", ("key", PKG, DKG)), 0.05, 0.25, "within {:.1%}"), _CLOCK),
        Claim("5.6", "DKG is better than KG and PKG at every number of sources", "better",
              better_everywhere("sources", other=("key", PKG)), _CLOCK),
        Claim("5.6", "the DistCost of KG, PKG and DKG are similar", "similar; 1, 1.16, 1.24",
              r.at_most(r.apart("distribution_cost", ("key", PKG, DKG), "sources"), 0.25, 0.5,
                        "{:.0%} apart")),
    )),
]
