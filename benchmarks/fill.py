"""Fill against every other scheme: balance, memory, cold start, capacities, elasticity, speed, ablation.

Real streams are read from a folder of Parquet files (``data``, or EVENFLOW_DATA) with a column ``key`` in
stream order. Generated streams that drift, burst and reverse are always included.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import evenflow as ef
from benchmarks.fill_variants import Variant
from benchmarks.fill_variants import route as route_variant
from evenflow.bench.measure import Progress, Row, against, silent
from evenflow.bench.subjects import Subject, routing, zipf
from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, UInt64Array, kernel
from evenflow.plan.bin_packing import pour
from evenflow.report.tables import Table
from evenflow.schemes.base import RouterPlace
from evenflow.schemes.fill import Fill, FillRouter
from evenflow.simulator import Capacities, Queueing, Rescale, simulate
from evenflow.streams import Stream, open_stream

EPSILON = 0.02
EVEN = 1.05  # a scheme counts as balanced up to this max/mean
WORKERS = (20, 50, 100)
GENERATED = (
    "evolving:z=1.2,keys=1e4,messages=1e6,seed=1",
    "drift:messages=1e6,seed=1",
    "burst:messages=1e6,seed=1",
    "zipf:z=2.5,keys=1e4,messages=1e6,seed=1",
)
MARKS = 100
MARK = "<!-- below this line everything is written by: python -m benchmarks fill -->"


def run(quick: bool = False, data: str | None = None, progress: Progress = silent) -> list[Row]:
    """Measure all parts; ``quick`` uses one number of workers and smaller streams."""
    streams = [*_real_streams(data), *GENERATED]
    messages = 2 * 10**5 if quick else 2 * 10**6
    return [
        *frontier(streams[-6:] if quick else streams, WORKERS[1:2] if quick else WORKERS, progress),
        *stationary(5 * messages, progress),
        *capacities(messages, progress),
        *elasticity(messages, progress),
        *speed(5 * messages, 3 if quick else 7, progress),
        *ablation(streams, messages // 2, progress),
    ]


def frontier(streams: Sequence[str], workers: Sequence[int], progress: Progress = silent) -> list[Row]:
    """Measure balance and memory of every scheme on every stream.

    Fill may use 1.02 times the memory of the best balanced scheme.
    """
    rows: list[Row] = []
    names = list(ef.list_schemes())
    for index, (spec, n) in enumerate((spec, n) for spec in streams for n in workers):
        own = []
        for step, name in enumerate(names):
            progress(
                index * len(names) + step,
                len(streams) * len(workers) * len(names),
                f"{_short(spec)}, {n}, {name}",
            )
            numbers = simulate(ef.scheme(name), spec, workers=n, sources=1).row()
            own.append(
                {
                    "part": "frontier",
                    "stream": _short(spec),
                    "workers": n,
                    "scheme": name,
                    "max_over_mean": numbers["max_over_mean"],
                    "memory": numbers["memory"],
                    "imbalance_mean": numbers["imbalance_mean"],
                }
            )
        even = {row["scheme"]: row["memory"] for row in own if row["max_over_mean"] <= EVEN}
        mine = even.pop("fill", float("inf"))
        best = min(even, key=lambda name: even[name]) if even else None
        for row in own:
            if row["scheme"] == "fill":
                row |= {
                    "best_other": best,
                    "best_memory": even.get(best) if best else None,
                    "ok": mine <= 1.02 * min(even.values(), default=float("inf")),
                }
        rows += own
    return rows


def stationary(messages: int, progress: Progress = silent) -> list[Row]:
    """Measure memory and cold start of fill on stationary Zipf streams."""
    grid = [(z, keys, n) for z in (0.6, 1.0, 1.4, 2.0) for keys in (10**4, 10**5, 10**6) for n in (10, 100)]
    rows = []
    for index, (z, keys, n) in enumerate(grid):
        progress(index, len(grid), f"Zipf {z}, {keys} keys, {n} workers")
        spec = f"zipf:z={z},keys={keys},messages={messages},seed=1"
        result = simulate("fill", spec, workers=n, sources=1, marks=MARKS)
        numbers = result.row()
        excess = np.asarray(result.over_time["imbalance"]) * n
        rows.append(
            {
                "part": "stationary",
                "z": z,
                "keys": keys,
                "workers": n,
                "messages": messages,
                "max_over_mean": numbers["max_over_mean"],
                "memory": numbers["memory"],
                "mean_excess": float(excess.mean()),
                "ok": numbers["memory"] <= 1.10 and float(excess.mean()) <= 2 * EPSILON,
            }
        )
    return rows


def capacities(messages: int, progress: Progress = silent) -> list[Row]:
    """Measure how closely loads follow capacities: 5 of 20 workers are 5 times faster, others after half."""
    n, half = 20, messages // 2
    first, second = "5x5,15x1", "15x1,5x5"
    windows = {
        "after 100 n messages": (half + 100 * n, half + 1100 * n),
        "at the end": (messages - 1000 * n, messages),
    }
    rows = []
    for step, name in enumerate(("fill", "consistent", "fish", "key", "shuffle")):
        progress(step, 5, f"capacities, {name}")
        loads = {0: np.zeros(n)}
        for end in sorted({bound for window in windows.values() for bound in window}):
            result = simulate(
                name,
                f"zipf:z=1.0,keys=1e4,messages={end},seed=1",
                workers=n,
                sources=1,
                queueing=Queueing(capacity=first, load=0.8, rate=1e4),
                events=[Capacities(at=half, capacities=second)] if end > half else [],
            )
            loads[end] = result.loads.astype(np.float64)
        share = np.repeat([1.0, 5.0], [15, 5]) / 40
        for window, (start, end) in windows.items():
            got = (loads[end] - loads[start]) / (end - start)
            rows.append(
                {
                    "part": "capacities",
                    "scheme": name,
                    "window": window,
                    "largest_deviation": float(np.abs(got / share - 1).max()),
                    "memory": result.row()["memory"],
                    "ok": None if name != "fill" else bool(np.abs(got / share - 1).max() <= 0.05),
                }
            )
    return rows


def elasticity(messages: int, progress: Progress = silent) -> list[Row]:
    """Measure the state that moves when a worker joins or leaves, relative to the minimum."""
    spec = f"zipf:z=0.8,keys=1e5,messages={messages},seed=1"
    subjects = [
        ("fill(split=False)", ef.scheme("fill", split=False)),
        ("explicit redist", ef.scheme("explicit", algorithm="redist")),
        ("explicit scan", ef.scheme("explicit", algorithm="scan")),
        ("consistent-hash", ef.scheme("consistent-hash")),
    ]
    changes = [(10, 11), (10, 9), (50, 51), (50, 49)]
    rows = []
    for step, (before, after) in enumerate(changes):
        progress(step, len(changes), f"{before} to {after} workers")
        moved, most = _fill_moves(spec, before, after)
        ideal = abs(after - before) / max(after, before)
        rows.append(_moved("fill", before, after, moved / ideal, most))
        for name, scheme in subjects:
            result = simulate(
                scheme, spec, workers=before, sources=1, events=[Rescale(at=messages // 2, workers=after)]
            )
            relative = float(result.rescales["state_moved"][0] / result.rescales["state_ideal"][0])
            rows.append(_moved(name, before, after, relative, result.row()["max_over_mean"]))
    return rows


def _moved(name: str, before: int, after: int, relative: float, most: float) -> Row:
    ok = relative <= 1.3 if name.startswith("fill") else None
    return {
        "part": "elasticity",
        "scheme": name,
        "from": before,
        "to": after,
        "relative_migration": relative,
        "max_over_mean": most,
        "ok": ok,
    }


def _fill_moves(spec: str, before: int, after: int) -> tuple[float, float]:
    """Return the share of state whose home moved (keys with several homes keep them), and max/mean."""
    ids, hashes = _read(open_stream(spec))
    router = FillRouter(Fill(), RouterPlace(before, seed=0, source=0, sources=1))
    half = ids.size // 2
    router.route(hashes[ids[:half]])
    counts = np.bincount(ids[:half], minlength=hashes.size)
    old, several = router.first_homes(hashes), router.homes()
    for key, homes in several.items():  # their state is spread over the homes
        at = np.flatnonzero(hashes == np.uint64(key))
        counts[at] = 0 if after > before or before - 1 not in homes else counts[at] // len(homes)
    router.rescale(after)
    moved = counts[old != router.first_homes(hashes)].sum() / half
    loads = np.bincount(router.route(hashes[ids[half:]]), minlength=after)
    return float(moved), float(loads.max() * after / loads.sum())


def speed(messages: int, rounds: int, progress: Progress = silent) -> list[Row]:
    """Measure fill's time per message against key grouping's, and planning against routing each key once."""
    load = zipf(1.4, 10**5, messages)
    unit = routing(Subject(ef.scheme("key")), 100, load)
    tasks = {f"fill, {n} workers": routing(Subject(ef.scheme("fill")), n, load) for n in (10, 100, 1000)}
    for other in ("partial-key", "w-choices", "d-choices", "fish"):
        tasks[f"{other}, 100 workers"] = routing(Subject(ef.scheme(other)), 100, load)
    return [
        *(
            _ratio(
                f"{name}: time per message relative to key", measured.ratio, 12, measured.seconds / messages
            )
            if name.startswith("fill")
            else _ratio(f"{name}: the same", measured.ratio, None, measured.seconds / messages)
            for name, measured in against(unit, tasks, rounds, progress).items()
        ),
        _ratio("plan of 10^4 hot keys, 1000 workers: time relative to routing each once", _planning(), 50),
    ]


def _ratio(what: str, ratio: float, limit: float | None, seconds: float | None = None) -> Row:
    ok = None if limit is None else ratio <= limit
    nanoseconds = None if seconds is None else 1e9 * seconds
    return {
        "part": "speed",
        "what": what,
        "ratio": ratio,
        "nanoseconds": nanoseconds,
        "limit": limit,
        "ok": ok,
    }


def _planning() -> float:
    rng = np.random.default_rng(1)
    n, hot = 1000, np.sort(rng.pareto(1.0, 10**4))[::-1].copy()
    buckets = np.repeat(np.arange(n, dtype=np.int32), 64)
    bucket_of_key = rng.integers(0, buckets.size, hot.size).astype(np.int32)
    tail = rng.random(buckets.size) * 1e-3
    keys = rng.integers(0, 2**64, hot.size, dtype=np.uint64)
    ratios = []
    for _ in range(7):
        router = ef.scheme("fill").router(n)
        router.route(keys)
        start = time.thread_time()
        pour(hot, bucket_of_key, tail, buckets, np.ones(n))
        planned = time.thread_time()
        router.route(keys)
        ratios.append((planned - start) / (time.thread_time() - planned))
    return float(np.median(ratios[1:]))


VARIANTS = {
    "fill": Variant(),
    "no other homes (key grouping)": Variant(valve=False),
    "homes only for balance": Variant(waits=False),
    "homes only for waits": Variant(balance=False),
    "homes not kept": Variant(remember=False),
    "new home: the second hash": Variant(earliest=False),
    "hot keys do not give way first": Variant(hot_first=False),
    "hot from 1/240 of a worker, however many keys": Variant(light_key=np.inf),
    "new keys stay in their bucket": Variant(free_new=False),
    "only a group of 4 homes is looked at": Variant(look=1),
    "groups of 16 homes": Variant(group=16),
    "exact counts": Variant(exact=True),
    "512 counters per worker": Variant(cells=512),
    "2048 counters per worker": Variant(cells=2048),
    "counts of 100 messages per worker": Variant(recent=100.0),
    "counts of the whole stream": Variant(recent=1e12),
    "workers serve 1 + epsilon / 4": Variant(drain=0.25),
    "workers serve 1 + 2 epsilon": Variant(drain=2.0),
    "limits are not stretched": Variant(price=0.0),
    "bursts open no homes at once": Variant(bursts=False),
    "neither": Variant(price=0.0, bursts=False),
    "queue=2": Variant(queue=2.0),
    "queue=20": Variant(queue=20.0),
}


def ablation(streams: Sequence[str], messages: int, progress: Progress = silent) -> list[Row]:
    """Measure fill with each rule removed or changed, at 100 workers."""
    n = 100
    chosen = [
        spec
        for spec in streams
        if _short(spec)
        in {"congress_hashtags", "stocknet_cashtags", "online_retail_country", "online_retail_stock"}
    ]
    chosen += [f"zipf:z=0.6,keys=1e4,messages={messages},seed=1", f"drift:messages={messages},seed=1"]
    rows = []
    for index, spec in enumerate(chosen):
        ids, hashes = _read(open_stream(spec))
        for step, (name, variant) in enumerate(VARIANTS.items()):
            progress(index * len(VARIANTS) + step, len(chosen) * len(VARIANTS), f"{_short(spec)}, {name}")
            workers = route_variant(variant, ids, hashes, n)
            pairs = np.unique(ids.astype(np.int64) * n + workers).size
            rows.append(
                {
                    "part": "ablation",
                    "variant": name,
                    "stream": _short(spec),
                    "max_over_mean": float(np.bincount(workers, minlength=n).max() * n / ids.size),
                    "memory": pairs / np.unique(ids).size,
                    "p99": _p99(workers, n),
                }
            )
    return rows


def _p99(workers: Int32Array, n: int, load: float = 0.9) -> float:
    """Return the 99th percentile of the latency of equal workers, in times of service."""
    latency = np.empty(workers.size)
    _serve(workers, np.zeros(n), load, latency)
    return float(np.quantile(latency, 0.99))


@kernel
def _serve(workers: Int32Array, free: Float64Array, load: float, latency: Float64Array) -> None:
    for i in range(workers.size):
        now = i / (free.size * load)
        free[workers[i]] = max(free[workers[i]], now) + 1.0
        latency[i] = free[workers[i]] - now


def _read(stream: Stream) -> tuple[Int32Array, UInt64Array]:
    ids = np.concatenate([chunk.ids for chunk in stream.chunks()])
    return ids, stream.hashes


def _real_streams(data: str | None) -> list[str]:
    folder = data or os.environ.get("EVENFLOW_DATA")
    if not folder:
        return []
    files = sorted(Path(folder).glob("*.parquet"))
    if not files:
        raise EvenflowError(
            f"there is no Parquet file in {folder!r}; give a folder of streams, or omit --data."
        )
    return [f"{file}#key" for file in files]


def _short(spec: str) -> str:
    return Path(spec.split("#", maxsplit=1)[0]).stem if "#" in spec else spec.split(",seed", maxsplit=1)[0]


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return every part as a table."""
    return [table for part in _TABLES for table in part([dict(row) for row in rows])]


