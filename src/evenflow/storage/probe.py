"""Trying out a storage: can it do all that evenflow needs, and how long does a request take?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from uuid import uuid4

from evenflow.errors import EvenflowError, first_line
from evenflow.storage.base import Storage
from evenflow.storage.opening import open_storage

ROUND_TRIPS = 9
_CONDITIONAL = "without it, two writers cannot be told apart; use a store with conditional writes."


def probe(place: str | Path) -> Iterator[tuple[str, str, str]]:
    """Yield what was tried, what was found, and what to do if it failed; objects of its own are removed.

    >>> import tempfile
    >>> [(what, to_do) for what, _, to_do in probe(tempfile.mkdtemp())][:3]
    [('write', ''), ('read', ''), ('create if absent', '')]
    """
    try:
        storage = open_storage(place, "storage")
    except (EvenflowError, OSError) as error:
        yield "open", "failed", first_line(error)
        return
    name = f"evenflow-doctor-{uuid4().hex}"
    steps: list[tuple[str, Callable[[Storage, str], str], str]] = [
        ("write", _write, ""),
        ("read", _read, ""),
        ("create if absent", _create, _CONDITIONAL),
        ("compare and set", _swap, _CONDITIONAL),
        ("list", _list, ""),
        ("latency", _latency, ""),
        ("delete", _delete, ""),
    ]
    try:
        for what, step, advice in steps:
            try:
                yield what, step(storage, name), ""
            except (EvenflowError, OSError) as error:
                yield what, "failed", _sentence(error, storage)
                if what == "write":
                    return
            except AssertionError as error:
                yield what, str(error), advice
    finally:
        with contextlib.suppress(OSError):  # said above
            storage.delete([name, f"{name}-created"])


def _sentence(error: BaseException, storage: Storage) -> str:
    if isinstance(error, OSError) and not isinstance(error, EvenflowError):
        return f"{storage.location}: {error.strerror}; pass a folder that this user may write to."
    return first_line(error)


def _write(storage: Storage, name: str) -> str:
    storage.put(name, b"first")
    return "works"


def _read(storage: Storage, name: str) -> str:
    if storage.read(name) != b"first" or storage.read_range(name, 1, 3) != b"irs":
        raise AssertionError("something else comes back than was written")
    return "works, also by range"


def _create(storage: Storage, name: str) -> str:
    if not storage.create(f"{name}-created", b"first"):
        raise AssertionError("an absent object was not created")
    if storage.create(f"{name}-created", b"second") or storage.read(f"{name}-created") != b"first":
        raise AssertionError("an object that is there was overwritten")
    return "works"


def _swap(storage: Storage, name: str) -> str:
    version = storage.read_version(name)[1]
    if storage.swap(name, b"second", version) is None:
        raise AssertionError("an unchanged object was not replaced")
    if storage.swap(name, b"third", version) is not None or storage.read(name) != b"second":
        raise AssertionError("a changed object was overwritten")
    return "works"


def _list(storage: Storage, name: str) -> str:
    seen = {entry.name for entry in storage.entries() if entry.name.startswith("evenflow-doctor-")}
    return "works" if name in seen else "is behind the objects, which does no harm"


def _latency(storage: Storage, name: str) -> str:
    taken: dict[str, list[float]] = {"write": [], "read": []}
    for number in range(ROUND_TRIPS):
        for verb, call in (
            ("write", lambda number=number: storage.put(name, b"%d" % number)),
            ("read", lambda: storage.read(name)),
        ):
            began = time.perf_counter()
            call()
            taken[verb].append(time.perf_counter() - began)
    return ", ".join(f"{verb} {1000 * median(times):.1f} ms" for verb, times in taken.items())


def _delete(storage: Storage, name: str) -> str:
    storage.delete([name, f"{name}-created"])
    if storage.exists(name):
        raise AssertionError("a deleted object is still there")
    return "works"
