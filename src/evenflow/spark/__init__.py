"""evenflow on Apache Spark: sources route, partitions work, an aggregator merges.

Routing is advice, correctness is Spark's. Only public DataFrame API: it runs on Spark Connect as well.

Names load when they are first used: Python workers import single modules of this package, often.
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
    from evenflow.spark.keyed_processor import KeyedProcessor
    from evenflow.spark.loads import loads
    from evenflow.spark.read_state import read_state
    from evenflow.spark.stateful import stateful

_WHERE = {
    "Aggregator": "aggregator",
    "KeyedProcessor": "keyed_processor",
    "aggregate": "aggregate",
    "apply": "apply",
    "balance": "balance",
    "loads": "loads",
    "read_state": "read_state",
    "stateful": "stateful",
}
__all__ = [
    "Aggregator",
    "KeyedProcessor",
    "aggregate",
    "apply",
    "balance",
    "loads",
    "read_state",
    "stateful",
]


class _Package(ModuleType):
    """Python binds a module to its name here when it loads; where a function has the name, that is meant."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _WHERE:
            value = getattr(value, name)
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'evenflow.spark' has no attribute {name!r}")
    value = getattr(import_module(f"evenflow.spark.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


sys.modules[__name__].__class__ = _Package
