"""Schemes that are not evenflow's own: installed packages' by entry point, a user's file by ``module:Name``.

A package offers schemes in the entry point group ``evenflow.schemes``; they are looked for once, when a name
is not known or all are listed. A file in the current folder needs no package: ``own_scheme:Sticky`` is the
class Sticky of own_scheme.py, and is registered under its own name from then on.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from functools import cache
from importlib.metadata import entry_points

from evenflow.errors import EvenflowError
from evenflow.schemes.base import Scheme, register

GROUP = "evenflow.schemes"

log = logging.getLogger("evenflow")


@cache
def find_installed() -> None:
    """Register the schemes of installed packages; one that cannot be loaded is left out and logged."""
    for entry in entry_points(group=GROUP):
        try:
            register(_checked(entry.load(), entry.value))
        except Exception as error:  # another package's fault must not stop evenflow
            log.warning("scheme %s of %s cannot be used: %s", entry.name, entry.value, error)


def load_scheme(spec: str) -> type[Scheme]:
    """Register the class that ``spec`` names as ``module:Name`` and return it."""
    module, _, name = spec.partition(":")
    if os.getcwd() not in sys.path:  # a command does not look there by itself
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise EvenflowError(f"there is no scheme {spec!r}; write module:Name of a class ({error}).") from None
    return register(_checked(found, spec))


def _checked(found: object, spec: str) -> type[Scheme]:
    if not (isinstance(found, type) and issubclass(found, Scheme)):
        raise EvenflowError(f"{spec} is {found!r}; it must be a class derived from evenflow.schemes.Scheme.")
    return found
