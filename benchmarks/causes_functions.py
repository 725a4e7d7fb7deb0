"""Causes in `functions`: other readings of its algorithms, by editing a copy of their source."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import numpy as np

from benchmarks.causes_streams import Cause, Found, Streams
from evenflow.papers.functions.example import LAYOUTS, TOY, balances
from evenflow.papers.functions.growth import RING_BUCKETS, Workload, best_seconds, grown, growth, last_step
from evenflow.ring import build_ring
from evenflow.schemes import explicit, key_placement
from evenflow.schemes.cost_model import Costs, resource
from evenflow.schemes.key_placement import place

_ALPHAS = (1.2, 1.2, 1.2)


def edited(algorithm: str, *edits: tuple[str, str]) -> ModuleType:
    """Return the algorithms with some text replaced, of which ``algorithm`` is to be used."""
    text = Path(str(key_placement.__file__)).read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "edited_placement.py"
        file.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
        _warm(module, algorithm)
    return module


def _warm(module: ModuleType, algorithm: str) -> None:
    """Compile an edited algorithm while its file exists."""
    frequencies, home = np.array([0.6, 0.4]), np.zeros(2, np.int32)
    module.place(algorithm, "APM", Costs("LCL", _ALPHAS), 2, frequencies, home, home, 0.0, 0.5)


def _numbers(rows: list[dict[str, float]], *columns: str) -> str:
    return ", ".join(
        f"{row['approach']} " + " and ".join(f"{row[name]:.3g}" for name in columns) for row in rows
    )


def more_moves(_: Streams) -> Iterator[Found]:
    """Let readj move a key twenty times, and let it take its gains by round; LQL, sigma 0.016."""
    case = partial(growth, workers=[10], domain=10**5, resources="LQL", sigma=0.016)
    yield "as printed, five moves", _numbers(case(["redist", "readj", "readj-round"]), "imbalance")
    module = edited("readj", ("MOST_MOVES = 5", "MOST_MOVES = 20"))
    with patch.object(explicit, "place", module.place):
        yield "twenty moves", _numbers(case(["readj"]), "imbalance")


def break_ends_the_loop(_: Streams) -> Iterator[Found]:
    """Let Algorithm 4's break leave the loop over keys instead of going on with the next option."""
    stop = "\n{0}if gain == -np.inf:\n{0}    break"
    move = "after, gain = _gain(b, s, i, key, j, -1, rho, u)"
    swap = "after, gain = _gain(b, s, i, key, j, other, rho, u)"
    module = edited("readj", (move, move + stop.format(" " * 20)), (swap, swap + stop.format(" " * 24)))
    for workers in (24, 32):
        case = partial(growth, workers=[workers], domain=10**5)
        yield f"N = {workers}, next option", _numbers(case(["redist", "readj"]), "imbalance")
        with patch.object(explicit, "place", module.place):
            yield f"N = {workers}, leaves the loop", _numbers(case(["readj"]), "imbalance")


