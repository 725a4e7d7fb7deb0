"""evenflow keeps keyed streams even: it decides which worker a key's row goes to.

>>> import evenflow as ef
>>> router = ef.scheme("partial-key").router(workers=4, seed=7)
>>> router.route(ef.hash_keys(["to", "be", "or", "not", "to", "be"])).size
6
"""

from evenflow.errors import EvenflowError
from evenflow.keys import hash_keys
from evenflow.schemes import Router, Scheme, WorkerReport, register, scheme, schemes

__version__ = "0.1.0"
__all__ = ["EvenflowError", "Router", "Scheme", "WorkerReport", "hash_keys", "register", "scheme", "schemes"]
