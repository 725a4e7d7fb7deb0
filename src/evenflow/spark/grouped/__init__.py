"""Per-key Python work over sorted partitions, and merging its partial results."""
