"""Causes that a simulation shows: other parameters of a scheme, another stream, another load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

import evenflow as ef
from evenflow.papers import find
from evenflow.papers.experiment import Row
from evenflow.papers.heterogeneous.loads import WP_RATE, measure_loads
from evenflow.papers.heterogeneous.queues import CHANGES, UNEQUAL, scaled_changes
from evenflow.papers.measures import measure_data, simulated, zipf
from evenflow.schemes import dynamic_key
from evenflow.simulator import Capacities, Queueing, simulate
from evenflow.streams import open_stream
from evenflow.streams.sampling import zipf_weights

Found = tuple[str, str]  # setting, measured
Streams = Mapping[str, str]  # what stands in for the papers' data sets
PKG, DKG = "partial-key", "dynamic-key"


@dataclass(frozen=True)
class Cause:
    """A named study: the figures whose claims it explains, what it asks, and how it finds out."""

    name: str
    figure: str
    question: str
    found: Callable[[Streams], Iterator[Found]]


def _with(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in parameters.items()) or "as it is"


# choices


def counted_pairs(_: Streams) -> Iterator[Found]:
    """Count W-C's pairs and PKG's: formula, formula for the messages counted, one source, with a warm-up."""
    stream = zipf(2.0, 1e4, 1e6)
    (row,) = find(["choices/fig6"])[0].measure(workers=100, z=2.0, pairs=10**6)
    yield "formula, 10^7 messages", f"{row['w-choices_over_pkg_distinct']:+.0%}"
    yield "formula, the 10^6 messages that are counted", f"{row['w-choices_over_pkg_same']:+.0%}"
    yield "counted, five sources", f"{row['w-choices_over_pkg_measured']:+.0%}"
    for text, sources, parameters in (("one source", 1, {}), ("warm_up", 5, {"warm_up": True})):
        own, pkg = (simulated(name, stream, 100, sources, parameters=given)[0]["replicas"]
                    for name, given in (("w-choices", parameters), (PKG, {})))  # fmt: skip
        yield f"counted, {text}", f"{own / pkg - 1:+.0%}"


def _imbalance(scheme: str, stream: str, workers: int, **parameters: Any) -> Found:
    """Return the lowest and highest I(t) after the first quarter, and the mean of all."""
    rows = simulated(scheme, stream, workers, parameters=parameters, over_time=True)
    values = np.array([row["imbalance"] for row in rows])
    late = values[len(values) // 4 :]
    setting = f"{scheme}, n = {workers}, {_with(parameters)}"
    return setting, f"I(t) {late.min():.2g} to {late.max():.2g}, mean {values.mean():.2g}"


def hotter_for_a_while(streams: Streams) -> Iterator[Found]:
    """Give D-C on CT more candidates, more counters, a smaller epsilon."""
    more: list[Row] = [{"choices": 25}, {"capacity": 20_000}, {"epsilon": 1e-5}]
    for workers, variants in ((20, [{}, {"choices": 5}]), (100, [{}, *more])):
        for parameters in variants:
            yield _imbalance("d-choices", streams["CT"], workers, **parameters)


def found_late(streams: Streams) -> Iterator[Found]:
    """Lower W-C's threshold on CT."""
    for parameters in ({}, {"theta": 1 / 1000}, {"theta": 1 / 2500}):
        yield _imbalance("w-choices", streams["CT"], 100, **parameters)


def hottest_key_changes(streams: Streams) -> Iterator[Found]:
    """Keep CT-made's hot key the same throughout."""
    made = streams["CT-made"]
    for text, stream in (("20 hot keys", made), ("one hot key", made.replace("steps=20", "steps=1"))):
        for scheme in (PKG, "d-choices", "w-choices"):
            setting, measured = _imbalance(scheme, stream, 100)
            yield f"{text}: {setting}", measured
    setting, measured = _imbalance("w-choices", made, 100, theta=1 / 2500)
    yield f"20 hot keys: {setting}", measured


