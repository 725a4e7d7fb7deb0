"""Slow, obvious routers in plain Python, straight from the papers; the fast ones must decide alike."""

from reference import basic, choices, dynamic, evolving, fill, functions, heterogeneous  # noqa: F401
from reference.base import REFERENCES, Reference, reference_for

__all__ = ["REFERENCES", "Reference", "reference_for"]