def _of(rows: Sequence[Row], part: str) -> list[Row]:
    return [row for row in rows if row["part"] == part]


def _frontier_tables(rows: Sequence[Row]) -> Iterator[Table]:
    own = _of(rows, "frontier")
    if not own:
        return
    mine = [row for row in own if row["scheme"] == "fill"]
    yield Table(
        f"Fill against the best other balanced scheme (max/mean at most {EVEN})",
        ("stream", "workers", "max/mean", "memory", "best other", "its memory", ""),
        [
            (
                r["stream"],
                r["workers"],
                _fine(r["max_over_mean"]),
                _fine(r["memory"]),
                r["best_other"],
                _fine(r["best_memory"]),
                _ok(r),
            )
            for r in mine
        ],
        "Memory is (key, worker) pairs per distinct key; one source. ok: at most 1.02 x the best other's.",
    )
    schemes = [
        "fill",
        "partial-key",
        "d-choices",
        "w-choices",
        "random-choices",
        "bounded-load",
        "fish",
        "dynamic-key",
    ]
    schemes = [name for name in schemes if any(row["scheme"] == name for row in own)]
    cases = list(dict.fromkeys((row["stream"], row["workers"]) for row in own))
    at = {(row["stream"], row["workers"], row["scheme"]): row for row in own}
    yield Table(
        "Max/mean; memory of the schemes that split keys",
        ("stream", "workers", *schemes),
        [
            (s, n, *(f"{at[s, n, k]['max_over_mean']:.3f}; {at[s, n, k]['memory']:.2f}" for k in schemes))
            for s, n in cases
        ],
    )


