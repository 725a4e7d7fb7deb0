"""Compiled loops: the decorators, and the array types that kernels take.

``@kernel`` is numba's ``njit`` with a disk cache and without the GIL. numba's cache depends only on the file
of the function itself, so after an edit in another module a kernel that calls it would run stale code.
``kernel`` therefore makes the cache depend on every evenflow file that the function's module uses.

Kernels run without numba's reference counting (``_nrt=False``), which costs more than the work itself when a
sketch's arrays pass through small functions (SpaceSaving: 143 ns per message with it, 10 ns without). A
kernel therefore cannot allocate arrays: scratch space is passed as an argument.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

UInt64Array = npt.NDArray[np.uint64]
Int64Array = npt.NDArray[np.int64]
UInt32Array = npt.NDArray[np.uint32]
Int32Array = npt.NDArray[np.int32]
Int8Array = npt.NDArray[np.int8]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_IMPORT = re.compile(r"^from (evenflow[\w.]*) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
}  # kernels allocate no arrays


def kernel(function: Function) -> Function:
    """Compile ``function`` on the first call, cache the result on disk, and run it without the GIL."""
    compiled = numba.njit(cache=True, **_OPTIONS)(function)
    _stamp_with_dependencies(compiled, function)
    return cast("Function", compiled)


def cache_folder() -> Path:
    """Return the directory of the compiled kernels of this package; raise OSError if there is none."""
    try:
        return Path(kernel(_nothing).stats.cache_path)  # type: ignore[attr-defined]
    except RuntimeError as error:  # numba found no writable directory
        raise OSError(str(error)) from None


def _nothing() -> None:
    """Serve as a kernel whose cache can be located."""


def inlined(function: Function) -> Function:
    """Compile a small function into the kernels that call it."""
    return cast("Function", numba.njit(forceinline=True, **_OPTIONS)(function))


def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Have the processor fetch an element of an array into its caches, without waiting for it."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        insert: Any = cgutils.get_or_insert_function
        function = insert(builder.module, kind, "llvm.prefetch.p0i8")
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(function, [address, word(0), word(3), word(1)])  # read, keep in all caches, data
        return context.get_dummy_value()

    return types.none(array, index), code


prefetch: Any = intrinsic(_prefetch)


def _stamp_with_dependencies(compiled: Any, function: Any) -> None:
    """Make the disk cache of ``compiled`` depend on every evenflow file its module uses."""
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    module_file = getattr(sys.modules[function.__module__], "__file__", None)
    if cache_file is None or module_file is None or not hasattr(cache_file, "_source_stamp"):
        return  # no file, or another numba version; its own, weaker stamp remains
    digest = hashlib.blake2b()
    for file in sorted(_files_behind(Path(module_file))):
        digest.update(_text(file).encode())
    cache_file._source_stamp = digest.digest()


def _files_behind(file: Path) -> set[Path]:
    """Return a file and those of evenflow that it imports at the top, directly or through others.

    They are found by their text. What the modules hold depends on what else the process has loaded, and
    processes with other stamps would discard each other's kernels.
    """
    found: set[Path] = set()
    left = {file}
    while left:
        found.add(one := left.pop())
        left |= _imported(one) - found
    return found


@cache
def _imported(file: Path) -> frozenset[Path]:
    names = set()
    for module, bracketed, listed in _IMPORT.findall(_text(file)):
        names |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", bracketed or listed))}
    package = Path(__file__).parent
    places = [package.joinpath(*name.split(".")[1:]) for name in names]
    files = [place / "__init__.py" if place.is_dir() else place.with_suffix(".py") for place in places]
    return frozenset(path for path in files if path.is_file())


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")
