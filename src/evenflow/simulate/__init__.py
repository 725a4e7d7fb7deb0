"""What happens? Sources, workers, queues and churn, measured: see what a scheme does before running it."""

from evenflow.simulate.events import Aggregation, Capacities, Rescale
from evenflow.simulate.feeds import Feed
from evenflow.simulate.many import Interrupted, simulate_many
from evenflow.simulate.queueing import Queueing, parse_capacities
from evenflow.simulate.result import Result, results_table, write_table
from evenflow.simulate.run import simulate
from evenflow.simulate.setting import Configuration

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