def _stationary_tables(rows: Sequence[Row]) -> Iterator[Table]:
    own = _of(rows, "stationary")
    if own:
        yield Table(
            f"Fill on stationary Zipf streams of {own[0]['messages']:,} messages",
            ("z", "keys", "workers", "max/mean", "memory", "mean of max/mean - 1", ""),
            [
                (
                    r["z"],
                    r["keys"],
                    r["workers"],
                    *map(_fine, (r["max_over_mean"], r["memory"], r["mean_excess"])),
                    _ok(r),
                )
                for r in own
            ],
            "Limits: memory 1.10; mean over the run, sampled at every percent of it, 0.04.",
        )


def _capacity_tables(rows: Sequence[Row]) -> Iterator[Table]:
    own = _of(rows, "capacities")
    if own:
        yield Table(
            "Largest deviation of a worker's load from its share of capacity (1:5, changing halfway)",
            ("scheme", "window of 1000 n messages", "largest deviation", "memory", ""),
            [(r["scheme"], r["window"], r["largest_deviation"], r["memory"], _ok(r)) for r in own],
            "20 workers, Zipf z = 1.0, load 0.8. Limit for fill: 0.05.",
        )


def _elasticity_tables(rows: Sequence[Row]) -> Iterator[Table]:
    own = _of(rows, "elasticity")
    if own:
        yield Table(
            "State that moves when the number of workers changes, relative to the minimum",
            ("scheme", "from", "to", "moved / ideal", "max/mean", ""),
            [
                (r["scheme"], r["from"], r["to"], r["relative_migration"], _fine(r["max_over_mean"]), _ok(r))
                for r in own
            ],
            "Zipf z = 0.8, 10^5 keys; state is one unit per message. Limit for fill: 1.3.",
        )


