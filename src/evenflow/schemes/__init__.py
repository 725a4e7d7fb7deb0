"""Who goes where? One file per scheme; importing this package registers them all."""

from evenflow.schemes import key, partial_key, shuffle
from evenflow.schemes.base import Router, Scheme, WorkerReport, register, scheme, schemes

__all__ = [
    "Router",
    "Scheme",
    "WorkerReport",
    "key",
    "partial_key",
    "register",
    "scheme",
    "schemes",
    "shuffle",
]
