"""The interface of a storage, and its error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from evenflow.errors import EvenflowError
from evenflow.storage.location import Location

T = TypeVar("T")
U = TypeVar("U")

_THREADS = 16  # that make requests at a time


class StorageError(EvenflowError, OSError):
    """A storage that cannot be reached, or that refuses a request: one sentence without secrets."""


class Entry(NamedTuple):
    """An object in a listing."""

    name: str  # relative to the storage
    size: int
    modified: float  # by the clock of the store


class Storage(ABC):
    """Objects by name below a location; names have "/" between their parts.

    A missing object raises FileNotFoundError, everything else that fails another OSError: of an object store,
    a `StorageError`. An object is always seen whole, old or new, never half written.
    """

    def __init__(self, location: Location):
        self.location = location
        self.requests = 0  # made so far, without repetitions of failed ones; of a folder, calls
        self._reported = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.location)!r})"

    @cached_property
    def apart(self) -> Storage:
        """The same storage, whose requests are counted apart from these."""
        return type(self)(self.location)

    def take_requests(self) -> int:
        """Return the requests of this process since the last call."""
        made, self._reported = self.requests - self._reported, self.requests
        return made

    def alone(self) -> AbstractContextManager[bool]:
        """Spare others the same work: wait for those of this machine that are in here, if it can be told.

        True if some were. The wait has an end, so results must not depend on it.
        """
        return nullcontext(False)

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Write an object, replacing one that is there."""

    @abstractmethod
    def open_sink(self, name: str) -> Any:
        """Return a file-like object whose content becomes an object when it is closed, and lasts."""

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless there is one; return whether the object is this one.

        If an answer of the store is lost, an object with exactly this content counts as created by this call:
        writers that must know which of them it was put something unique into it.
        """

    @abstractmethod
    def swap(self, name: str, content: bytes, version: str | None) -> str | None:
        """Replace an object if it still has a version, None for an absent one; return the new version.

        None if another writer was faster. As for `create`, what is written should be unique to the writer.
        """

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of an object."""

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """Return the contents of objects, None for those that are missing; several requests at a time."""

        def read(name: str) -> bytes | None:
            try:
                return self.read(name)
            except FileNotFoundError:
                return None

        return at_once(read, names)

    @abstractmethod
    def read_version(self, name: str) -> tuple[bytes, str]:
        """Return the content of an object and its version, for `swap`."""

    @abstractmethod
    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Return a part of an object."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Return the size of an object."""

    @abstractmethod
    def entries(self, below: str = "") -> list[Entry]:
        """Return all objects below a name, sorted by name; a listing may be behind the objects."""

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are missing are ignored."""

    def remove_drafts(self, below: str = "") -> None:
        """Remove what killed writers left directly below a name; object stores show none of it."""
        return

    def is_empty(self, below: str = "") -> bool:
        """Return whether there is no object below a name."""
        return not self.entries(below)

    def exists(self, name: str) -> bool:
        """Return whether there is an object."""
        try:
            self.size(name)
        except FileNotFoundError:
            return False
        return True


def at_once(read: Callable[[T], U], things: Sequence[T]) -> list[U]:
    """Return what several threads read, in order.

    >>> at_once(len, ["a", "bb"])
    [1, 2]
    """
    if len(things) < 2:
        return [read(thing) for thing in things]
    with ThreadPoolExecutor(min(_THREADS, len(things))) as pool:
        return list(pool.map(read, things))
