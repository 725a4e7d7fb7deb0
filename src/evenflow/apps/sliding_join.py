"""The windowed join over a sliding window, for `evenflow.spark.stateful` (`functions` 3.1).

Every new row is compared with every row of its key that is at most ``span`` seconds away, and is then kept
for those that come. State is linear and work quadratic in a key's rate (beta_s = f, beta_c = f^2), and both
are where the key lives: give ``stateful`` the scheme ``explicit`` with ``resources="LQL"``, and keys move
until the work is even. Rows may come in any order within the watermark's delay: a row is kept until the
watermark is ``span`` past it, so every pair is compared once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from evenflow.kernels import Float64Array
from evenflow.spark.state.processor import KeyedProcessor, State

OUTPUT = "key string, rows long, comparisons long, matches long"
_BLOCK = 512  # new rows that are compared at a time


class SlidingJoin(KeyedProcessor):
    """Pairs of rows of one key within ``span`` seconds whose ``value`` differs by at most ``band``, so far.

    >>> import pyarrow as pa
    >>> join = SlidingJoin(span=10, band=1.0)
    >>> times = pa.array([0, 9, 19], pa.timestamp("s", "UTC"))
    >>> rows = pa.table({"time": times, "value": [1, 2, 2]})
    >>> join.process("a", join.start("a"), rows)[1]
    [{'key': 'a', 'rows': 3, 'comparisons': 2, 'matches': 2}]
    """

    state = "times array<double>, values array<double>, rows long, comparisons long, matches long"
    clock = "event"

    def __init__(self, span: float, band: float):
        self.span = span
        self.band = band

    def start(self, key: Any) -> State:
        """Begin with an empty window."""
        return {"times": [], "values": [], "rows": 0, "comparisons": 0, "matches": 0}

    def process(self, key: Any, state: State, rows: Any) -> tuple[Any, ...]:
        """Compare new rows with those before them, and forget what no row to come can reach."""
        import pyarrow as pa

        micros = rows["time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        times, values = micros.to_numpy() / 1e6, rows["value"].to_numpy().astype(np.float64)
        known = ~(np.isnan(times) | np.isnan(values))
        old = len(state["times"])
        times = np.concatenate([state["times"], times[known]])
        values = np.concatenate([state["values"], values[known]])
        compared, matched = self._pairs(times, values, old)
        kept = times >= self._reach()
        until = None
        if kept.any():
            until = datetime.fromtimestamp(float(times.max()), UTC) + timedelta(seconds=self.span)
        after = {
            "times": times[kept].tolist(),
            "values": values[kept].tolist(),
            "rows": state["rows"] + rows.num_rows,
            "comparisons": state["comparisons"] + compared,
            "matches": state["matches"] + matched,
        }
        said = {"key": str(key), **{name: after[name] for name in ("rows", "comparisons", "matches")}}
        return after, [said], until

    def expire(self, key: Any, state: State) -> tuple[Any, ...]:
        """The window is empty; what was counted stays."""
        return {**state, "times": [], "values": []}, []

    def _pairs(self, times: Float64Array, values: Float64Array, old: int) -> tuple[int, int]:
        """Return how many pairs are compared and match; the first ``old`` rows were compared before."""
        compared = matched = 0
        for start in range(old, times.size, _BLOCK):
            block = np.arange(start, min(start + _BLOCK, times.size))
            earlier = np.arange(block[-1] + 1)[None, :] < block[:, None]
            near = earlier & (np.abs(times[block, None] - times[: block[-1] + 1]) <= self.span)
            close = np.abs(values[block, None] - values[: block[-1] + 1]) <= self.band
            compared += int(np.count_nonzero(near))
            matched += int(np.count_nonzero(near & close))
        return compared, matched

    def _reach(self) -> float:
        """Return the earliest time that a row to come can still be compared with."""
        return -np.inf if self.now is None else self.now.timestamp() - self.span
