"""The one spelling of schemes, on the command line and in files: ``d-choices:epsilon=1e-3,distinct=no,fill``.

A scheme is its name or an alias, then, after a colon, parameters as ``name=value``. Schemes and parameters
are both separated by commas: a piece with an equals sign and no colon before it belongs to the scheme on
its left. Values: numbers (1e5 is a whole one), yes or no, none, words; ``1.2+1.3+1.2`` is several numbers.
``all`` is every scheme there is. A name may be that of a class, ``own_scheme:Sticky``: see
:mod:`evenflow.schemes.plugins`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from evenflow.errors import EvenflowError, nearest
from evenflow.schemes.base import Scheme, is_known, list_schemes, scheme
from evenflow.schemes.plugins import load_scheme

_WORDS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False, "none": None}
_EXAMPLE = "Write for example key,d-choices:epsilon=1e-3,fill."


def parse_schemes(text: str) -> list[Scheme]:
    """Return the schemes that ``text`` spells, in order, each once.

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
    """Return the one scheme that ``text`` spells.

    >>> parse_scheme("fill:split=no")
    Fill(epsilon=0.02, split=False, horizon=10000)
    """
    name, colon, rest = (part.strip() for part in text.partition(":"))
    if not name or "=" in name:
        known = ", ".join(list_schemes())
        raise EvenflowError(f"{text.strip()!r} is not a scheme; known are {known}. {_EXAMPLE}")
    their_class, _, parameters = rest.partition(":")
    if their_class.isidentifier() and name.replace(".", "").isidentifier() and not is_known(name):
        kind = load_scheme(f"{name}:{their_class}")
        return parse_scheme(f"{kind.name}:{parameters}" if parameters else kind.name)
    fields = {field.name: field for field in dataclasses.fields(scheme(name))}
    values: dict[str, Any] = {}
    for piece in rest.split(",") if colon else ():
        parameter, equals, value = (part.strip() for part in piece.partition("="))
        if not equals or not value:
            raise EvenflowError(
                f"{piece.strip()!r} is not a parameter of {name}; write name=value. {_EXAMPLE}"
            )
        if parameter not in fields:
            known = nearest(parameter, fields) if fields else "it takes none."
            raise EvenflowError(f"{name} has no parameter {parameter!r}; {known}")
        if parameter in values:
            raise EvenflowError(f"{parameter} of {name} is given twice; choose one.")
        values[parameter] = _value(f"{parameter} of {name}", value, _annotation(fields[parameter]))
    return scheme(name, **values)


def as_scheme(given: str | Scheme) -> Scheme:
    """Return the scheme that a spelling such as ``"explicit:algorithm=scan"`` stands for.

    A scheme stands for itself.
    """
    if isinstance(given, str):
        return parse_scheme(given)
    if not isinstance(given, Scheme):
        raise EvenflowError(f"scheme is {given!r}; it is a name such as 'partial-key', or a Scheme.")
    return given


def spell(found: Scheme) -> str:
    """Return the spelling that makes ``found`` again, without what is default.

    >>> spell(parse_scheme("explicit:alpha=1.2+1.3+1.2,window=1e4"))
    'explicit:alpha=1.2+1.3+1.2,window=10000'
    """
    changed = [
        f"{field.name}={_spelled(getattr(found, field.name))}"
        for field in dataclasses.fields(found)
        if getattr(found, field.name) != field.default
    ]
    return f"{found.name}:{','.join(changed)}" if changed else found.name


def _annotation(field: dataclasses.Field[Any]) -> str:
    """Return a parameter's type as text, whether annotations are kept as text or not."""
    return field.type.__name__ if isinstance(field.type, type) else str(field.type)


def _value(name: str, text: str, kind: str) -> Any:
    """Read ``text`` as the annotation ``kind`` asks."""
    kinds = {part.strip() for part in kind.split("|")}
    word = text.lower()
    if word in _WORDS and ("bool" in kinds if _WORDS[word] is not None else "None" in kinds):
        return _WORDS[word]
    if "str" in kinds:
        return text
    try:
        if "tuple" in kind and "+" in text.strip("+") and "e+" not in word:
            return tuple(float(part) for part in text.split("+"))
        if "float" in kinds:
            return float(text)
        if "int" in kinds and math.isfinite(number := float(text)) and number.is_integer():
            return int(number)
    except ValueError:
        pass
    raise EvenflowError(f"{name} is {text!r}; it is {_meaning(kinds, kind)}.")


def _meaning(kinds: set[str], kind: str) -> str:
    meanings = []
    if "bool" in kinds:
        meanings.append("yes or no")
    if "int" in kinds:
        meanings.append("a whole number")
    if "float" in kinds:
        meanings.append("a number")
    if "tuple" in kind:
        meanings.append("numbers such as 1.2+1.3+1.2")
    if "None" in kinds:
        meanings.append("none")
    return ", or ".join(meanings)


def _spelled(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, tuple):
        return "+".join(map(_spelled, value))
    return f"{value!r}" if isinstance(value, float) else str(value)
