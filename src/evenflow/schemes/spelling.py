"""Schemes as text, on the command line and in files: ``d-choices:epsilon=1e-3,distinct=no,fill``.

A scheme is a name or alias, optionally followed by a colon and parameters as ``name=value``. Commas separate
both schemes and parameters: a part with an equals sign and no colon before it belongs to the scheme on its
left. :mod:`evenflow.spec` defines the syntax of values. ``all`` stands for every scheme. A name can also
refer to a class, as in ``own_scheme:Sticky``; see :mod:`evenflow.schemes.plugins`.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from evenflow import spec
from evenflow.errors import EvenflowError
from evenflow.schemes.base import Scheme
from evenflow.schemes.plugins import load_scheme
from evenflow.schemes.registry import is_known, list_schemes, scheme
from evenflow.spec import build

_EXAMPLE = "as in key,d-choices:epsilon=1e-3,fill"


def parse_schemes(text: str) -> list[Scheme]:
    """Return the schemes in ``text``, in order and without duplicates.

    >>> [str(found) for found in parse_schemes("pkg,d-c:epsilon=1e-3,distinct=no,fill")]
    ['partial-key', 'd-choices(distinct=False, epsilon=0.001)', 'fill']
    """
    groups: list[str] = []
    for piece in text.split(","):
        name, equals, _ = piece.partition("=")
        if equals and ":" not in name and groups:
            groups[-1] += f",{piece}"
        else:
            groups.append(piece)
    found: list[Scheme] = []
    for group in groups:
        if group.strip() == "all":
            found += [scheme(name) for name in list_schemes()]
        else:
            found.append(parse_scheme(group))
    return list(dict.fromkeys(found))


def parse_scheme(text: str) -> Scheme:
    """Return the scheme in ``text``.

    >>> parse_scheme("fill:split=no")
    Fill(epsilon=0.02, split=False, horizon=10000, queue=5.0, exchange=0)
    """
    name, _, rest = (part.strip() for part in text.partition(":"))
    if not name or "=" in name:
        known = ", ".join(list_schemes())
        raise EvenflowError(f"{text.strip()!r} is not a scheme; use one of {known}, {_EXAMPLE}.")
    their_class, _, parameters = rest.partition(":")
    if their_class.isidentifier() and name.replace(".", "").isidentifier() and not is_known(name):
        kind = load_scheme(f"{name}:{their_class}")
        return parse_scheme(f"{kind.name}:{parameters}" if parameters else kind.name)
    return build(partial(scheme, name), type(scheme(name)), name, rest)


def as_scheme(given: str | Scheme) -> Scheme:
    """Return a scheme from text such as ``"explicit:algorithm=scan"``; a `Scheme` is returned as it is."""
    if isinstance(given, str):
        return parse_scheme(given)
    if not isinstance(given, Scheme):
        raise EvenflowError(f"scheme is {given!r}; pass a name such as 'partial-key', or a Scheme.")
    return given


def spell(found: Scheme) -> str:
    """Return the text from which `parse_scheme` makes ``found``, without defaults.

    >>> spell(parse_scheme("explicit:alpha=1.2+1.3+1.2,window=1e4"))
    'explicit:alpha=1.2+1.3+1.2,window=10000'
    """
    values = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    defaults = {field.name: field.default for field in dataclasses.fields(found)}
    return spec.spell(found.name, {name: value for name, value in values.items() if value != defaults[name]})
