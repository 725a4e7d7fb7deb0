"""Stream specs, the same on the command line, in files and in code.

* a generator: ``zipf:z=1.4,keys=1e5,messages=1e7,seed=1``; parameters are optional, so ``zipf`` will do;
* a file, folder or glob pattern, also as a URL such as ``s3://...``: ``path.parquet#column``; a composite
  key: ``path#a+b``; a time column: ``path#a@ts`` or ``path#@ts``.

After the ``#``, the name of an existing column is taken literally; otherwise ``%2B``, ``%40``, ``%23`` and
``%25`` stand for + @ # % in a name. The default key is the column ``key``, or the only column. The path of an
existing file always means that file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from evenflow.errors import EvenflowError, nearest
from evenflow.spec import build
from evenflow.storage import locate
from evenflow.streams.base import Stream
from evenflow.streams.countries import Countries
from evenflow.streams.dataset import table_file
from evenflow.streams.election import Election
from evenflow.streams.evolving import Evolving
from evenflow.streams.files import FileStream, check_columns, find_files
from evenflow.streams.generator import Generator
from evenflow.streams.moving import Burst, Drift
from evenflow.streams.zipf import Uniform, Zipf

GENERATORS: dict[str, type[Generator]] = {
    kind.keyword: kind for kind in (Zipf, Uniform, Evolving, Countries, Election, Burst, Drift)
}
_WORD_AND_COLON = re.compile(r"([A-Za-z][\w-]+)\s*:(?!//)")  # a single letter and a colon is a drive


def open_stream(
    spec: str | Sequence[str], key: str | Sequence[str] | None = None, time: str | None = None
) -> Stream:
    """Open a stream.

    Parameters
    ----------
    spec
        A generator such as ``zipf:z=1.4,keys=1e5``, a file, folder or glob pattern such as
        ``events.parquet#user_id``, or a list of files.
    key
        Key columns of a file, if they are not in the spec.
    time
        Time column of a file, if it is not in the spec.

    Returns
    -------
    Stream
        The stream; ``stream.name`` is its complete spec.

    Examples
    --------
    >>> open_stream("zipf:z=2,keys=1e3,messages=1e6,seed=7").name
    'zipf:z=2,keys=1000,messages=1000000,seed=7'
    """
    if isinstance(spec, list | tuple) and all(isinstance(part, str | os.PathLike) for part in spec):
        return _open_files([os.fspath(part) for part in spec], "", key, time)
    if not isinstance(spec, str | os.PathLike) or not os.fspath(spec):
        raise EvenflowError(
            f"a stream must be given as text, not {spec!r}; write {_example(Zipf)} or data.parquet#column."
        )
    spec = os.fspath(spec)
    word = spec.partition(":")[0].strip().lower()
    if os.path.exists(spec):
        return _open_files(spec, "", key, time)
    if word in GENERATORS:
        if key is not None or time is not None:
            raise EvenflowError(
                f"{word} generates its own keys and times; omit key and time (for times, set rate=)."
            )
        return build(GENERATORS[word], GENERATORS[word], word, spec.partition(":")[2])
    path, _, fragment = spec.rpartition("#") if "#" in spec else (spec, "", "")
    if "://" in path:
        return _open_files(str(locate(path, "data")), fragment, key, time)
    if _WORD_AND_COLON.match(path) and not os.path.exists(path):
        raise EvenflowError(
            f"there is no generator {word!r}; {nearest(word, GENERATORS)} Write {_example(Zipf)}."
        )
    guess = nearest(path, GENERATORS)
    if guess.startswith("did") and not os.path.exists(path):
        raise EvenflowError(f"there is no file and no generator {path!r}; {guess}")
    return _open_files(path, fragment, key, time)


def _example(kind: type[Generator]) -> str:
    return kind().name


def open_table(data: Any, key: str | Sequence[str] | None, time: str | None = None) -> FileStream:
    """Open a frame of pandas, Polars or Arrow as a stream."""
    names = [str(name) for name in (data.column_names if isinstance(data, pa.Table) else data.columns)]
    what = f"this {type(data).__name__}"
    keys = _columns(key, names, time, what)
    for name in [*keys, *([time] if time is not None else [])]:
        if names.count(name) != 1:
            raise EvenflowError(f"{what} has {names.count(name) or 'no'} columns {name!r}; it has {names}.")
    file = table_file(data, list(dict.fromkeys([*keys, *([time] if time is not None else [])])))
    return FileStream(str(file.path), keys, time, [file])


def _open_files(
    path: str | list[str], fragment: str, key: str | Sequence[str] | None, time: str | None
) -> FileStream:
    first = find_files(path)[0]
    names = first.columns()
    column, at, clock = (fragment, "", "") if fragment in names else fragment.rpartition("@")
    if not at:
        column = fragment
    elif time is not None:
        raise EvenflowError(f"the time column is given twice, as {clock!r} and {time!r}; choose one.")
    else:
        time = clock if clock in names else unquote(clock)
    if column and key is not None:
        raise EvenflowError(f"the key is given twice, as {column!r} after # and as {key!r}; choose one.")
    keys = _columns(column or key, names, time, str(path))
    check_columns(first, keys)
    return FileStream(path, keys, time)


def _columns(key: str | Sequence[str] | None, names: list[str], time: str | None, path: str) -> list[str]:
    if isinstance(key, str):
        return [key] if key in names else [unquote(part) for part in key.split("+")]
    if key:
        return list(key)
    choice = [name for name in names if name != time]
    if not choice:
        raise EvenflowError(
            f"{path} has no rows; a stream needs at least one."
            if not names
            else f"{path} has no column besides time column {time!r}; choose a file with a key column."
        )
    if "key" in choice:
        return ["key"]
    if len(choice) == 1:
        return choice
    raise EvenflowError(
        f"{path} has the columns {', '.join(names)}; name the key column, as in {path}#{choice[0]}, "
        f"or several, as in {path}#{choice[0]}+{choice[1]}."
    )
