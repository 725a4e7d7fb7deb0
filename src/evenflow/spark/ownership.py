"""The adaptivity loop as `stateful` uses it: driver-side, pure, JSON-able. See :mod:`evenflow.owners`."""

from evenflow.owners import AutoWorkers, Decision, Measured, Ownership

__all__ = ["AutoWorkers", "Decision", "Measured", "Ownership"]
