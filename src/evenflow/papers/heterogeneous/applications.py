"""The bound of 6.1.2 and the applications of section 8 of `heterogeneous`: histograms, merged summaries."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

import evenflow as ef
from evenflow.kernels import Int32Array, Int64Array
from evenflow.papers import rules as r
from evenflow.papers.experiment import Claim, Experiment, Row
from evenflow.papers.figures import Bars, Lines
from evenflow.papers.grid import at, grid, schemes
from evenflow.papers.heterogeneous.loads import SCHEMES, VIRTUAL_WORKERS
from evenflow.papers.measures import zipf
from evenflow.papers.table import Table
from evenflow.schemes.base import WorkerReport
from evenflow.schemes.consistent import ConsistentGroupingRouter
from evenflow.simulator import parse_capacities
from evenflow.sketches.space_saving import SpaceSaving
from evenflow.streams import open_stream

LOAD, BUSY, IDLE = 0.8, 0.85, 0.75  # of all capacity, and of a worker's
SLOT = 1000  # messages
SURE = 3.0  # standard deviations of a count
LEAVES, FEATURES, CLASSES = 30, 11, 3  # an odd number of features: SG in turn meets every worker
TOP = 100  # keys whose counts are compared
COUNTERS = 200


def measure_bound(stream: str, capacity: str, epsilon: float) -> list[Row]:
    """Let CG's workers signal after every slot; a row per busy signal: virtual workers held, and optimal.

    A worker counts what arrives from its last change of virtual workers on, and is busy or idle if the load
    exceeds a threshold by more than the noise of that count.
    """
    shares = parse_capacities(capacity, 10)
    shares = shares / shares.sum()
    router = cast(ConsistentGroupingRouter, ef.scheme("consistent", epsilon=epsilon).router(10))
    opened = open_stream(stream)
    keys = opened.hashes[np.concatenate([chunk.ids.copy() for chunk in opened.chunks()])]
    arrived, served = np.zeros(10), np.zeros(10)
    rows: list[Row] = []
    for start in range(0, keys.size, SLOT):
        arrived += np.bincount(router.route(keys[start : start + SLOT]), minlength=10)
        served += shares * SLOT / LOAD
        noise = SURE * np.sqrt(arrived)
        busy, idle = arrived - noise > BUSY * served, arrived + noise < IDLE * served
        held = router.held.copy()
        optimal = shares * 10 * VIRTUAL_WORKERS
        rows += [{"slot": start // SLOT, "worker": int(w), "held": int(held[w]), "optimal": float(optimal[w]),
                  "epsilon": epsilon, "theta": BUSY / LOAD, "ratio": float(held[w] / optimal[w])}
                 for w in np.flatnonzero(busy)]  # fmt: skip
        router.report(WorkerReport(signal=busy.astype(np.int8) - idle.astype(np.int8)))
        changed = router.held != held
        arrived[changed] = served[changed] = 0
    return rows


def measure_tree(symbol: str, workers: int, messages: int, z: float = 1.0, seed: int = 1) -> list[Row]:
    """Send rows of a tree's leaves by (leaf, feature): histograms held, and merged to split a leaf.

    ``merged_least`` and ``merged``: for the leaf that takes the fewest and for the one that takes the most.
    """
    leaves = np.concatenate([chunk.ids.copy() for chunk in
                             open_stream(zipf(z, LEAVES, messages // FEATURES, seed)).chunks()])  # fmt: skip
    classes = np.random.default_rng(seed).integers(0, CLASSES, leaves.size)
    keys = (leaves[:, None] * FEATURES + np.arange(FEATURES)).ravel()
    sent = _sent(symbol, keys, workers)
    held = np.unique((keys * CLASSES + np.repeat(classes, FEATURES)) * workers + sent)
    merged = np.bincount(held // (workers * CLASSES * FEATURES), minlength=LEAVES)
    full = workers * FEATURES * CLASSES
    row = {"symbol": symbol, "workers": workers, "held": int(held.size), "full": full * LEAVES}
    loads = np.bincount(sent, minlength=workers)
    row |= {"merged_least": int(merged.min()), "merged": int(merged.max()), "full_split": full}
    row |= {"of_full": held.size / (full * LEAVES), "normalised": float(loads.max() / loads.mean() - 1)}
    return [row]


def measure_hitters(symbol: str, stream: str, workers: int) -> list[Row]:
    """Count by a SpaceSaving summary on every worker: a row with means over the most frequent keys.

    ``summaries``: those that have seen a key; ``error``: of the sum of their counts; ``bound``: the sum of
    their floors, which is what each may be wrong by. Both relative to the error of one summary of all.
    """
    opened = open_stream(stream)
    ids = np.concatenate([chunk.ids.copy() for chunk in opened.chunks()])
    sent = _sent(symbol, ids, workers, opened.hashes)
    counts = np.bincount(ids)
    top = np.argsort(-counts, kind="stable")[:TOP]
    hashes = opened.hashes
    estimated, bound, summaries = (np.zeros(TOP) for _ in range(3))
    for worker in range(workers):
        own = ids[sent == worker]
        found, floor = _counted(hashes[own], hashes[top])
        seen = np.isin(top, own)
        estimated += np.where(seen, found, 0)
        bound += np.where(seen, floor, 0)
        summaries += seen
    _, alone = _counted(hashes[ids], hashes[top])
    row = {"symbol": symbol, "workers": workers, "summaries": float(summaries.mean()), "alone": float(alone)}
    error = np.abs(estimated - counts[top])
    return [row | {"bound": float(bound.mean()), "error": float(error.mean()),
                   "within": bool((error <= bound).all())}]  # fmt: skip


def _counted(messages: Any, wanted: Any) -> tuple[Any, float]:
    """Return a summary's counts of some keys, and its floor: what a count may be wrong by."""
    sketch = SpaceSaving(COUNTERS)
    sketch.update(np.ascontiguousarray(messages))
    keys, counts, _ = sketch.top()
    floor = float(sketch.floor)
    found = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    return np.array([found.get(int(key), floor) for key in wanted]), floor


