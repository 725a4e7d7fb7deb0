"""Schemes by name: the registry that `register` fills and `scheme` reads."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from evenflow.errors import EvenflowError, nearest

if TYPE_CHECKING:
    from evenflow.schemes.base import Scheme

AnyScheme = TypeVar("AnyScheme", bound="Scheme")

_SCHEMES: dict[str, type[Scheme]] = {}
_ALIASES: dict[str, str] = {}


def register(kind: type[AnyScheme]) -> type[AnyScheme]:
    """Register a scheme class under its name and aliases; use it as a class decorator.

    Parameters
    ----------
    kind
        A subclass of `Scheme` with a ``name``. Registering a class of the same qualified name again replaces
        it, so that a notebook cell can be run twice.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    EvenflowError
        If another scheme has the name or one of the aliases.

    Examples
    --------
    >>> from evenflow.schemes.key import Key
    >>> register(Key).name
    'key'
    """
    for name in (kind.name, *kind.aliases):
        known = _find(name)
        if known is not None and known is not kind and known.__qualname__ != kind.__qualname__:
            raise EvenflowError(
                f"the name {name!r} is taken by a scheme of {known.__module__}; choose another name."
            )
    _SCHEMES[kind.name] = kind
    _ALIASES.update(dict.fromkeys(kind.aliases, kind.name))
    return kind


def scheme(name: str, /, **parameters: Any) -> Scheme:
    """Return the scheme called ``name``.

    Parameters
    ----------
    name
        Name or alias; `list_schemes` has them all.
    **parameters
        The scheme's parameters; those left out keep their defaults.

    Returns
    -------
    Scheme
        The scheme, immutable and hashable.

    Raises
    ------
    EvenflowError
        If there is no such scheme or parameter, or a value is not valid.

    Examples
    --------
    >>> scheme("partial-key")
    PartialKey(distinct=True)
    >>> scheme("fill", epsilon=0.1).router(workers=4).workers
    4
    """
    kind = _find(name) if isinstance(name, str) else None
    if kind is None and isinstance(name, str):
        _load_installed()
        kind = _find(name)
    if kind is None:
        raise EvenflowError(f"there is no scheme {name!r}; {nearest(str(name), [*_SCHEMES, *_ALIASES])}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for parameter, value in parameters.items():
        if parameter not in fields:
            rest = nearest(parameter, fields) if fields else "it takes none."
            raise EvenflowError(f"{kind.name} has no parameter {parameter!r}; {rest}")
        _check_type(kind.name, fields[parameter], value)
    return kind(**parameters)


def list_schemes() -> dict[str, type[Scheme]]:
    """Return all schemes by name, including those of installed packages.

    Returns
    -------
    dict
        Scheme classes by name, in alphabetical order.

    Examples
    --------
    >>> "fill" in list_schemes()
    True
    """
    _load_installed()
    return dict(sorted(_SCHEMES.items()))


def is_known(name: str) -> bool:
    """Return whether a scheme has this name or alias."""
    return _find(name) is not None


def _find(name: str) -> type[Scheme] | None:
    return _SCHEMES.get(_ALIASES.get(name, name))


def _load_installed() -> None:
    from evenflow.schemes.plugins import load_installed  # imports this module

    load_installed()


def _check_type(scheme_name: str, field: dataclasses.Field[Any], value: Any) -> None:
    """Reject a value whose type does not match the parameter's default."""
    expected = ""
    if isinstance(field.default, bool):
        expected = "" if isinstance(value, bool | np.bool_) else "True or False"
    elif isinstance(field.default, int | float):
        expected = "a number" if isinstance(value, str | bytes | bool) else ""
    elif isinstance(field.default, str):
        expected = "" if isinstance(value, str) else "a string"
    if expected:
        raise EvenflowError(
            f"{scheme_name}: {field.name} is {value!r}; it must be {expected}, such as {field.default!r}."
        )