def coinciding_candidates(_: Streams) -> Iterator[Found]:
    """Let D-C's candidates coincide, as printed, and compare with RR."""
    subjects: tuple[tuple[str, str, Row], ...] = (
        ("D-C", "d-choices", {}),
        ("D-C as printed", "d-choices", {"distinct": False}),
        ("RR", "round-robin-head", {}),
    )
    for z in (1.4, 1.6, 2.0):
        stream = zipf(z, 1e4, 2e6)
        texts = [f"{text} {simulated(scheme, stream, 100, parameters=given)[0]['imbalance_mean']:.2g}"
                 for text, scheme, given in subjects]  # fmt: skip
        yield f"n = 100, z = {z}", ", ".join(texts)


def above_two_nths(_: Streams) -> Iterator[Found]:
    """Give one key of a stream a share below and above what two of 20 workers can do."""
    for share in (0.05, 0.09, 0.11, 0.15):
        stream = f"drift:z=0.5,keys=10000,messages=1000000,share={share},steps=1,seed=1"
        pkg, own = (simulated(name, stream, 20)[0]["imbalance_mean"] for name in (PKG, "d-choices"))
        yield f"n = 20, a key of {share:.0%}", f"imbalance of PKG {pkg:.2g}, of D-C {own:.2g}"


def only_queues(_: Streams) -> Iterator[Found]:
    """Take the model's cluster at z = 2 to 90 percent of what saturates it under SG."""
    for load in (1.0, 0.9):
        found = {name: simulated(name, zipf(2.0, 1e4, 2e5), 80, 48, queueing={"rate": 80_000.0, "load": load})
                 for name in ("shuffle", "w-choices", "d-choices", PKG)}  # fmt: skip
        texts = [f"{name} {1000 * rows[0]['latency_mean']:.3g} ms" for name, rows in found.items()]
        yield f"load {load:.0%}", ", ".join(texts)


# heterogeneous


def _exponent(p1: float, keys: int) -> float:
    """Return the exponent of Zipf's law whose hottest key has a share of ``p1``."""
    low, high = 0.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 / zipf_weights(keys, middle).sum() < p1 else (low, middle)
    return low


def share_of_tw(_: Streams) -> Iterator[Found]:
    """Hash Zipf laws with the hottest key that 2469 requires, and with that of Table 2."""
    for p1 in (0.247, 0.0267):
        stream = zipf(round(_exponent(p1, 10**5), 4), 1e5, 1e6)
        (row,) = measure_loads("KG", stream, 10_000)
        yield f"10^5 keys, p1 = {p1:.2%}", f"{row['normalised']:.0f} at 10^4 virtual workers"


def sure_signals(streams: Streams) -> Iterator[Found]:
    """Let CG's workers signal on noise as well, while capacities change; ten virtual workers each."""
    for text, parameters in (("sure signals", {}), ("binary signals", {"certainty": 0.0, "patience": 1})):
        stream = open_stream(streams["WP"])
        messages = stream.messages or 0
        changes = [Capacities(at, spec) for at, spec in scaled_changes(CHANGES, messages)]
        scheme = ef.scheme("consistent", virtual_workers=10, **parameters)
        queueing = Queueing(rate=WP_RATE, capacity=UNEQUAL, load=0.8)
        result = simulate(scheme, stream, workers=10, sources=1, queueing=queueing, events=changes)
        spread = np.array(result.over_time["utilisation_spread"])[-30:].mean()
        memory = result.row()["memory"]
        yield text, f"utilisation spread {spread:.3f} (mean of the last 30 marks), memory {memory:.2f}"


# evolving


def _queued(
    scheme: str, stream: str, workers: int, sources: int = 5, load: float = 1.0, **parameters: Any
) -> dict[str, Any]:
    rate = (open_stream(stream).messages or 10**6) / 100
    queueing = {"rate": rate, "load": load}
    (row,) = simulated(scheme, stream, workers, sources, parameters=parameters, queueing=queueing)
    return row


def _evolving(z: float, messages: float = 1e6) -> str:
    return f"evolving:z={z},keys=100000,messages={int(messages)},seed=1"


