"""Benchmarks to run on your own machine or cluster: ``evenflow bench``.

One module per benchmark, each with ``run(quick, say) -> rows`` and ``tables(rows)``. Numbers are ratios
within one run. The repository's ``benchmarks/`` folder holds the results, and studies that are not shipped.
"""

BENCHMARKS = ("routers", "spark", "stateful")
