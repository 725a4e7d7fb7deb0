"""State as bytes: a JSON header, raw arrays and a checksum; single arrays as text for JSON.

Reading never executes code. Layout: ``evenflow`` · format version (u16) · header length (u32) · header ·
array bytes · MD5 of everything before, which Spark's SQL can compare too (16 bytes).
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.errors import EvenflowError

MAGIC = b"evenflow"
VERSION = 2
_PREFIX = struct.Struct("<8sHI")
_CHECKSUM = 16
FRAME = _PREFIX.size, _CHECKSUM  # bytes before and after the JSON of a blob without arrays
_KINDS = frozenset("biuf")

Array = npt.NDArray[Any]


def write_blob(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Pack ``header`` (JSON values) and named numeric arrays into bytes."""
    shapes = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({"kind": kind, "header": header, "arrays": shapes}, sort_keys=True).encode()
    parts = [_PREFIX.pack(MAGIC, VERSION, len(text)), text]
    parts += [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    body = b"".join(parts)
    return body + _checksum(body)


def read_blob(kind: str, blob: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Unpack what ``write_blob`` packed for the same ``kind``; raise an error for anything else."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise EvenflowError(
            f"a saved {kind} must be bytes, not {type(blob).__name__}; pass the result of to_bytes()."
        )
    blob = bytes(blob)
    if len(blob) < _PREFIX.size + _CHECKSUM or blob[: len(MAGIC)] != MAGIC:
        raise EvenflowError(f"these {len(blob)} bytes are not a saved {kind}; pass the result of to_bytes().")
    _, version, length = _PREFIX.unpack_from(blob)
    if version != VERSION:
        raise EvenflowError(
            f"this saved {kind} has format {version}, but this evenflow reads format {VERSION}; "
            "make a new one or install the evenflow that wrote it."
        )
    body, checksum = blob[:-_CHECKSUM], blob[-_CHECKSUM:]
    if _checksum(body) != checksum:
        raise EvenflowError(f"this saved {kind} is damaged (checksum mismatch); use another copy.")
    content = json.loads(body[_PREFIX.size : _PREFIX.size + length])
    if content["kind"] != kind:
        raise EvenflowError(
            f"this is a saved {content['kind']}, not a {kind}; read it with the class that wrote it."
        )
    arrays: dict[str, Array] = {}
    offset = _PREFIX.size + length
    for name, code, shape in content["arrays"]:
        dtype = np.dtype(code)
        if dtype.kind not in _KINDS:
            raise EvenflowError(f"this saved {kind} has an array of type {code}; save only numeric arrays.")
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, dtype, count, offset).reshape(shape).copy()
        offset += count * dtype.itemsize
    return content["header"], arrays


def _checksum(body: bytes) -> bytes:
    return hashlib.md5(body, usedforsecurity=False).digest()


def array_to_text(values: Array) -> str:
    """Return an array as text for JSON: compressed little-endian bytes in base64.

    >>> array_from_text(array_to_text(np.arange(3)), np.int64).tolist()
    [0, 1, 2]
    """
    plain = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(zlib.compress(plain.tobytes(), 6)).decode()


def array_from_text(text: str, kind: Any) -> Array:
    """Return the array from its text."""
    raw = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(raw, np.dtype(kind).newbyteorder("<")).astype(kind)