def hot_share(streams: Streams) -> Iterator[Found]:
    """Make AM-made's hot keys hotter."""
    for share in (0.05, 0.1, 0.2, 0.4):
        stream = streams["AM-made"].replace("share=0.05", f"share={share}")
        pkg, key = (_queued(name, stream, 128)["latency_p99"] for name in (PKG, "key"))
        yield f"share {share:.0%}", f"PKG's p99 is {pkg / key:.2f} of FG's"


def head_found(streams: Streams) -> Iterator[Found]:
    """Raise the threshold of W-C with 1000 counters."""
    for data in ("AM", "AM-made"):
        pkg = _queued(PKG, streams[data], 128)["latency_p99"]
        for factor in (0.2, 1, 2, 5):
            own = _queued("w-choices", streams[data], 128, capacity=1000, theta=factor / 128)["latency_p99"]
            yield f"{data}, threshold {factor:g}/n", f"W-C1000's p99 is {own / pkg:.2f} of PKG's"


def repaired_soon(_: Streams) -> Iterator[Found]:
    """Give D-C and W-C few counters, or two workers per key to the end, when the ranks reverse."""
    stream = _evolving(2.0)
    fish = _queued("fish", stream, 128)["makespan"]
    for scheme, parameters in (("d-choices", {}), ("d-choices", {"capacity": 100}), ("w-choices", {}),
                               ("w-choices", {"capacity": 100}), ("d-choices", {"choices": 2})):  # fmt: skip
        own = _queued(scheme, stream, 128, **parameters)["makespan"]
        yield f"{scheme}, {_with(parameters)}", f"{own / fish:.2f} times FISH's execution time"


def stays_hot(streams: Streams) -> Iterator[Found]:
    """Let AM-made's hot keys be hot for longer, or have more of the messages."""
    for steps, share in ((50, 0.05), (10, 0.05), (1, 0.05), (1, 0.1)):
        stream = streams["AM-made"].replace("share=0.05,steps=50", f"share={share},steps={steps}")
        few, many = (_queued(PKG, stream, workers)["makespan"] / _queued("fish", stream, workers)["makespan"]
                     for workers in (16, 128))  # fmt: skip
        text = f"FISH is {few:.2f} times faster than PKG at n = 16, {many:.2f} at 128"
        yield f"hot keys: {steps}, share {share:.0%}", text


def hardly_queues(streams: Streams) -> Iterator[Found]:
    """Take the model's cluster to less than what saturates it under SG."""
    for load, sources in ((1.0, 32), (0.9, 32), (0.8, 32), (1.0, 1), (0.8, 1)):
        sg, fish = (_queued(name, streams["AM-made"], 128, sources, load) for name in ("shuffle", "fish"))
        texts = [f"{name} {1000 * sg[f'latency_{name}']:.3g} and {1000 * fish[f'latency_{name}']:.3g} ms"
                 for name in ("p50", "p99")]  # fmt: skip
        yield f"load {load:.0%}, sources: {sources}", f"SG and FISH: {', '.join(texts)}"


def keys_between(_: Streams) -> Iterator[Found]:
    """Count the keys that a lower threshold makes hot, and what they could cost at most."""
    for workers in (64, 128):
        weights = zipf_weights(10**5, 1.0)
        law = weights / weights.sum()
        between = int(((law >= 1 / (8 * workers)) & (law < 1 / (4 * workers))).sum())
        low, usual = (_queued("fish", _evolving(1.0), workers, theta=1 / (part * workers))["replicas"]
                      for part in (8, 4))  # fmt: skip
        most = 1 + 2 * between * (workers - 2) / usual  # the ranks reverse: twice as many keys
        yield (
            f"n = {workers}: {between} keys between 1/(8n) and 1/(4n)",
            f"{low / usual:.3f} times the memory of 1/(4n); with all workers for each of them {most:.3f}",
        )


def without_decay(_: Streams) -> Iterator[Found]:
    """Never forget, with d_min by the formula and at 2."""
    stream = _evolving(2.0)
    for parameters in ({}, {"least_choices": 2}):
        fresh, old = (
            _queued("fish", stream, 128, decay=decay, **parameters)["makespan"] for decay in (0.2, 1.0)
        )
        yield f"{_with(parameters)}", f"{old / fresh:.2f} times as long without decay"


