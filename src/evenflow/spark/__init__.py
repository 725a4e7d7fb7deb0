"""evenflow on Apache Spark: sources route, partitions work, an aggregator merges.

Routing is advice, correctness is Spark's. Only public DataFrame API: it runs on Spark Connect as well.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.spark.balance import balance

_WHERE = {"balance": "balance"}
__all__ = ["balance"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'evenflow.spark' has no attribute {name!r}")
    value = getattr(import_module(f"evenflow.spark.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
