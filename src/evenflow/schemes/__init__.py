"""Who goes where? One file per scheme; importing this package registers them all."""

import sys
from types import ModuleType

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
from evenflow.schemes.base import Router, Scheme, WorkerReport, register, scheme, schemes

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
    "partial_key",
    "random_choices",
    "register",
    "round_robin_head",
    "scheme",
    "schemes",
    "shuffle",
    "two_choices",
    "w_choices",
]


class _CallablePackage(ModuleType):
    """``evenflow.schemes`` is this package and the function that lists the schemes."""

    __call__ = staticmethod(schemes)


sys.modules[__name__].__class__ = _CallablePackage