def returning_keys(_: Streams) -> Iterator[Found]:
    """Forget everything at each epoch, with few counters, short epochs, a low threshold."""
    stream = _evolving(1.0)
    for parameters in ({}, {"capacity": 100}, {"epoch": 100}, {"theta": 1 / 512}):
        none, some = (
            _queued("fish", stream, 64, decay=decay, **parameters)["memory"] for decay in (0.0, 0.2)
        )
        yield f"n = 64, z = 1, {_with(parameters)}", f"{none / some:.2f} times the memory with decay 0"


def hot_keys_weigh(_: Streams) -> Iterator[Found]:
    """Take FISH's hot keys away: those that are hot by chance (longer epochs), then all of them."""
    for z, messages in ((1.0, 1e7), (2.0, 1e6), (2.0, 1e7), (2.0, 5e7)):
        stream = _evolving(z, messages)
        keys = simulated("key", stream, 128)[0]["replicas"]
        texts = [
            f"{simulated('fish', stream, 128, parameters=given)[0]['replicas'] / keys:.2f} {text}"
            for text, given in (
                ("times FG's memory", {}),
                ("with epochs of 10,000", {"epoch": 10_000}),
                ("without hot keys", {"theta": 1.0}),
            )
        ]
        yield f"z = {z:g}, {messages:,.0f} messages, {keys:,} keys", ", ".join(texts)


def two_workers_suffice(_: Streams) -> Iterator[Found]:
    """Raise FISH's threshold on streams whose hottest key is just above it."""
    for z in (0.8, 0.9):
        stream = _evolving(z)
        p1 = 64 / zipf_weights(10**5, z).sum()
        least = _queued("fish", stream, 64, theta=1 / 256)["makespan"]
        for factor in (2, 4):
            own = _queued("fish", stream, 64, theta=factor / 64)["makespan"]
            yield f"hottest key {p1:.1f}/n, threshold {factor}/n", f"{own / least:.3f} times as long"


# dynamic


def _dynamic(scheme: str, stream: str, workers: int = 10) -> dict[str, Any]:
    queueing = {"rate": (open_stream(stream).messages or 10**6) / 1000, "load": 10 / workers}
    (row,) = simulated(scheme, stream, workers, queueing=queueing)
    return row


def widens_from(_: Streams) -> Iterator[Found]:
    """Let 300 keys have a hottest key of 10 to 30 percent."""
    for p1 in (0.10, 0.20, 0.24, 0.27, 0.30):
        stream = zipf(round(_exponent(p1, 300), 4), 300, 541_909, seed=17)
        own, pkg = (_dynamic(name, stream)["throughput"] for name in (DKG, PKG))
        yield f"p1 = {p1:.0%}", f"DKG's throughput {own / pkg - 1:+.1%} of PKG's"


def pairs_cost_nothing(streams: Streams) -> Iterator[Found]:
    """Compare KG with PKG at a hottest key of 10 percent and of 1, and ask what a pair would have to cost."""
    for name in ("wikipedia-clickstream", "AM-many"):
        (data,) = measure_data(name, streams[name])
        key, pkg = (_dynamic(scheme, streams[name]) for scheme in ("key", PKG))
        pairs = pkg["replicas"] - key["replicas"]
        even = (key["max_over_mean"] - pkg["max_over_mean"]) * data["messages"] / pairs
        text = (
            f"KG's throughput {key['throughput'] / pkg['throughput']:.2f} of PKG's, which has {pairs:,} more"
        )
        yield (
            f"{name}, p1 = {data['p1']:.1%}",
            f"{text} pairs; even if one costs as much as {even:.0f} messages",
        )


def neighbours(_: Streams) -> Iterator[Found]:
    """Compare DKG with PKG at 20 percent skew, with its widening and without."""
    stream = "countries:skew=20,messages=300000,seed=1"
    pkg = _dynamic(PKG, stream)["throughput"]
    yield "DKG", f"throughput {_dynamic(DKG, stream)['throughput'] / pkg - 1:+.1%} of PKG's"
    with patch.object(dynamic_key, "width_limit_for", lambda workers: 2):
        yield (
            "DKG that never widens",
            f"throughput {_dynamic(DKG, stream)['throughput'] / pkg - 1:+.1%} of PKG's",
        )


