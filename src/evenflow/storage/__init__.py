"""Where evenflow keeps its own files: a folder, or an object store by its URL.

Everything that is not Spark's own goes through :class:`Storage`: objects that are written whole, created only
if absent, or replaced only if unchanged. Nothing rests on renames, on listings that are up to date, or on
clocks that agree. Keep imports light: Python workers import this room.
"""

from evenflow.storage.base import Entry, Storage, StorageError
from evenflow.storage.location import Location, locate
from evenflow.storage.opening import open_storage

__all__ = ["Entry", "Location", "Storage", "StorageError", "locate", "open_storage"]