def _speed_tables(rows: Sequence[Row]) -> Iterator[Table]:
    own = _of(rows, "speed")
    if own:
        yield Table(
            "Speed",
            ("what", "ratio", "ns per message", "limit", ""),
            [(r["what"], r["ratio"], r["nanoseconds"], r["limit"], _ok(r)) for r in own],
        )


def _ablation_tables(rows: Sequence[Row]) -> Iterator[Table]:
    own = _of(rows, "ablation")
    if own:
        streams = list(dict.fromkeys(row["stream"] for row in own))
        at = {(row["variant"], row["stream"]): row for row in own}
        variants = list(dict.fromkeys(row["variant"] for row in own))
        yield Table(
            "Ablation: max/mean; memory; p99 in times of service at load 0.9, with a rule removed or changed",
            ("variant", *streams),
            [
                (
                    v,
                    *("{max_over_mean:.3f}; {memory:.3f}; {p99:.3g}".format_map(at[v, s]) for s in streams),
                )
                for v in variants
            ],
        )


_TABLES = (
    _frontier_tables,
    _stationary_tables,
    _capacity_tables,
    _elasticity_tables,
    _speed_tables,
    _ablation_tables,
)


def _fine(value: float | None) -> str:
    """Format with four decimals: what matters is the excess over 1."""
    return "" if value is None else f"{value:.4f}"


