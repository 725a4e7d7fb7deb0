"""evenflow keeps keyed streams even: it decides which worker a key's row goes to.

>>> import evenflow as ef
>>> router = ef.scheme("partial-key").router(workers=4, seed=7)
>>> router.route(ef.hash_keys(["to", "be", "or", "not", "to", "be"])).size
6

Names load when they are first used: numba alone would make ``evenflow --help`` wait for half a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from evenflow.keys import hash_keys
    from evenflow.schemes import Router, Scheme, WorkerReport, register, scheme, schemes

__version__ = "0.1.0"
__all__ = ["EvenflowError", "Router", "Scheme", "WorkerReport", "hash_keys", "register", "scheme", "schemes"]


def __getattr__(name: str) -> Any:
    if name == "schemes":  # the sub-package is callable, as it has the name of the function
        return import_module("evenflow.schemes")
    if name not in __all__:
        raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
    value = getattr(import_module("evenflow.keys" if name == "hash_keys" else "evenflow.schemes"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
