"""A query without an engine: rows are drawn, go where the plan says, and take the time their worker needs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import evenflow as ef
from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.owners import Decision, Measured, Ownership
from evenflow.plan import bucket_of
from evenflow.streams.sampling import zipf_weights

ROW = 1e-4  # seconds of a row at a worker of speed 1


@dataclass
class Query:
    """A Zipf stream through an ownership; ``slow`` maps a worker to how many times slower it is."""

    own: Ownership
    z: float = 0.6
    distinct: int = 20_000
    rows: int = 50_000
    slow: dict[int, float] = field(default_factory=dict)
    per_key: float = 0.0  # rows that a touched key costs
    noise: float = 0.0
    seed: int = 0
    elapsed: float | None = None
    count_buckets: bool = False
    batch: int = 0

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.keys: UInt64Array = ef.hash_keys(np.arange(self.distinct, dtype=np.int64) + 10**9 * self.seed)
        self.heat: Float64Array = np.asarray(zipf_weights(self.distinct, self.z))
        self.heat = self.heat / self.heat.sum()
        self.seen = np.zeros(self.distinct, np.bool_)

    def owners(self) -> Int32Array:
        """Return every key's owner."""
        return self.own.plan.route(self.keys, np.zeros(self.keys.size))

    def pace(self) -> Float64Array:
        """Return how many times slower each worker is."""
        return np.array([self.slow.get(worker, 1.0) for worker in range(self.own.workers)])

    def measure(self) -> Measured:
        """Run one batch."""
        n, where = self.own.workers, self.owners()
        counts = self.random.multinomial(self.rows, self.heat).astype(np.float64)
        here = counts > 0
        self.seen |= here
        rows = np.bincount(where, counts, n)
        touched = np.bincount(where[here], minlength=n)
        seconds = (rows + self.per_key * touched) * ROW * self.pace()
        seconds *= np.exp(self.random.normal(0, self.noise, n))
        hottest = np.argsort(-counts, kind="stable")[:500]
        buckets = None
        if self.count_buckets:
            size = self.own.plan.buckets.size
            buckets = np.bincount(bucket_of(self.keys, size), counts, size).astype(np.float64)
        measured = Measured(
            self.batch,
            self.keys[hottest],
            counts[hottest],
            float(self.rows),
            rows.astype(int).tolist(),
            seconds.tolist(),
            (np.bincount(where[self.seen], minlength=n) * 40).tolist(),
            touched.tolist(),
            buckets,
            self.elapsed,
        )
        self.batch += 1
        return measured

    def step(self) -> Decision:
        """Run one batch and let the loop decide."""
        return self.own.observe(self.measure())

    def shares(self) -> Float64Array:
        """Return the share of all rows that each worker is to get from now on."""
        return np.bincount(self.owners(), self.heat, self.own.workers).astype(np.float64)