def same_width(_: Streams) -> Iterator[Found]:
    """Limit the width of DKG's keys to 8 at every number of workers."""
    stream = "election:messages=500000,seed=18"
    for text, limit in (("as it is", dynamic_key.width_limit_for), ("at most 8 workers", lambda workers: 8)):
        with patch.object(dynamic_key, "width_limit_for", limit):
            few, many = (_dynamic(DKG, stream, workers)["makespan"] for workers in (10, 100))
        yield text, f"latency at 100 workers {many / few:.2f} times that at 10"


CAUSES = (
    Cause(
        "counted-pairs",
        "choices/fig6",
        "Why has W-C so many more pairs than PKG than by the formula?",
        counted_pairs,
    ),
    Cause(
        "hotter-for-a-while",
        "choices/fig11, choices/fig12",
        "Does D-C on CT lack candidates, counters or a smaller epsilon?",
        hotter_for_a_while,
    ),
    Cause("found-late", "choices/fig12", "Does W-C on CT find hot keys too late?", found_late),
    Cause(
        "hottest-key-changes", "choices/fig12", "Is I(t) stable if the hottest key is?", hottest_key_changes
    ),
    Cause(
        "coinciding-candidates",
        "choices/fig10",
        "Is D-C like RR if its candidates may coincide?",
        coinciding_candidates,
    ),
    Cause(
        "above-two-nths",
        "choices/fig11",
        "From which share of a key on is PKG worse than D-C at 20 workers?",
        above_two_nths,
    ),
    Cause(
        "only-queues",
        "choices/fig14",
        "What are the latencies that a model of queues alone has?",
        only_queues,
    ),
    Cause(
        "share-of-tw",
        "heterogeneous/table1",
        "Which p1 does the printed imbalance of TW require?",
        share_of_tw,
    ),
    Cause(
        "sure-signals",
        "heterogeneous/fig12",
        "Is CG's rest of unevenness that of ten virtual workers?",
        sure_signals,
    ),
    Cause("hot-share", "evolving/fig2", "Does PKG come near to FG with hotter keys?", hot_share),
    Cause("head-found", "evolving/fig2", "Is W-C1000 like PKG if it finds fewer hot keys?", head_found),
    Cause(
        "repaired-soon",
        "evolving/fig9, evolving/fig10, evolving/fig18, evolving/fig19",
        "What would make D-C and W-C as slow as the paper has them?",
        repaired_soon,
    ),
    Cause(
        "stays-hot",
        "evolving/fig9",
        "Is PKG slower where a key is hot for longer, or hotter?",
        stays_hot,
    ),
    Cause("hardly-queues", "evolving/fig18", "What are FISH's latencies if SG queues less?", hardly_queues),
    Cause("keys-between", "evolving/fig13", "How much memory can a threshold of 1/(8n) cost?", keys_between),
    Cause(
        "without-decay", "evolving/fig12, evolving/fig14", "Does d_min hide what decay is for?", without_decay
    ),
    Cause("returning-keys", "evolving/fig12", "What would make forgetting cost memory?", returning_keys),
    Cause(
        "hot-keys-weigh",
        "evolving/fig11",
        "How much of FISH's memory at 128 workers is that of hot keys, and of keys that are hot by chance?",
        hot_keys_weigh,
    ),
    Cause(
        "two-workers-suffice",
        "evolving/fig13",
        "When does a high threshold cause imbalance?",
        two_workers_suffice,
    ),
    Cause("widens-from", "dynamic/fig9", "From which p1 on is DKG ahead of PKG?", widens_from),
    Cause(
        "pairs-cost-nothing", "dynamic/fig9", "When would KG be the best on clickstream?", pairs_cost_nothing
    ),
    Cause(
        "neighbours",
        "dynamic/fig11",
        "Is DKG behind PKG at 20 percent because of what it widens?",
        neighbours,
    ),
    Cause(
        "same-width", "dynamic/fig12", "Is the higher limit of Table 1 why DKG's latency falls?", same_width
    ),
)
