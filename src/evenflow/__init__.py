"""Balances keyed streams: decides which worker gets the rows of a key.

>>> import evenflow as ef
>>> router = ef.scheme("partial-key").router(workers=4, seed=7)
>>> router.route(ef.hash_keys(["to", "be", "or", "not", "to", "be"])).size
6

Names are loaded on first use, since importing numba alone would delay ``evenflow --help`` by half a second.
"""

from typing import TYPE_CHECKING

import lazy_loader

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from evenflow.advisor import advise, advise_join
    from evenflow.keys import hash_keys
    from evenflow.plan import Plan
    from evenflow.schemes import Router, Scheme, WorkerReport, list_schemes, register, scheme
    from evenflow.simulator import simulate

__version__ = "0.1.0"
__all__ = [
    "EvenflowError",
    "Plan",
    "Router",
    "Scheme",
    "WorkerReport",
    "advise",
    "advise_join",
    "hash_keys",
    "list_schemes",
    "register",
    "scheme",
    "simulate",
]

if not TYPE_CHECKING:
    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submodules=["schemes", "streams"],
        submod_attrs={
            "advisor": ["advise", "advise_join"],
            "errors": ["EvenflowError"],
            "keys": ["hash_keys"],
            "plan": ["Plan"],
            "schemes": ["Router", "Scheme", "WorkerReport", "list_schemes", "register", "scheme"],
            "simulator": ["simulate"],
        },
    )
