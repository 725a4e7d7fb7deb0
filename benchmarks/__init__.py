"""Internal studies, run from a checkout and not shipped: ``python -m benchmarks NAME``.

Each module has ``run(quick, progress) -> rows`` and ``tables(rows)``, like those in :mod:`evenflow.bench`,
which has the benchmarks that users run on their own clusters.
"""

STUDIES = (
    "sketches",
    "hashing",
    "peers",
    "streams",
    "simulator",
    "migration",
    "fill",
    "fill_latency",
    "fill_scale",
    "fill_sources",
    "fill_theorems",
    "topics",
    "watching",
    "batches",
    "causes",
)
