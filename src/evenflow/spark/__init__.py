"""evenflow on Apache Spark: balanced shuffles, per-key Python work and keyed state.

Routing affects balance only; correctness is left to Spark. Only the public DataFrame API is used, so
everything also runs on Spark Connect. Names are loaded lazily, because Python workers import single modules
of this package.
"""

from typing import TYPE_CHECKING

import lazy_loader

from evenflow.extras import require

if TYPE_CHECKING:
    from evenflow.advisor import advise
    from evenflow.owners.sizing import AutoWorkers
    from evenflow.plan import JoinPlan, Plan
    from evenflow.spark.grouped.aggregator import Aggregator
    from evenflow.spark.kafka.sink import KafkaSink
    from evenflow.spark.operators.aggregate import aggregate
    from evenflow.spark.operators.apply import apply
    from evenflow.spark.operators.balance import balance
    from evenflow.spark.operators.deduplicated import deduplicated
    from evenflow.spark.operators.join import PlacedJoin, join
    from evenflow.spark.operators.loads import loads
    from evenflow.spark.operators.metrics import metrics
    from evenflow.spark.operators.stateful import stateful
    from evenflow.spark.routing.placed import Placed
    from evenflow.spark.state.processor import KeyedProcessor
    from evenflow.spark.state.query import StatefulQuery
    from evenflow.spark.state.read import read_state
    from evenflow.spark.state.rewind import rewind_state

__all__ = [
    "Aggregator",
    "AutoWorkers",
    "JoinPlan",
    "KafkaSink",
    "KeyedProcessor",
    "Placed",
    "PlacedJoin",
    "Plan",
    "StatefulQuery",
    "advise",
    "aggregate",
    "apply",
    "balance",
    "deduplicated",
    "join",
    "loads",
    "metrics",
    "read_state",
    "rewind_state",
    "stateful",
]

require("pyspark", "spark", "evenflow.spark")
_NEEDS_STATE_EXTRA = {"AutoWorkers", "StatefulQuery", "read_state", "rewind_state", "stateful"}

if not TYPE_CHECKING:
    _load, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "grouped.aggregator": ["Aggregator"],
            "kafka.sink": ["KafkaSink"],
            "operators.advice": ["advise"],
            "operators.aggregate": ["aggregate"],
            "operators.apply": ["apply"],
            "operators.balance": ["balance"],
            "operators.deduplicated": ["deduplicated"],
            "operators.join": ["JoinPlan", "PlacedJoin", "join"],
            "operators.loads": ["loads"],
            "operators.metrics": ["metrics"],
            "operators.stateful": ["AutoWorkers", "stateful"],
            "routing.placed": ["Placed", "Plan"],
            "state.processor": ["KeyedProcessor"],
            "state.query": ["StatefulQuery"],
            "state.read": ["read_state"],
            "state.rewind": ["rewind_state"],
        },
    )

    def __getattr__(name: str) -> object:
        """Load a public name, after checking that the extra it needs is installed."""
        if name in _NEEDS_STATE_EXTRA:
            for package in ("deltalake", "pandas"):
                require(package, "state", name)
        return _load(name)
