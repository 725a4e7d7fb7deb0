"""Keyed state that moves between workers: the Delta table, the commit protocol, the workers' task."""
