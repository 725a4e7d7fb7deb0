"""`dynamic`: Dalabasmaz and Can, "Dynamic Key Grouping".

Table 1-3 and Fig. 9-13. Fig. 1-8 are drawings. The paper ran Storm; here the queueing model: messages come as
fast as shuffle grouping can just serve them, over as many seconds as the paper's runs took; "latency" is the
time until the last one is done (the paper's word for the run's elapsed time) and throughput is messages over
that time (Eq. 6).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from evenflow.papers.data import GENERATED
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
from evenflow.papers.measures import measure_data, simulated
from evenflow.papers.plots import groups, lines
from evenflow.schemes.dynamic_key import threshold_for, width_limit_for
from evenflow.streams import open_stream

SCHEMES = ("shuffle", "key", "partial-key", "dynamic-key")
SKEWS = list(range(0, 101, 10))
SECONDS = 1000.0  # what the paper's runs take at SG's speed: DKG looks at its keys every 15 and 60 seconds
MODEL = "Queueing model, ten workers saturated under shuffle grouping; the paper ran Storm."
ELECTION = "twitter-election is generated: 68 percent one key, and rare keys."
METRICS = {
    "makespan": "latency (elapsed), s",
    "standard_deviation": "StdDev, percent",
    "distribution_cost": "DistCost",
    "throughput": "throughput, 1/s",
}


def _point(scheme: str, stream: str, workers: int = 10, sources: int = 5, **labels: Any) -> Row:
    """Return a point; workers are as fast as ten that can just serve the stream, however many there are."""
    messages = open_stream(stream).messages or 10**6
    return {
        "scheme": scheme,
        "stream": stream,
        "workers": workers,
        "sources": sources,
        "queueing": {"rate": messages / SECONDS, "load": 10 / workers},
        "labels": labels,
    }


def countries(skew: int, messages: float) -> str:
    """Spell the country stream of a skew in percent."""
    return f"countries:skew={skew},messages={int(messages)},seed=1"


def election(setting: Setting) -> str:
    """Return the user's twitter-election, or the generated one in the length of the scale."""
    spec = setting.stream("twitter-election")
    if spec != GENERATED["twitter-election"]:
        return spec
    return f"election:messages={setting.pick(500_000, 5_000_000)},seed=18"


# Table 1


def _threshold_points(setting: Setting) -> list[Row]:
    return [{"workers": n} for n in (5, 10, 20, 50, 100)]


def _measure_thresholds(workers: int) -> list[Row]:
    ideal = 100 / workers
    return [
        {
            "workers": workers,
            "ideal": ideal,
            "threshold": threshold_for(workers),
            "widest": width_limit_for(workers),
        }
    ]


def _as_printed(rows: Rows) -> Judgement:
    printed = {5: (24.47, 5), 10: (13.16, 8), 20: (7.24, 14), 50: (3.41, 30), 100: (2.0, 51)}
    found = {row["workers"]: (row["threshold"], row["widest"]) for row in rows}
    checks = [
        abs(found[n][0] - threshold) < 0.011 and found[n][1] == widest
        for n, (threshold, widest) in printed.items()
    ]
    return share_of(checks, "rows as printed")


# Table 2


def _data_points(setting: Setting) -> list[Row]:
    names = (
        "twitter-election",
        "twitter-ticker",
        "wikipedia-clickstream",
        "wikipedia-pageviews",
        "wikipedia-pageviews-by-lang",
    )
    messages = setting.pick(1e5, 1e7)
    made = {f"country-skew-r{skew}": countries(skew, messages) for skew in SKEWS}
    made["country-half-skew-r80"] = f"{countries(80, messages)},then=0"
    found = {name: setting.stream(name) for name in names} | made
    return [{"data": name, "stream": stream} for name, stream in found.items()]


def _skewness(rows: Rows) -> Judgement:
    paper = {"twitter-election": 0.68, "twitter-ticker": 0.10, "wikipedia-pageviews": 0.09}
    found = {name: pick(rows, data=name)["p1"] for name in paper}
    furthest = max(max(found[name] / share, share / found[name]) for name, share in paper.items())
    verdict = HOLDS if furthest <= 1.25 else DIRECTION if furthest <= 2 else DIFFERS
    return Judgement(verdict, ", ".join(f"{name} {share:.1%}" for name, share in found.items()))


