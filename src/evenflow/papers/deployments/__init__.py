"""The papers' deployments on Spark: throughput, latency and memory of each grouping on an engine.

One harness (:mod:`.harness`) runs the real pipeline: sources route, workers serve, an aggregator merges.
Figures are in a module per paper, with the claims of that paper and what must hold of evenflow itself.

Keep imports light: Spark's Python workers import :mod:`.work` through this package.
"""
