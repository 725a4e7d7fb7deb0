"""Fields of plans stored as JSON, each checked; a damaged plan is refused with the field and its value."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from evenflow.kernels import Float64Array, UInt64Array


def refused(what: str) -> EvenflowError:
    """Return the error for a text that is not a plan."""
    return EvenflowError(f"this is not a plan: {what}; pass the result of to_json().")


def parsed(text: str) -> dict[str, Any]:
    """Return the JSON object that a text holds."""
    try:
        content = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise refused(str(error)) from None
    if not isinstance(content, dict):
        raise refused(f"it is {shown(content)}, not an object")
    return content


def field(content: dict[str, Any], name: str, of: str) -> Any:
    """Return a field, which must be there."""
    if name not in content:
        raise refused(f"{name} is missing" if of == "the plan" else f"{name} of {of} is missing")
    return content[name]


def array(values: Any, name: str) -> list[Any]:
    """Return the values of an array."""
    if not isinstance(values, list):
        raise refused(f"{name} is {shown(values)}, not an array")
    return values


def homes_in(values: Any, name: str, workers: int) -> list[int]:
    """Return an array of workers."""
    homes = whole(array(values, name), name)
    if not homes:
        raise refused(f"{name} is empty")
    for home in homes:
        if not 0 <= home < workers:
            raise refused(f"{name} has worker {home}, outside 0 to {workers - 1}")
    return homes


def whole(values: list[Any], name: str) -> list[int]:
    """Return an array of 32-bit integers."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
            raise refused(f"{name} has {shown(value)}, not a 32-bit integer")
    return values


def shares_in(values: Any, name: str) -> list[float]:
    """Return an array of finite, non-negative numbers."""
    for value in array(values, name):
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not 0 <= value <= sys.float_info.max:
            raise refused(f"{name} has {shown(value)}, not a finite non-negative number")
    return [float(value) for value in values]


def shown(value: Any) -> str:
    """Return a value as JSON, shortened."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def hash_in(entry: Any) -> int:
    """Return the key of an entry: a hash as a decimal string."""
    if not isinstance(entry, dict):
        raise refused(f"hot holds {shown(entry)}, not an object")
    named = field(entry, "key", "a hot key")
    digits = isinstance(named, str) and named.isascii() and named.isdigit() and len(named) <= 20
    if not digits or int(named) >= 2**64:
        raise refused(f"key is {shown(named)}, not a decimal string from 0 to 2**64 - 1")
    return int(named)


def check_distinct(keys: UInt64Array) -> None:
    """Refuse a key that is listed twice."""
    unique, counts = np.unique(keys, return_counts=True)
    if unique.size < keys.size:
        raise refused(f"key {unique[counts > 1][0]} is listed twice")


def worker_fields(content: dict[str, Any]) -> tuple[int, Float64Array]:
    """Return the number of workers and their expected loads."""
    [workers] = whole([field(content, "workers", "the plan")], "workers")
    if workers < 1:
        raise refused(f"workers is {workers}")
    expected = shares_in(field(content, "expected", "the plan"), "expected")
    if len(expected) != workers:
        raise refused(f"expected has {len(expected)} values for {workers} workers")
    return workers, np.array(expected, np.float64)


def check_version(content: dict[str, Any], version: int) -> None:
    """Refuse a plan of another version."""
    found = field(content, "version", "the plan")
    if found != version:
        raise EvenflowError(
            f"this plan has version {found}, but this evenflow reads {version}; make a new plan."
        )