def _named_skew(rows: Rows) -> Judgement:
    found = {row["data"]: row["p1"] for row in rows if row["data"].startswith("country")}
    expected = {name: 0.4 if "half" in name else int(name.rpartition("r")[2]) / 100 for name in found}
    furthest = max(abs(found[name] - share) for name, share in expected.items())
    half = found["country-half-skew-r80"]
    return at_most(furthest, 0.01, spelled=f"within {{:.1%}}; the half-skewed one {half:.1%}")


# Table 3, Fig. 9


def _election_points(setting: Setting) -> list[Row]:
    stream = election(setting)
    return [_point(scheme, stream, data="twitter-election") for scheme in setting.schemes(*SCHEMES, "fill")]


def _real_points(setting: Setting) -> list[Row]:
    names = ("twitter-ticker", "wikipedia-clickstream", "wikipedia-pageviews", "wikipedia-pageviews-by-lang")
    streams = {"twitter-election": election(setting), **{name: setting.stream(name) for name in names}}
    return [
        _point(scheme, stream, data=name)
        for name, stream in streams.items()
        for scheme in setting.schemes(*SCHEMES, "fill")
    ]


def _long(rows: Rows, by: str) -> list[Row]:
    """One row per metric, each relative to the highest value of that metric and ``by``, as in the figures."""
    found = []
    for metric in METRICS:
        for value in dict.fromkeys(row[by] for row in rows):
            own = [row for row in rows if row[by] == value]
            highest = max(row[metric] for row in own) or 1.0
            found += [{**row, "metric": metric, "relative": row[metric] / highest} for row in own]
    return found


def _plot_metrics(by: str, label: str) -> Any:
    def plot(figure: Any, rows: Rows) -> None:
        long = [
            {**row, "metric": name, "value": row[metric]} for row in rows for metric, name in METRICS.items()
        ]
        lines(
            figure,
            long,
            x=by,
            y="value",
            series="scheme",
            panels="metric",
            xlabel=label,
            ylabel="value",
            own_scale=True,
        )

    return plot


def _plot_real(figure: Any, rows: Rows) -> None:
    groups(
        figure,
        [{**row, "metric": METRICS[row["metric"]]} for row in _long(rows, "data")],
        x="metric",
        y="relative",
        series="scheme",
        panels="data",
        ylabel="relative to the highest",
    )


def _plot_schemes(figure: Any, rows: Rows) -> None:
    """Draw a panel per scheme, as Fig. 10 has them: all metrics, each relative to its highest value."""
    highest = {metric: max(row[metric] for row in rows) or 1.0 for metric in METRICS}
    long = [
        {**row, "metric": name, "relative": row[metric] / highest[metric]}
        for row in rows
        for metric, name in METRICS.items()
    ]
    lines(
        figure,
        long,
        x="skew",
        y="relative",
        series="metric",
        panels="scheme",
        xlabel="skew, percent",
        ylabel="relative to the highest",
    )


def _election(metric: str, expected: dict[str, float], within: float, relative_to: str = "") -> Any:
    """Judge values of several schemes, as they are or relative to one of them."""

    def judged(rows: Rows) -> Judgement:
        unit = pick(rows, scheme=relative_to)[metric] / expected[relative_to] if relative_to else 1.0
        found = {name: pick(rows, scheme=name)[metric] / unit for name in expected}
        close = all(abs(found[name] - value) <= within * max(value, 0.05) for name, value in expected.items())
        ordered = sorted(expected, key=expected.__getitem__) == sorted(found, key=found.__getitem__)
        text = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
        return Judgement(HOLDS if close else DIRECTION if ordered else DIFFERS, text)

    return judged


def _ahead_of_partial_key(rows: Rows) -> Judgement:
    own = {row["scheme"]: row for row in select(rows, data="twitter-election")}
    dkg, pkg = own["dynamic-key"], own["partial-key"]
    ratio = dkg["throughput"] / pkg["throughput"]
    ok = ratio > 1 and dkg["standard_deviation"] < pkg["standard_deviation"]
    verdict = HOLDS if ok and ratio >= 1.3 else DIRECTION if ok else DIFFERS
    return Judgement(verdict, f"{ratio:.2f}x PKG's throughput")


