"""Benchmarks to run on your own machine or cluster: ``evenflow bench``.

One module per benchmark, each with ``run(quick, progress) -> rows`` and ``tables(rows)``. Numbers are ratios
between interleaved runs. Results, and studies that are not shipped, are in the repository's ``benchmarks/``.
"""

BENCHMARKS = ("routers", "spark", "join", "stateful")
