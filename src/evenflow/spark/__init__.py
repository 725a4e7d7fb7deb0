"""evenflow on Apache Spark: sources route, partitions work, an aggregator merges.

Routing is advice, correctness is Spark's. Only public DataFrame API: it runs on Spark Connect as well.

Names load when they are first used: a Python worker that runs a user's code needs nothing of the routers.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.spark.aggregate import aggregate
    from evenflow.spark.aggregator import Aggregator
    from evenflow.spark.apply import apply
    from evenflow.spark.balance import balance

_WHERE = {"Aggregator": "aggregator", "aggregate": "aggregate", "apply": "apply", "balance": "balance"}
__all__ = ["Aggregator", "aggregate", "apply", "balance"]


class _Package(ModuleType):
    """Where a function has the name of its module, the name stands for the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _WHERE and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'evenflow.spark' has no attribute {name!r}")
    value = getattr(import_module(f"evenflow.spark.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
