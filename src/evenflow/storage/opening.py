"""Opening the storage of a location, once per process."""

from __future__ import annotations

from pathlib import Path

from evenflow.storage.base import Storage
from evenflow.storage.location import Location, locate

_MOST_OPEN = 256
_OPEN: dict[tuple[str, tuple[tuple[str, str], ...]], Storage] = {}


def open_storage(place: str | Path, argument: str = "control") -> Storage:
    """Return the storage of a path or URL.

    >>> import tempfile
    >>> storage = open_storage(tempfile.mkdtemp())
    >>> storage.create("a/note", b"first"), storage.create("a/note", b"second"), storage.read("a/note")
    (True, False, b'first')
    """
    location = locate(place, argument)
    key = (str(location), tuple(sorted(location.options.items())))
    found = _OPEN.get(key)
    if found is None:
        if len(_OPEN) >= _MOST_OPEN:
            _OPEN.clear()
        found = _OPEN[key] = _opened(location)
    return found


def _opened(location: Location) -> Storage:
    if location.is_local:
        from evenflow.storage.folder import Folder

        return Folder(location)
    from evenflow.storage.object_store import ObjectStore

    return ObjectStore(Location(location))