def _sent(symbol: str, ids: Int64Array | Int32Array, workers: int, hashes: Any = None) -> Int32Array:
    """Return the worker of every message."""
    hashes = ef.hash_keys(np.arange(int(ids.max()) + 1)) if hashes is None else hashes
    return ef.scheme(SCHEMES.get(symbol, symbol)).router(workers).route(hashes[ids])


# What claims measure, where no comparator has it


def _least_ratio(t: Table) -> tuple[float, float, int]:
    """Return the least of held over optimal, relative to the bound; the ratio itself; how many signals."""
    bound = t["theta"] / (1 + t["epsilon"])
    least = (t["ratio"] / bound).min()
    return float(least), float(t["ratio"].min()), len(t)


_SPLIT = "PoRC splits every key that meets a full virtual worker."
_SUBJECTS = ("KG", "PKG", "CG", "SG")
_figure = partial(Experiment, "heterogeneous")

# fmt: off
EXPERIMENTS = [
    _figure("bound", "Virtual workers of a busy worker",
            "Section 6.1.2: a worker above theta_b = 0.85 / 0.8 of its fair load has at least theta_b / "
            "(1 + epsilon) times its optimal number of virtual workers. Ten workers with ten each, one "
            "source, Zipf z = 1, 10^5 keys; every busy signal of three clusters and two epsilons.",
            grid(stream=at(zipf(1.0, 1e5, 1e6), zipf(1.0, 1e5, 1e7)), epsilon=(0.01, 0.05),
                 capacity=("3x5,7x1", "1x10,9x1", "5x2,5x1")), measure_bound,
            Lines(x="slot", y="ratio", by="epsilon = {epsilon:g}", ylabel="virtual workers / optimal"), (
        Claim("6.1.2",
              "an overloaded worker has at least theta_b (1 - epsilon n alpha) of the optimal number",
              ">= the bound",
              r.graded(_least_ratio, lambda least, ratio, count: least >= 1 and count >= 20,
                       lambda least, ratio, count: least >= 0.9 and count >= 20,
                       "at worst {0:.3f} of the bound, {1:.3f} of the optimal number; {2} busy signals")),
    )),
    _figure("tree", "Decision tree: histograms held and merged",
            f"Section 8.1: {LEAVES} leaves (Zipf z = 1), {FEATURES} features, {CLASSES} classes; a message "
            "is a row's value of a feature, keyed by leaf and feature. One source.",
            grid(symbol=schemes(*_SUBJECTS), workers=(5, 10, 20, 50), messages=at(10**6, 10**7)),
            measure_tree,
            Bars(x="workers", y={"held": "histograms held", "merged": "merged per split"}, by="symbol"), (
        Claim("8.1", "under SG the workers keep W x D x C x L histograms", "all",
              r.at_least(lambda t: t.only(symbol="SG")["of_full"].min(), 0.99, 0.9, "{:.1%}")),
        Claim("8.1", "a split merges W x D x C histograms under SG", "all",
              r.each(r.holds("merged_least >= 0.99 * full_split", symbol="SG"), "numbers of workers"),
              "in a short stream the leaf with the fewest rows has five for each histogram of 50 workers"),
        Claim("8.1", "under KG their number does not depend on W", "D x C x L",
              r.each(r.holds("held * workers == full", symbol="KG"), "numbers of workers")),
        Claim("8", "CG reduces the memory footprint of algorithms that use SG", "fewer, increasingly",
              r.graded(lambda t: {n: t.value("held", symbol="CG", workers=n) / t.value(
                           "held", symbol="SG", workers=n) for n in (5, 10, 20, 50)},
                       lambda found: max(found.values()) <= 0.75 and found[50] < found[5],
                       lambda found: found[50] < 0.9,
                       lambda found: "CG's histograms of SG's: " + ", ".join(
                         f"{share:.2f} at W = {n}" for n, share in found.items())), _SPLIT),
        Claim("8", "and of merges per split", "fewer",
              r.at_most(r.ratio("merged", "CG", "SG", "workers"), 0.75, 0.9,
                        "at most {:.2f} of SG's, for the leaf with the most"), _SPLIT),
        Claim("8", "while its load stays balanced, unlike KG's", "<= epsilon",
              r.graded(lambda t: (t.only(symbol="CG")["normalised"].max(),
                                  t.only(symbol="KG", workers=50)["normalised"].max()),
                       lambda mine, key: mine <= 0.02 and key > 0.5, lambda mine, key: mine < key / 5,
                       "CG at most {:.3f}, KG {:.2f} at W = 50")),
    ), version=2),
    _figure("hitters", "Heavy hitters: error by the number of summaries",
            f"Section 8.2: a SpaceSaving summary of {COUNTERS} counters per worker, merged; means over the "
            f"{TOP} most frequent keys of a Zipf stream, z = 1, 10^5 keys. The bound is the sum of the "
            "floors of the summaries that have seen a key.",
            grid(symbol=schemes(*_SUBJECTS), stream=at(zipf(1.0, 1e5, 1e6), zipf(1.0, 1e5, 1e7)),
                 workers=(5, 10, 20, 50)), measure_hitters,
            Lines(x="workers", y={"summaries": "summaries per key", "bound": "bound of the error",
                                  "error": "error"}, by="symbol", logy=True), (
        Claim("8.2", "the error is at most the sum of the errors of the summaries that hold the key",
              "within",
              r.each(r.holds("within"), "settings with every key within its bound")),
        Claim("8.2", "under SG the bound depends on the parallelism: all W summaries add up", "W summaries",
              r.each(r.holds("summaries >= 0.95 * workers", symbol="SG"), "numbers of workers")),
        Claim("8.2", "under KG an item's error depends on a single summary", "1 summary",
              r.each(r.holds("summaries == 1", symbol="KG"), "numbers of workers")),
        Claim("8.2", "KG's bound is no larger than that of one summary of the whole stream", "equivalent",
              r.at_most(lambda t: t.only(symbol="KG").eval("bound / alone").max(), 1.0, 1.25,
                        "at most {:.3f} times")),
        Claim("8.2", "CG's bound is below SG's, since fewer summaries hold a key", "below",
              r.at_most(r.ratio("bound", "CG", "SG", "workers"), 0.75, 0.95, "at most {:.2f} of SG's")),
    )),
]
