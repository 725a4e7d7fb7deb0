"""Simulates sources, workers, queues and churn, to measure a scheme before running it on an engine."""

from evenflow.simulator.events import Aggregation, Capacities, Rescale
from evenflow.simulator.parallel import Interrupted, simulate_many
from evenflow.simulator.queueing import Queueing, parse_capacities
from evenflow.simulator.result import Result, results_table, write_table
from evenflow.simulator.run import simulate
from evenflow.simulator.setup import Configuration
from evenflow.simulator.source_assignment import Feed

__all__ = [
    "Aggregation",
    "Capacities",
    "Configuration",
    "Feed",
    "Interrupted",
    "Queueing",
    "Rescale",
    "Result",
    "parse_capacities",
    "results_table",
    "simulate",
    "simulate_many",
    "write_table",
]
