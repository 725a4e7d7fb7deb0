"""How fast? One module per benchmark, each with ``run(quick, say) -> rows`` and ``tables(rows)``.

Numbers are ratios within one run. ``evenflow bench`` runs them; the repository's ``benchmarks/`` has results.
"""

BENCHMARKS = ("routers", "sketches", "hashing", "peers", "streams", "simulator", "fill", "spark", "stateful")
