"""Studies of our own, run from a checkout and not shipped: ``python -m benchmarks NAME``.

Each module has ``run(quick, say) -> rows`` and ``tables(rows)``, as those of :mod:`evenflow.bench`, which is
where the benchmarks are that make sense on somebody else's cluster.
"""

STUDIES = ("sketches", "hashing", "peers", "streams", "simulator", "fill")
