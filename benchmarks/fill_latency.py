"""Fill's latency: against the best even scheme and the least memory of any scheme.

``least_memory`` is a bound for every scheme, even one that knows the future: of each key alone it counts the
rows that d workers must finish late, and gives homes to the keys where they save the most rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import evenflow as ef
from benchmarks.fill import EVEN, GENERATED, _read, _real_streams, _serve, _short
from evenflow.bench.measure import Progress, Row, silent
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.report.tables import Table
from evenflow.schemes.spelling import parse_schemes
from evenflow.simulator import Capacities, Queueing, simulate
from evenflow.streams import open_stream

WORKERS = 50
LATE = 0.01  # the share of rows that may be late: p99
OTHERS = ("w-choices", "fish", "d-choices", "random-choices", "partial-key")
HELD_OUT = (
    "zipf:z=0.8,keys=3e4,messages=4e5,seed=7",
    "zipf:z=1.8,keys=1e5,messages=4e5,seed=7",
    "zipf:z=0.3,keys=1e3,messages=4e5,seed=7",
    "evolving:z=1.6,keys=3e4,messages=4e5,seed=7",
    "election:messages=4e5,seed=7",
)
QUEUES = (1.0, 2.5, 5.0, 10.0, 20.0, 50.0, 400.0)
RATE = 1e4


def run(quick: bool = False, data: str | None = None, progress: Progress = silent) -> list[Row]:
    """Measure all parts; ``quick`` uses the first rows of every stream."""
    most = 10**5 if quick else 4 * 10**5
    specs = [*_real_streams(data), *GENERATED, *HELD_OUT]
    rows: list[Row] = []
    for index, spec in enumerate(specs):
        progress(index, len(specs), _short(spec))
        ids, hashes = _read(open_stream(spec))
        rows += latency(_short(spec), ids[:most], hashes)
    return [*rows, *unequal(most, progress), *adversaries(progress)]


def latency(name: str, ids: Int32Array, hashes: UInt64Array) -> list[Row]:
    """Measure fill and the others on one stream, and fill along ``queue``."""
    subjects = ["fill", *OTHERS, *(f"fill:queue={queue:g}" for queue in QUEUES if queue != 5.0)]
    rows = []
    for subject in subjects:
        workers = _route(subject, hashes[ids])
        rows.append(
            {
                "part": "latency",
                "stream": name,
                "subject": subject,
                "max_over_mean": float(np.bincount(workers, minlength=WORKERS).max() * WORKERS / ids.size),
                "memory": memory(ids, workers, WORKERS),
                **{
                    f"p{q:g}_{load}": _latency(workers, load, q)
                    for load in (0.7, 0.9, 0.95)
                    for q in (50, 99)
                },
            }
        )
    for late in (3.0, 4.0, 5.0, 6.0, 8.0, 12.0):
        rows.append(
            {
                "part": "bound",
                "stream": name,
                "p99_0.9": late,
                "memory": least_memory(ids, WORKERS, 0.9, late),
            }
        )
    return rows


def _route(text: str, keys: UInt64Array) -> Int32Array:
    scheme = parse_schemes(text)[0]
    return scheme.router(WORKERS).route(keys, np.arange(keys.size) / RATE if scheme.needs_time else None)


def memory(ids: Int32Array, workers: Int32Array, n: int) -> float:
    """Return the (key, worker) pairs per distinct key."""
    return float(np.unique(ids.astype(np.int64) * n + workers).size / np.unique(ids).size)


def _latency(workers: Int32Array, load: float, percent: float) -> float:
    """Return a percentile of the latency, in rows: 1 is the mean time between two rows of a worker."""
    took = np.empty(workers.size)
    _serve(workers, np.zeros(WORKERS), load, took)
    return float(np.quantile(took, percent / 100) * load)


def least_memory(ids: Int32Array, workers: int, load: float, late: float, share: float = LATE) -> float:
    """Return a lower bound of the memory of any scheme with at most ``share`` of the rows above ``late``."""
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    times = order / workers
    missed, savings = 0, []
    for part in np.split(times, starts[1:]):
        if part.size < 2:
            continue
        curve = [int(_late(part, np.zeros(1), load, late))]
        while curve[-1] > 0 and len(curve) < workers:
            curve.append(int(_late(part, np.zeros(len(curve) + 1), load, late)))
        missed += curve[0]
        savings += _hull(np.array(curve))
    to_save, homes = missed - share * ids.size, 0.0
    for saved, width in sorted(savings, reverse=True):
        if to_save <= 0:
            break
        taken = min(width, to_save / saved)
        homes += taken
        to_save -= taken * saved
    return 1 + homes / starts.size


def _hull(curve: Int64Array) -> list[tuple[float, int]]:
    """Return the slopes of the lower convex hull of a falling curve, with their widths."""
    found, at = [], 0
    while at < curve.size - 1:
        slopes = (curve[at] - curve[at + 1 :]) / np.arange(1, curve.size - at)
        width = int(np.argmax(slopes)) + 1
        if slopes[width - 1] <= 0:
            break
        found.append((float(slopes[width - 1]), width))
        at += width
    return found


@kernel
def _late(times: Float64Array, free: Float64Array, service: float, late: float) -> int:
    """Return the fewest rows that finish late on these workers: rows that would be late are not served."""
    missed = 0
    at = 0
    for time in times:
        finish = max(free[at], time) + service
        if finish - time > late + 1e-9:
            missed += 1
        else:
            free[at] = finish
            at = at + 1 if at + 1 < free.size else 0
    return missed


def unequal(messages: int, progress: Progress = silent) -> list[Row]:
    """Measure three workers five times faster than seven others, also swapped in mid-run."""
    rows = []
    cases: list[tuple[str, float, list[Capacities]]] = [
        ("load 0.8", 0.8, []),
        ("load 0.95", 0.95, []),
        ("load 0.8, swapped", 0.8, [Capacities(at=messages // 2, capacities="7x1,3x5")]),
    ]
    for step, (case, load, events) in enumerate(cases):
        for name in ("fill", "consistent", "fish"):
            progress(step, len(cases), f"3x5,7x1, {case}, {name}")
            numbers = simulate(
                name,
                f"zipf:z=1.0,keys=1e4,messages={messages},seed=1",
                workers=10,
                sources=1,
                queueing=Queueing(rate=RATE, capacity="3x5,7x1", load=load),
                events=events,
            ).row()
            rows.append(
                {
                    "part": "unequal",
                    "case": case,
                    "scheme": name,
                    "p99": numbers["latency_p99"],
                    "makespan": numbers["makespan"],
                    "memory": numbers["memory"],
                }
            )
    return rows


def adversaries(progress: Progress = silent, rounds: int = 24, rows: int = 10**5) -> list[Row]:
    """Search small generators for the stream that hurts most, by axis, climbing from random starts."""
    axes = {"memory": 0, "p99": 1, "max/mean": 2}
    result: list[Row] = []
    for axis, index in axes.items():
        rng = np.random.default_rng(5)
        best, found = -1.0, None
        for step in range(rounds):
            progress(step, rounds, f"adversary of {axis}")
            if found is None or step % 6 == 0:
                genes = rng.random(5)
            else:
                genes = np.clip(found + rng.normal(0, 0.15, 5), 0, 1)
            scores = _hurt(genes, rows)
            if scores[index] > best:
                best, found, scored = scores[index], genes, scores
        assert found is not None
        result.append(
            {
                "part": "adversary",
                "axis": axis,
                "stream": describe(found),
                "memory": scored[0],
                "p99": scored[1],
                "max_over_mean": scored[2],
            }
        )
    return result


def _genes(genes: Float64Array) -> dict[str, Any]:
    return {
        "keys": int(10 ** (1 + 3.5 * genes[0])),
        "z": 2 * genes[1],
        "burst": int(10 ** (3 * genes[2])),
        "share": genes[3],
        "fresh": int(10 ** (2 + 3 * genes[4])),
    }


def describe(genes: Float64Array) -> str:
    """Return a generator's parameters in words."""
    g = _genes(genes)
    return (
        f"Zipf {g['z']:.2f} over {g['keys']} keys; {g['share']:.0%} of the rows in bursts of {g['burst']}; "
        f"keys are exchanged every {g['fresh']} rows"
    )


