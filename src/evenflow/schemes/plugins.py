"""Schemes defined outside evenflow: by entry point in an installed package, or as ``module:Name``.

Packages provide schemes through the entry point group ``evenflow.schemes``, which is read once, when a name
is unknown or all schemes are listed. A file in the current directory needs no package: ``own_scheme:Sticky``
is the class Sticky in own_scheme.py, and is registered under its own name from then on.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from functools import cache
from importlib.metadata import entry_points

from evenflow.errors import EvenflowError
from evenflow.schemes.base import Scheme
from evenflow.schemes.registry import register

GROUP = "evenflow.schemes"

log = logging.getLogger("evenflow")


@cache
def load_installed() -> None:
    """Register the schemes of installed packages; log and skip those that cannot be loaded."""
    for entry in entry_points(group=GROUP):
        try:
            register(_checked(entry.load(), entry.value))
        except Exception as error:  # a broken package must not break evenflow
            log.warning("skipped scheme %s of %s: %s", entry.name, entry.value, error)


def load_scheme(spec: str) -> type[Scheme]:
    """Import the class ``module:Name``, register it and return it."""
    module, _, name = spec.partition(":")
    if os.getcwd() not in sys.path:  # not on the path of an installed command
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise EvenflowError(
            f"there is no scheme {spec!r} ({error}); write the module:Name of a class."
        ) from None
    return register(_checked(found, spec))


def _checked(found: object, spec: str) -> type[Scheme]:
    if not (isinstance(found, type) and issubclass(found, Scheme)):
        raise EvenflowError(f"{spec} is {found!r}; it must be a subclass of evenflow.schemes.Scheme.")
    return found
