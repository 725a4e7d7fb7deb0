"""Parsing of ``name:key=value,key=value``, the syntax of schemes, streams and apps; and value checks.

The parameters are the fields of a dataclass, parsed by their annotations: numbers (1e5 is a whole number),
yes or no, none, text; ``1.2+1.3`` is several numbers. Keep imports light: commands import this module.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from evenflow.errors import EvenflowError, nearest

Built = TypeVar("Built")
_WORDS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False, "none": None}


def build(make: Callable[..., Built], kind: type[Any], name: str, text: str) -> Built:
    """Call ``make`` with the fields of dataclass ``kind`` given in ``text``; errors include an example."""
    try:
        return make(**_parameters(kind, name, text))
    except EvenflowError as error:
        raise EvenflowError(f"{error} Example: {spell_defaults(name, kind)}.") from None


def _parameters(kind: type[Any], name: str, text: str) -> dict[str, Any]:
    fields = {field.name: field for field in parameters_of(kind)}
    texts: dict[str, str] = {}
    for piece in text.split(",") if text.strip() else ():
        parameter, equals, value = (part.strip() for part in piece.partition("="))
        if not equals or not value:
            raise EvenflowError(f"{piece.strip()!r} is not a parameter; write name=value.")
        if parameter not in fields:
            known = nearest(parameter, fields) if fields else "it takes none."
            raise EvenflowError(f"{name} has no parameter {parameter!r}; {known}")
        if parameter in texts:
            raise EvenflowError(f"{parameter} is given twice, as {texts[parameter]} and {value}; choose one.")
        texts[parameter] = value
    return {parameter: read_value(value, fields[parameter]) for parameter, value in texts.items()}


def parameters_of(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """Return the fields of a dataclass as they are spelled: its own, then those by keyword only."""
    return sorted(dataclasses.fields(kind), key=lambda field: field.kw_only is True)


def read_value(text: str, field: dataclasses.Field[Any]) -> Any:
    """Parse ``text`` by the annotation of ``field``, which may be a type or a string."""
    annotation = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    kinds = {part.strip() for part in annotation.split("|")}
    word = text.lower()
    if word in _WORDS and ("bool" in kinds if _WORDS[word] is not None else "None" in kinds):
        return _WORDS[word]
    if "str" in kinds:
        return text
    shown = repr(text)
    try:
        if "tuple" in annotation and "+" in text.strip("+") and "e+" not in word:
            return tuple(float(part) for part in text.split("+"))
        if "float" in kinds:
            return float(text)
        if "int" in kinds:
            shown = spell_value(float(text))
            return read_whole(text)
    except ValueError:
        pass
    raise EvenflowError(f"{field.name} is {shown}; it must be {_meaning(kinds, annotation)}.")


def read_whole(text: str) -> int:
    """Parse a whole number such as 1000000, 1_000_000 or 1e6; anything else raises ValueError.

    >>> read_whole("1e6"), read_whole("12345678901234567890")
    (1000000, 12345678901234567890)
    """
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if not number.is_integer():
        raise ValueError(f"{text!r} is not a whole number")
    return int(number)


def _meaning(kinds: set[str], annotation: str) -> str:
    meanings = {"bool": "yes or no", "int": "a whole number", "float": "a number"}
    named = [meaning for kind, meaning in meanings.items() if kind in kinds]
    if "tuple" in annotation:
        named.append("numbers such as 1.2+1.3+1.2")
    return " or ".join([*named, *(["none"] if "None" in kinds else [])])


def spell(name: str, values: Mapping[str, Any]) -> str:
    """Return ``name`` with these parameters as text.

    >>> spell("fill", {"epsilon": 0.1, "split": False})
    'fill:epsilon=0.1,split=no'
    """
    parameters = ",".join(f"{parameter}={spell_value(value)}" for parameter, value in values.items())
    return f"{name}:{parameters}" if parameters else name


def spell_defaults(name: str, kind: type[Any]) -> str:
    """Return ``name`` with every default that is not None, as text."""
    left_out = (None, dataclasses.MISSING)
    fields = [field for field in parameters_of(kind) if field.default not in left_out]
    return spell(name, {field.name: field.default for field in fields})


def spell_value(value: Any) -> str:
    """Return a parameter value as text.

    >>> [spell_value(value) for value in (True, None, 1e5, 1e-3, (4.0, 1.5), "w-choices")]
    ['yes', 'none', '100000', '0.001', '4+1.5', 'w-choices']
    """
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, tuple):
        return "+".join(map(spell_value, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a number; a bool is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check(name: str, value: Any, good: bool, rule: str) -> None:
    """Reject a value unless ``good``; ``rule`` completes the error."""
    if not good:
        raise EvenflowError(f"{name} is {value!r}; {rule}.")


def check_count(name: str, value: Any, lowest: int, rule: str) -> None:
    """Reject a value that is not an integer of at least ``lowest``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    check(name, value, whole and value >= lowest, rule)


def whole(name: str, value: Any, low: int, high: int | None, rule: str) -> int:
    """Return ``value`` as an int (1e5 is accepted), or reject it."""
    good = is_number(value) and math.isfinite(value) and value == int(value)
    check(name, value, good, "it must be a whole number")
    check(name, value, low <= value and (high is None or value <= high), rule)
    return int(value)


def number(name: str, value: Any, low: float, high: float, rule: str) -> float:
    """Return ``value`` as a float between ``low`` and ``high``, or reject it."""
    if not is_number(value) or not low <= value <= high:  # NaN fails every comparison
        raise EvenflowError(f"{name} is {spell_value(value) if is_number(value) else repr(value)}; {rule}.")
    return float(value)
