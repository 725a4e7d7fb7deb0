"""Per-key Python work over sorted partitions, and the merging of partial results."""