def _similar_elsewhere(rows: Rows) -> Judgement:
    checks = []
    for name in ("twitter-ticker", "wikipedia-clickstream", "wikipedia-pageviews"):
        own = {row["scheme"]: row for row in select(rows, data=name)}
        checks.append(abs(own["dynamic-key"]["throughput"] / own["partial-key"]["throughput"] - 1) <= 0.1)
    return share_of(checks, "streams where DKG's throughput is within 10 percent of PKG's")


# Fig. 10, 11: skew


def _skew_points(setting: Setting) -> list[Row]:
    skews = setting.pick([0, 20, 30, 50, 80, 100], SKEWS)
    return [
        _point(scheme, countries(skew, setting.pick(3e5, 1e7)), skew=skew)
        for skew in skews
        for scheme in setting.schemes(*SCHEMES, "fill")
    ]


def _gain(rows: Rows, metric: str, skew: int) -> float:
    own = {row["scheme"]: row for row in select(rows, skew=skew)}
    return float(own["dynamic-key"][metric] / own["partial-key"][metric] - 1)


def _latency_at_30(rows: Rows) -> Judgement:
    return near(_gain(rows, "makespan", 30), -0.07, within=0.7, same_side_of=0.0, spelled="{:+.1%}")


def _throughput_at_30(rows: Rows) -> Judgement:
    return near(_gain(rows, "throughput", 30), 0.08, within=0.7, same_side_of=0.0, spelled="{:+.1%}")


def _latency_above_80(rows: Rows) -> Judgement:
    best = min(
        _gain(rows, "makespan", skew) for skew in {row["skew"] for row in rows if 80 <= row["skew"] < 100}
    )
    return near(best, -0.48, within=0.35, same_side_of=0.0, spelled="{:+.1%}")


def _throughput_above_80(rows: Rows) -> Judgement:
    best = max(
        _gain(rows, "throughput", skew) for skew in {row["skew"] for row in rows if 80 <= row["skew"] < 100}
    )
    return near(best, 0.93, within=0.5, same_side_of=0.0, spelled="{:+.1%}")


def _ahead_from_30(rows: Rows) -> Judgement:
    skews = sorted({row["skew"] for row in rows if row["skew"] >= 30})
    gains = [_gain(rows, "throughput", skew) for skew in skews]
    found = share_of([gain > 0 for gain in gains], "skews from 30 percent on")
    return Judgement(found.verdict, f"{found.measured}; throughput {min(gains):+.1%} to {max(gains):+.1%}")


def _close_below_26(rows: Rows) -> Judgement:
    skews = sorted({row["skew"] for row in rows if row["skew"] < 26})
    gains = {skew: _gain(rows, "throughput", skew) for skew in skews}
    found = at_most(max(map(abs, gains.values())), 0.02, loosely=0.1)
    told = ", ".join(f"{gain:+.1%} at {skew}" for skew, gain in gains.items())
    return Judgement(found.verdict, f"DKG's throughput over PKG's: {told} percent skew")


def _partial_key_ahead_below_30(rows: Rows) -> Judgement:
    gains = [_gain(rows, "throughput", skew) for skew in sorted({row["skew"] for row in rows}) if skew < 30]
    found = share_of([gain <= 0.001 for gain in gains], "skews below 30 percent with PKG at least as fast")
    return Judgement(found.verdict, f"{found.measured}; DKG {min(gains):+.1%} to {max(gains):+.1%}")


def _second_to_shuffle(rows: Rows) -> Judgement:
    checks = []
    for skew in {row["skew"] for row in rows if 80 <= row["skew"] < 100}:
        own = {row["scheme"]: row["throughput"] for row in select(rows, skew=skew)}
        ordered = sorted(SCHEMES, key=own.__getitem__)
        checks.append(ordered[-2:] == ["dynamic-key", "shuffle"])
    return share_of(checks, "skews of 80 and 90 percent with DKG second to SG")


def _shuffle_constant(rows: Rows) -> Judgement:
    own = [row["throughput"] for row in select(rows, scheme="shuffle")]
    return at_most(max(own) / min(own) - 1, 0.01, loosely=0.05, spelled="within {:.1%}")


def _key_decreases(rows: Rows) -> Judgement:
    own = sorted((row["skew"], row["throughput"]) for row in select(rows, scheme="key") if row["skew"] >= 30)
    falling = [later[1] < earlier[1] for earlier, later in pairwise(own)]
    return share_of(falling, "steps of skew that lower KG's throughput")


