"""Grouping schemes, one file each; importing this package registers them all."""

from evenflow.schemes import (
    bounded_load,
    consistent,
    consistent_hash,
    d_choices,
    dynamic_key,
    explicit,
    fill,
    fish,
    greedy_d,
    key,
    partial_key,
    random_choices,
    round_robin_head,
    shuffle,
    two_choices,
    w_choices,
)
from evenflow.schemes.base import Router, Scheme, WorkerReport
from evenflow.schemes.registry import list_schemes, register, scheme

__all__ = [
    "Router",
    "Scheme",
    "WorkerReport",
    "bounded_load",
    "consistent",
    "consistent_hash",
    "d_choices",
    "dynamic_key",
    "explicit",
    "fill",
    "fish",
    "greedy_d",
    "key",
    "list_schemes",
    "partial_key",
    "random_choices",
    "register",
    "round_robin_head",
    "scheme",
    "shuffle",
    "two_choices",
    "w_choices",
]
