"""Keyed state: the Delta table, the commit protocol and the worker's task."""