def _shuffle_costs_most(rows: Rows) -> Judgement:
    checks = []
    for skew in {row["skew"] for row in rows if row["skew"] < 100}:
        own = {row["scheme"]: row["distribution_cost"] for row in select(rows, skew=skew)}
        checks.append(own["shuffle"] == max(own[name] for name in SCHEMES))
    return share_of(checks, "skews with SG's DistCost the highest")


# Fig. 12, 13


def _worker_points(setting: Setting) -> list[Row]:
    stream = election(setting)
    return [
        _point(scheme, stream, workers=n)
        for n in (10, 50, 100)
        for scheme in setting.schemes(*SCHEMES, "fill")
    ]


def _source_points(setting: Setting) -> list[Row]:
    stream = election(setting)
    return [
        _point(scheme, stream, sources=s)
        for s in (5, 10, 15, 20)
        for scheme in setting.schemes(*SCHEMES, "fill")
    ]


def _better_everywhere(by: str) -> Any:
    def judged(rows: Rows) -> Judgement:
        checks = []
        for value in dict.fromkeys(row[by] for row in rows):
            own = {row["scheme"]: row for row in select(rows, **{by: value})}
            checks.append(own["dynamic-key"]["throughput"] > own["partial-key"]["throughput"])
            checks.append(own["dynamic-key"]["standard_deviation"] < own["partial-key"]["standard_deviation"])
        return share_of(checks, "comparisons of throughput and StdDev with PKG")

    return judged


def _little_change(rows: Rows) -> Judgement:
    own = {row["workers"]: row["makespan"] for row in select(rows, scheme="partial-key")}
    return at_most(max(own.values()) / min(own.values()) - 1, 0.1, loosely=0.3, spelled="within {:.1%}")


def _sources_do_not_matter(rows: Rows) -> Judgement:
    changes = []
    for name in ("key", "partial-key", "dynamic-key"):
        own = [row["throughput"] for row in select(rows, scheme=name)]
        changes.append(max(own) / min(own) - 1)
    return at_most(max(changes), 0.05, loosely=0.25, spelled="within {:.1%}")


_STORM = "The model has no engine: what a scheme loses to skew is all that it loses."
_CLOCK = (
    "A key's width is looked at once a minute, one worker at a time, while lifetime loads send nearly all "
    "hot messages to the worker that joined last."
)

_NEIGHBOURS = (
    "DKG's candidates are neighbours (hash, hash + 1), so a tenth of the other keys has just the hot key's "
    "two workers; these fill up to the threshold of 13.16 percent (10 would be even) before a third joins, "
    "and it leaves below it. Under PKG hardly a key has the hot key's pair."
)

