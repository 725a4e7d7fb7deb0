"""The values of a worker's frequent keys, for the log: hashes alone say little to people."""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.control.hot_keys import shortened

_PART = 16  # of the worker's rows so far: a key with fewer than this fraction is not frequent
_MOST = 64


class FrequentKeys:
    """The keys with most rows among those that a worker has seen, with their values.

    >>> keys = FrequentKeys(["word"])
    >>> keys.add([pa.array(["the", "of"])], np.array([7, 8]), np.array([90, 1]), 91)
    >>> keys.values()
    {7: 'the'}
    """

    def __init__(self, names: Sequence[str]):
        self._names = names
        self._kept: list[tuple[int, int, str]] = []  # rows, hash, value

    def add(
        self, keys: Sequence[pa.Array], hashes: npt.NDArray[Any], counts: npt.NDArray[np.int64], rows: int
    ) -> None:
        """Take keys with their rows; ``rows`` are those of all keys so far."""
        frequent = np.flatnonzero(counts * _PART >= rows).tolist()
        if frequent:
            found = [(int(counts[row]), int(hashes[row]), self._value(keys, row)) for row in frequent]
            self._kept = heapq.nlargest(_MOST, [*self._kept, *found])

    def values(self) -> dict[int, str]:
        """Return the values by hash."""
        return {key: value for _, key, value in self._kept}

    def _value(self, keys: Sequence[pa.Array], row: int) -> str:
        """Return a key as text: its value, or JSON if it has several columns."""
        values = [_plain(key[row].as_py()) for key in keys]
        if len(values) == 1:
            return shortened("null" if values[0] is None else str(values[0]))
        named = dict(zip(self._names, values, strict=True))
        return shortened(json.dumps(named, separators=(",", ":"), ensure_ascii=False, default=str))


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
