"""Arrays inside JSON: little-endian bytes, compressed, as base64, so that thousands of numbers stay small."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np


def text_of(values: np.ndarray[Any, Any]) -> str:
    """Return an array as text.

    >>> numbers_of(text_of(np.arange(3)), np.int64).tolist()
    [0, 1, 2]
    """
    plain = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(zlib.compress(plain.tobytes(), 6)).decode()


def numbers_of(text: str, kind: Any) -> np.ndarray[Any, Any]:
    """Return the array that a text holds."""
    raw = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(raw, np.dtype(kind).newbyteorder("<")).astype(kind)