EXPERIMENTS = [
    Experiment(
        "dynamic",
        "table1",
        "Thresholds by the number of workers",
        "L_s = L_i + sqrt(L_i); widest = floor(100 / L_s) + 1.",
        _threshold_points,
        _measure_thresholds,
        None,
        (Claim("4.3", "thresholds and widths", "24.47 13.16 7.24 3.41 2.00; 5 8 14 30 51", _as_printed),),
    ),
    Experiment(
        "dynamic",
        "table2",
        "The streams",
        ELECTION,
        _data_points,
        measure_data,
        None,
        (
            Claim("5.1", "skew of the streams", "68, 10 and 9 percent", _skewness),
            Claim("5.1", "skew of the country streams", "as their names; half-skew 40 percent", _named_skew),
        ),
    ),
    Experiment(
        "dynamic",
        "table3",
        "twitter-election, 5 sources, 10 workers",
        f"{MODEL} {ELECTION}",
        _election_points,
        simulated,
        None,
        (
            Claim(
                "5.3",
                "throughput: DKG between PKG and SG",
                "SG 9511, DKG 4529, PKG 2739, KG 1344 per second",
                _election(
                    "throughput",
                    {"shuffle": 9511, "dynamic-key": 4529, "partial-key": 2739, "key": 1344},
                    0.15,
                    "shuffle",
                ),
                _STORM,
            ),
            Claim(
                "5.3",
                "StdDev: DKG a third of PKG's",
                "SG 0.0001, DKG 4.10, PKG 12.35, KG 20.32",
                _election(
                    "standard_deviation",
                    {"shuffle": 0.0001, "dynamic-key": 4.0972, "partial-key": 12.3513, "key": 20.3202},
                    0.2,
                ),
                _CLOCK,
            ),
            Claim(
                "5.3",
                "DistCost: DKG close to PKG's (SG's and PKG's are what the generator was fitted to)",
                "SG 2.449, DKG 1.241, PKG 1.165, KG 1",
                _election(
                    "distribution_cost",
                    {"shuffle": 2.4491, "dynamic-key": 1.2414, "partial-key": 1.1647, "key": 1.0},
                    0.1,
                ),
            ),
        ),
    ),
    Experiment(
        "dynamic",
        "fig9",
        "Real streams, 5 sources, 10 workers",
        f"{MODEL} {ELECTION}",
        _real_points,
        simulated,
        _plot_real,
        (
            Claim(
                "5.3",
                "on twitter-election DKG beats PKG clearly",
                "1.65x the throughput",
                _ahead_of_partial_key,
                _CLOCK,
            ),
            Claim("5.3", "on the other streams PKG and DKG are alike", "similar", _similar_elsewhere, _STORM),
        ),
    ),
    Experiment(
        "dynamic",
        "fig10",
        "Each scheme by skew, country streams",
        f"10 workers, 5 sources. {MODEL}",
        _skew_points,
        simulated,
        _plot_schemes,
        (
            Claim("5.4", "skew does not change SG", "constant", _shuffle_constant),
            Claim("5.4", "KG falls steadily above 30 percent", "gradual decrease", _key_decreases),
            Claim("5.4", "DKG is second to SG at 80 and 90 percent", "second", _second_to_shuffle),
            Claim(
                "6",
                "at 30 percent DKG's latency is up to 7 percent below PKG's",
                "-7 percent",
                _latency_at_30,
                _STORM,
            ),
            Claim(
                "6",
                "at 30 percent DKG's throughput is up to 8 percent above PKG's",
                "+8 percent",
                _throughput_at_30,
                _STORM,
            ),
            Claim(
                "6",
                "above 80 percent DKG's latency is up to 48 percent below PKG's",
                "-48 percent",
                _latency_above_80,
                _STORM,
            ),
            Claim(
                "6",
                "above 80 percent DKG's throughput is up to 93 percent above PKG's",
                "+93 percent",
                _throughput_above_80,
                _STORM,
            ),
        ),
    ),
    Experiment(
        "dynamic",
        "fig11",
        "The four metrics by skew, country streams",
        f"10 workers, 5 sources. {MODEL}",
        _skew_points,
        simulated,
        _plot_metrics("skew", "skew, percent"),
        (
            Claim(
                "5.4",
                "DKG ahead of PKG from 30 percent on",
                "ahead",
                _ahead_from_30,
                _CLOCK,
                "a worker that joins late takes nearly all: imbalance swings from 0.04 to 0.64",
            ),
            Claim("5.4", "below 30 percent PKG is ahead", "PKG higher", _partial_key_ahead_below_30, _STORM),
            Claim(
                "5.4", "below 26 percent the two are alike", "within 2 percent", _close_below_26, _NEIGHBOURS
            ),
            Claim("5.4", "SG has the highest DistCost", "highest", _shuffle_costs_most),
        ),
    ),
    Experiment(
        "dynamic",
        "fig12",
        "More workers, twitter-election",
        f"{MODEL} {ELECTION}",
        _worker_points,
        simulated,
        _plot_metrics("workers", "workers"),
        (
            Claim(
                "5.5",
                "more workers hardly change PKG's latency at this skew",
                "barely changed",
                _little_change,
                _STORM,
            ),
            Claim(
                "5.5",
                "DKG better than PKG at every number of workers",
                "better",
                _better_everywhere("workers"),
                _CLOCK,
            ),
        ),
    ),
    Experiment(
        "dynamic",
        "fig13",
        "More sources, twitter-election",
        f"{MODEL} {ELECTION}",
        _source_points,
        simulated,
        _plot_metrics("sources", "sources"),
        (
            Claim("5.6", "the number of sources has no effect", "none", _sources_do_not_matter, _CLOCK),
            Claim(
                "5.6",
                "DKG better than PKG at every number of sources",
                "better",
                _better_everywhere("sources"),
                _CLOCK,
            ),
        ),
    ),
]
