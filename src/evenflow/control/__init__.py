"""The control directory of a running query: plans, snapshots and a log, as small files."""