def _ok(row: Row) -> str:
    return "" if row.get("ok") is None else "ok" if row["ok"] else "missed"


def write_page(rows: Sequence[Row], path: Path) -> None:
    """Write the tables and the figure to a Markdown page, keeping the text above the mark."""
    picture = path.parent / "figures" / "fill-frontier.png"
    figure(rows, picture)
    kept = path.read_text(encoding="utf-8").split(MARK)[0] if path.exists() else "# fill, measured\n\n"
    body = "\n\n".join(table.plain() for table in tables(rows))
    image = f"![Balance against memory, every scheme on every stream](figures/{picture.name})"
    path.write_text(f"{kept}{MARK}\n\n{image}\n\n{body}\n", encoding="utf-8")


def figure(rows: Sequence[Row], path: Path, workers: int = 100) -> None:
    """Draw balance against memory, one panel per stream."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator

    own = [row for row in _of(rows, "frontier") if row["workers"] == workers] or _of(rows, "frontier")
    streams = list(dict.fromkeys(row["stream"] for row in own))
    columns = min(4, len(streams))
    lines = -(-len(streams) // columns)
    drawing = Figure(figsize=(3.2 * columns, 2.9 * lines + 0.6), layout="constrained")
    panels: Any = drawing.subplots(lines, columns, squeeze=False)
    names = sorted({row["scheme"] for row in own} - {"fill"})
    marks = "os^vDP*X<>phd8H"
    handles = {}
    for index, panel in enumerate(panels.flat):
        if index >= len(streams):
            panel.axis("off")
            continue
        for i, name in enumerate([*names, "fill"]):
            row = next(row for row in own if row["stream"] == streams[index] and row["scheme"] == name)
            style: dict[str, Any] = {
                "color": f"C{i % 10}",
                "alpha": 0.75,
                "s": 34,
                "marker": marks[i % len(marks)],
            }
            if name == "fill":
                style = {"color": "black", "s": 130, "marker": "*", "zorder": 5}
            handles[name] = panel.scatter(row["memory"], max(row["max_over_mean"] - 1, 1e-5), **style)
        panel.axhline(EPSILON, color="grey", linewidth=0.7, linestyle=":")
        panel.set(xscale="log", yscale="log", title=_panel_title(streams[index]))
        panel.xaxis.set_major_locator(FixedLocator([1, 1.5, 2, 3, 5, 10, 20, 50, 100]))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_locator(NullLocator())
        panel.title.set_fontsize(9)
        panel.tick_params(labelsize=7)
    drawing.supxlabel("memory: (key, worker) pairs per key", fontsize=9)
    drawing.supylabel("imbalance: max/mean - 1", fontsize=9)
    drawing.legend(
        handles.values(), handles.keys(), loc="outside upper center", ncols=8, fontsize=7, frameon=False
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110)


def _panel_title(stream: str) -> str:
    return stream if len(stream) < 32 else stream[:29] + "..."
