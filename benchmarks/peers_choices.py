"""KG, PKG, D-Choices and W-Choices against the published simulator of their authors (`choices`, Java).

Its streams: independent Zipf over 10^4 keys, 5 sources in turn. KG and PKG are compared at 10^7 messages. Its
D-C and W-C used a sketch too small for theta = 1/(5n), which made every key look hot; they are compared with
a repaired sketch of 1000 counters at 10^6 messages (head sizes, mean d, pairs), and in speed with the
published numbers.

Routing follows the peer: candidates may coincide, no warm-up, every source starts at worker 0. Pairs
(distinct key and worker) and imbalance depend on the hash seed, so ours are given as mean and standard
deviation over seeds, while the peer's are from a single run. Its d is larger than ours at z = 1.4, n = 10 and
z = 2.0, n = 100 because its solver omits the factor b_h of epsilon and considers only two prefixes;
``peer_choices`` is the peer's value, ``formula_choices`` is Prop. 4.1.

PoRC and bounded-load consistent hashing, from another peer, are in :mod:`benchmarks.peers_porc`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import evenflow as ef
from evenflow.bench.measure import Progress, Row, silent
from evenflow.kernels import BoolArray, Int64Array
from evenflow.report.tables import Table
from evenflow.schemes.d_choices import choices_needed
from evenflow.streams import Zipf

KEYS = 10**4
SOURCES = 5
WORKERS = (10, 50, 100)
EXPONENTS = (1.0, 1.4, 2.0)
EPSILON = 1e-4


class Peer(NamedTuple):
    """The peer's measurements for 10, 50 and 100 workers."""

    millions_per_second: tuple[float, float, float]
    pairs: tuple[int, int, int]
    imbalance: tuple[float, float, float] | None = None


PEERS = {
    "key": {
        1.0: Peer((7.0, 8.7, 7.1), (10000, 10000, 10000), (7.9e-2, 1.1e-1, 1.1e-1)),
        1.4: Peer((13.4, 10.2, 10.4), (10000, 10000, 10000), (2.7e-1, 3.3e-1, 3.4e-1)),
        2.0: Peer((15.3, 15.0, 13.4), (3740, 3740, 3740), (5.2e-1, 6.0e-1, 6.1e-1)),
    },
    "partial-key": {
        1.0: Peer((5.0, 6.0, 5.6), (18964, 16208, 15877), (1.4e-6, 3.2e-2, 4.1e-2)),
        1.4: Peer((7.3, 7.5, 7.9), (11753, 10642, 10997), (1.3e-1, 1.4e-1, 1.5e-1)),
        2.0: Peer((8.1, 8.7, 6.9), (3864, 3851, 3928), (2.8e-1, 2.8e-1, 2.9e-1)),
    },
    "d-choices": {
        1.0: Peer((0.573, 0.164, 0.177), (18000, 18879, 19825)),
        1.4: Peer((0.382, 0.185, 0.143), (11965, 11186, 11665)),
        2.0: Peer((0.320, 0.164, 0.089), (1687, 2341, 2414)),
    },
    "w-choices": {
        1.0: Peer((0.840, 0.244, 0.193), (19100, 21951, 27214)),
        1.4: Peer((0.710, 0.432, 0.277), (11993, 13398, 16423)),
        2.0: Peer((0.606, 0.526, 0.408), (1687, 2333, 3530)),
    },
}
PEER_HEAD = {1.0: (5, 25, 51), 1.4: (7, 23, 38), 2.0: (5, 12, 17)}
PEER_CHOICES = {1.0: (2, 6, 12), 1.4: (10, 22, 43), 2.0: (10, 49, 97)}
MESSAGES = {"key": 10**7, "partial-key": 10**7, "d-choices": 10**6, "w-choices": 10**6}


def as_the_authors(name: str) -> ef.Scheme:
    """Return the scheme with the authors' choices where they differ from our defaults."""
    if name == "key":
        return ef.scheme(name)
    if name == "partial-key":
        return ef.scheme(name, distinct=False)
    return ef.scheme(name, distinct=False, capacity=1000)


def zipf_shares(z: float) -> Any:
    """Return the probability of every key, most frequent first."""
    weights = np.arange(1, KEYS + 1, dtype=np.float64) ** -z
    return weights / weights.sum()


class Run(NamedTuple):
    """The result of one stream from five sources."""

    pairs: int
    imbalance: float
    seconds: float
    head: float  # mean size over the sources, at the end
    choices: float  # mean d over the sources and the stream


