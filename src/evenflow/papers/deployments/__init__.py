"""The papers' deployments on Spark: throughput, latency and memory of each grouping on an engine.

One harness (:mod:`.streamed`) runs the real pipeline as a stream: sources route, workers serve, an
aggregator merges. Figures are in a module per paper, with the claims of that paper and what must hold of
evenflow itself.

Keep imports light: Spark's Python workers import :mod:`.serving` through this package.
"""