def adversary(genes: Float64Array, rows: int) -> Int32Array:
    """Return a stream of bursts and single rows over keys that are exchanged now and then."""
    g = _genes(genes)
    rng = np.random.default_rng(1)
    weights = np.arange(1, g["keys"] + 1) ** -g["z"]
    drawn = rng.choice(g["keys"], rows, p=weights / weights.sum())
    if g["burst"] > 1:
        repeated = np.repeat(drawn[: rows // g["burst"] + 1], g["burst"])[:rows]
        part = np.repeat(rng.random(rows // g["burst"] + 1) < g["share"], g["burst"])[:rows]
        drawn = np.where(part, repeated, drawn)
    return (drawn + g["keys"] * (np.arange(rows) // g["fresh"])).astype(np.int32)


def _hurt(genes: Float64Array, rows: int) -> tuple[float, float, float]:
    ids = adversary(genes, rows)
    hashes = ef.hash_keys(np.arange(int(ids.max()) + 1))
    workers = _route("fill", hashes[ids])
    most = float(np.bincount(workers, minlength=WORKERS).max() * WORKERS / rows)
    return memory(ids, workers, WORKERS), _latency(workers, 0.9, 99), most


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return every part as a table."""
    own = [row for row in rows if row["part"] == "latency"]
    at = {(row["stream"], row["subject"]): row for row in own}
    streams = list(dict.fromkeys(row["stream"] for row in own))
    bounds = {(row["stream"], row["p99_0.9"]): row["memory"] for row in rows if row["part"] == "bound"}
    compared = []
    for stream in streams:
        fill = at[stream, "fill"]
        even = [at[stream, name] for name in OTHERS if at[stream, name]["max_over_mean"] <= EVEN]
        best = min(even, key=lambda row: row["p99_0.9"]) if even else None
        least = min(
            (late for late in (3.0, 4.0, 5.0, 6.0, 8.0, 12.0) if late >= fill["p99_0.9"]), default=12.0
        )
        compared.append(
            (
                stream,
                f"{fill['memory']:.3f}",
                *(f"{fill[f'p50_{load}']:.2f}; {fill[f'p99_{load}']:.2f}" for load in (0.7, 0.9, 0.95)),
                best["subject"] if best else "",
                f"{best['memory']:.3f}" if best else "",
                *(
                    f"{best[f'p50_{load}']:.2f}; {best[f'p99_{load}']:.2f}" if best else ""
                    for load in (0.7, 0.9, 0.95)
                ),
                f"{fill['p99_0.9'] / best['p99_0.9']:.2f}" if best else "",
                f"{bounds[stream, least]:.3f} ({least:g})",
            )
        )
    walk = [
        (
            stream,
            *(
                f"{row['memory']:.3f}; {row['p99_0.9']:.1f}"
                for row in (
                    at[stream, "fill" if queue == 5.0 else f"fill:queue={queue:g}"] for queue in QUEUES
                )
            ),
        )
        for stream in streams
    ]
    return [
        Table(
            "Fill and the even scheme with the lowest p99: memory; p50, p99 in rows at load 0.7, 0.9, 0.95",
            (
                *("stream", "memory", "0.7", "0.9", "0.95"),
                *("best other", "its memory", "0.7", "0.9", "0.95"),
                *("p99 ratio", "least memory (p99)"),
            ),
            compared,
            "50 workers, one source. Least memory: of any scheme with that p99 at load 0.9.",
        ),
        Table(
            "Memory and p99 along queue, load 0.9",
            ("stream", *(f"{queue:g}" for queue in QUEUES)),
            walk,
        ),
        Table(
            "Three workers five times faster than seven: p99 and makespan in seconds",
            ("case", "scheme", "p99", "makespan", "memory"),
            [
                (r["case"], r["scheme"], f"{r['p99']:.4f}", f"{r['makespan']:.2f}", f"{r['memory']:.3f}")
                for r in rows
                if r["part"] == "unequal"
            ],
        ),
        Table(
            "The worst streams that a search found, by axis",
            ("axis", "stream", "memory", "p99, rows", "max/mean"),
            [
                (r["axis"], r["stream"], f"{r['memory']:.3f}", f"{r['p99']:.1f}", f"{r['max_over_mean']:.4f}")
                for r in rows
                if r["part"] == "adversary"
            ],
            "50 workers, load 0.9, 100,000 rows, 24 steps of hill climbing with restarts per axis.",
        ),
    ]


def figure(rows: Sequence[Row], path: Path) -> None:
    """Draw memory against p99 for six streams: fill along ``queue``, the others, the bound of all."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    streams = list(dict.fromkeys(row["stream"] for row in rows if row["part"] == "latency"))[:6]

    drawing = Figure(figsize=(10, 5.6), layout="constrained")
    panels: Any = drawing.subplots(2, 3)
    for panel, stream in zip(panels.flat, streams, strict=False):
        own = {row["subject"]: row for row in rows if row["part"] == "latency" and row["stream"] == stream}
        walk = [own["fill" if queue == 5.0 else f"fill:queue={queue:g}"] for queue in QUEUES]
        bound = [row for row in rows if row["part"] == "bound" and row["stream"] == stream]
        panel.plot(
            [row["p99_0.9"] for row in walk],
            [row["memory"] for row in walk],
            "k.-",
            label="fill, queue 1 to 400",
        )
        panel.plot(own["fill"]["p99_0.9"], own["fill"]["memory"], "k*", markersize=13, label="fill, default")
        panel.plot(
            [row["p99_0.9"] for row in bound],
            [row["memory"] for row in bound],
            color="grey",
            linestyle=":",
            label="least of any scheme",
        )
        for mark, name in zip("os^vD", OTHERS, strict=True):
            even = own[name]["max_over_mean"] <= EVEN
            panel.plot(
                own[name]["p99_0.9"],
                own[name]["memory"],
                mark,
                color="C0" if even else "none",
                markeredgecolor="C0",
                label=name,
            )
        panel.set(xscale="log", yscale="log")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        panel.yaxis.set_minor_formatter("{x:g}")
        panel.set(title=stream.split(":messages")[0][:34])
        panel.title.set_fontsize(9)
        panel.tick_params(labelsize=7, which="both")
    drawing.supxlabel("p99 latency at load 0.9, rows", fontsize=9)
    drawing.supylabel("memory: (key, worker) pairs per key", fontsize=9)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper center", ncols=8, fontsize=7, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=90)