def route(scheme: ef.Scheme, z: float, n: int, messages: int, seed: int) -> Run:
    """Route one stream from the sources in turn and measure the result."""
    stream = Zipf(z=z, keys=KEYS, messages=messages, seed=seed)
    ids = stream.generate(0, messages).ids
    keys = stream.hashes[ids]
    seen: BoolArray = np.zeros((KEYS, n), np.bool_)
    loads: Int64Array = np.zeros(n, np.int64)
    seconds, heads, choices = 0.0, [], []
    for source in range(SOURCES):
        router = scheme.router(n, seed=seed)  # all start at worker 0, as in the authors' simulator
        own = np.ascontiguousarray(keys[source::SOURCES])
        for part, part_ids in zip(
            np.array_split(own, 10), np.array_split(ids[source::SOURCES], 10), strict=True
        ):
            start = time.process_time()
            workers = router.route(part)
            seconds += time.process_time() - start
            seen[part_ids, workers] = True
            if router.choices is not None:
                choices.append(router.choices)
        loads += router.loads
        if router.head is not None:
            heads.append(router.head[0].size)
    imbalance = float(loads.max() / messages - 1 / n)
    return Run(int(seen.sum()), imbalance, seconds, _mean(heads), _mean(choices))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def measure(name: str, z: float, n: int, seeds: int = 5, messages: int | None = None) -> Row:
    """Route the peer's stream with several seeds and compare with the peer's numbers."""
    scheme = as_the_authors(name)
    scheme.router(n).route(np.arange(10, dtype=np.uint64))  # compile
    count = messages or MESSAGES[name]
    runs = [route(scheme, z, n, count, seed) for seed in range(seeds)]
    index = WORKERS.index(n)
    peer = PEERS[name][z]
    pairs = np.array([run.pairs for run in runs])
    speed = count / statistics.median(run.seconds for run in runs)
    row: Row = {
        "scheme": name,
        "z": z,
        "workers": n,
        "messages": count,
        "pairs": float(pairs.mean()),
        "pairs_deviation": float(pairs.std(ddof=1)) if seeds > 1 else 0.0,
        "peer_pairs": peer.pairs[index],
        "imbalance": float(np.mean([run.imbalance for run in runs])),
        "peer_imbalance": peer.imbalance[index] if peer.imbalance else None,
        "messages_per_second": speed,
        "relative_to_peer": speed / (1e6 * peer.millions_per_second[index]),
    }
    if name in ("d-choices", "w-choices"):
        row |= {"head": float(np.mean([run.head for run in runs])), "peer_head": PEER_HEAD[z][index]}
    if name == "d-choices":
        shares = zipf_shares(z)
        row |= {
            "choices": float(np.mean([run.choices for run in runs])),
            "formula_choices": choices_needed(shares[shares >= 1 / (5 * n)], n, EPSILON, distinct=False),
            "peer_choices": PEER_CHOICES[z][index],
        }
    return row


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure every row of the peer's tables with 5 seeds, or 2 if ``quick``."""
    cases = [(name, z, n) for name in PEERS for z in EXPONENTS for n in WORKERS]
    rows = []
    for index, (name, z, n) in enumerate(cases):
        progress(index, len(cases), f"{name}, z = {z}, {n} workers")
        rows.append(measure(name, z, n, seeds=2 if quick else 5))
    return rows


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return one table of ours and the peer's numbers."""
    return [
        Table(
            "Against the authors' simulator of `choices`",
            (
                "scheme",
                "z",
                "workers",
                "M messages/s",
                "x peer",
                "pairs",
                "deviation",
                "peer",
                "imbalance",
                "peer",
                "head",
                "peer",
                "mean d",
                "formula",
                "peer",
            ),
            [
                (
                    row["scheme"],
                    row["z"],
                    row["workers"],
                    row["messages_per_second"] / 1e6,
                    row["relative_to_peer"],
                    round(row["pairs"]),
                    round(row["pairs_deviation"]),
                    row["peer_pairs"],
                    row["imbalance"],
                    row["peer_imbalance"],
                    row.get("head"),
                    row.get("peer_head"),
                    row.get("choices"),
                    row.get("formula_choices"),
                    row.get("peer_choices"),
                )
                for row in rows
            ],
            note="Pairs: distinct (key, worker), mean and deviation over seeds; the peer's are a single run.",
        )
    ]
