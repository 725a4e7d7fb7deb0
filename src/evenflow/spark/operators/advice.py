"""``advise`` for those who look for it beside the operators: the same function as `evenflow.advise`."""

from evenflow.advisor import advise

__all__ = ["advise"]