class _Counted(Workload):
    """A workload whose frequencies are known only from so many messages."""

    seen = 10**5

    def top(self, least: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys counted at least ``least`` of the messages."""
        keys, frequencies = super().top(least / 4)
        counted = np.random.default_rng(self.seed).poisson(frequencies * self.seen) / self.seen
        chosen = np.argsort(-counted, kind="stable")[: np.count_nonzero(counted >= least)]
        return keys[chosen], counted[chosen]


def counted_frequencies(_: Streams) -> Iterator[Found]:
    """Give scan counted frequencies at N = 32, instead of the law's."""
    from evenflow.papers.functions import growth as module

    yield "the law's frequencies", _numbers(growth(["scan"], [32], domain=10**5), "migration")
    for seen in (10**5, 10**6):
        counted = type("Counted", (_Counted,), {"seen": seen})
        with patch.object(module, "Workload", counted):
            yield (
                f"counted over {seen:,} messages",
                _numbers(growth(["scan"], [32], domain=10**5), "migration"),
            )


def gains_by_round(_: Streams) -> Iterator[Found]:
    """Let readj compare gains with the utility at the start of a round, by utility."""
    for resources in ("LLL", "LCL"):
        for utility in ("APM", "APLM", "ATM", "ATLM"):
            case = partial(
                growth, ["readj", "readj-round"], [10], 10**5, resources=resources, utility=utility
            )
            rows = [case(seed=seed) for seed in range(3)]
            means = [np.mean([run[index]["migration"] for run in rows]) for index in range(2)]
            yield f"{resources}, U^{utility}", f"migration {means[0]:.2f} as printed, {means[1]:.2f} by round"


def tracks_more(_: Streams) -> Iterator[Found]:
    """Track more keys of 10^4, and take readj's gains by round."""
    for sigma in (0.1, 0.02):
        case = partial(growth, ["scan", "redist", "readj", "readj-round"], [10], 10**4, sigma=sigma)
        rows = [case(seed=seed) for seed in range(3)]
        means = [{**run, "migration": float(np.mean([own[index]["migration"] for own in rows]))}
                 for index, run in enumerate(rows[0])]  # fmt: skip
        yield f"sigma = {sigma:g}", _numbers(means, "migration")


def without_shortcut(_: Streams) -> Iterator[Found]:
    """Time redist as printed, where every key is tried on every worker, against the ring."""
    module = edited("redist", ("            if not even:\n", "            if True:\n"))
    for workers in (10, 32):
        load, costs = Workload(), Costs("LCL", _ALPHAS)
        keys, frequencies = last_step(load, costs, workers)
        old = grown("redist", workers - 1, load, costs)[-1].lookup(keys)
        ideal = float(resource("L", frequencies).sum()) / workers
        given = ("redist", "APM", costs, workers, frequencies, old, old, 0.0, ideal)
        same = np.array_equal(module.place(*given), place(*given))
        ring = best_seconds(partial(build_ring, workers, np.uint64(0), 1000, buckets=RING_BUCKETS))
        times = [best_seconds(partial(algorithm, *given)) / ring for algorithm in (place, module.place)]
        text = f"{times[0]:.2g} times the ring's time with the shortcut, {times[1]:.2g} as printed"
        yield f"N = {workers}", f"{text}; {'the same map' if same else 'another map'}"


def own_layout(_: Streams) -> Iterator[Found]:
    """Start Fig. 1's last step from the printed layout at N = 2."""
    before = np.array([int(channel) for channel in LAYOUTS["both"][0]], np.int32)
    counts = np.array(list(TOY.values()))
    costs = Costs("CQL", (1.05, 1.05, 1.05), domain=counts.size)
    for algorithm, utility in (("redist", "A"), ("redist", "APM"), ("readj", "APM")):
        where = place(algorithm, utility, costs, 3, counts / counts.sum(), before, before, 0.0, 1 / 3)
        n, c = balances(where.tolist())
        yield (
            f"{algorithm}, U^{utility}",
            f"n {n:.2f}, c {c:.2f}, migration {counts[where != before].sum():g}",
        )


CAUSES = (
    Cause("more-moves", "functions/fig5", "Is readj stopped by its limit of five moves per key?", more_moves),
    Cause(
        "break-ends-the-loop",
        "functions/fig6",
        "Would another reading of break explain readj's balance?",
        break_ends_the_loop,
    ),
    Cause(
        "counted-frequencies",
        "functions/fig6",
        "Does scan migrate more if frequencies are counted?",
        counted_frequencies,
    ),
    Cause(
        "gains-by-round",
        "functions/fig7",
        "Which utility migrates least if gains are by round?",
        gains_by_round,
    ),
    Cause(
        "tracks-more",
        "functions/fig8",
        "What would bring scan and redist to 2.2 times the ideal?",
        tracks_more,
    ),
    Cause(
        "without-shortcut",
        "functions/fig13",
        "How long does redist take without its shortcut?",
        without_shortcut,
    ),
    Cause(
        "own-layout",
        "functions/fig1-run",
        "What do the algorithms reach from the printed layout?",
        own_layout,
    ),
)
