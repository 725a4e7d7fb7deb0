"""The one spelling of a stream, on the command line, in files and in code.

* a generator: ``zipf:z=1.4,keys=1e5,messages=1e7,seed=1``; what is left out has its default; ``zipf`` alone
  is fine;
* a file, folder or pattern: ``path.parquet#column``; several columns: ``path#a+b``; a time column:
  ``path#a@ts`` or ``path#@ts``.

After the ``#`` a name that the file has is taken as it is; otherwise ``%2B``, ``%40``, ``%23`` and ``%25``
stand for the signs + @ # % inside a name. Without a column the key is the column named ``key``, or the only
one there is. What exists as a file is a file, whatever it is called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import unquote

from evenflow.errors import EvenflowError, nearest
from evenflow.spec import build
from evenflow.streams.base import Stream
from evenflow.streams.countries import Countries
from evenflow.streams.election import Election
from evenflow.streams.evolving import Evolving
from evenflow.streams.files import FileStream, check_columns, find_files
from evenflow.streams.generator import Generator
from evenflow.streams.moving import Burst, Drift
from evenflow.streams.zipf import Uniform, Zipf

GENERATORS: dict[str, type[Generator]] = {
    kind.keyword: kind for kind in (Zipf, Uniform, Evolving, Countries, Election, Burst, Drift)
}
_WORD_AND_COLON = re.compile(r"([A-Za-z][\w-]+)\s*:(?!//)")  # one letter and a colon is a drive


def open_stream(spec: str, key: str | Sequence[str] | None = None, time: str | None = None) -> Stream:
    """Return the stream that ``spec`` spells; ``key`` and ``time`` name columns of a file that has them.

    >>> open_stream("zipf:z=2,keys=1e3,messages=1e6,seed=7").name
    'zipf:z=2,keys=1000,messages=1000000,seed=7'
    """
    if not isinstance(spec, str | os.PathLike) or not os.fspath(spec):
        raise EvenflowError(
            f"a stream is spelled as text, not {spec!r}; write {_example(Zipf)} or data.parquet#column."
        )
    spec = os.fspath(spec)
    word = spec.partition(":")[0].strip().lower()
    if os.path.exists(spec):
        return _open_files(spec, "", key, time)
    if word in GENERATORS:
        if key is not None or time is not None:
            raise EvenflowError(
                f"{word} makes its own keys and times; leave out key and time (there is rate=)."
            )
        return build(GENERATORS[word], GENERATORS[word], word, spec.partition(":")[2])
    path, _, fragment = spec.rpartition("#") if "#" in spec else (spec, "", "")
    if "://" in path:
        raise EvenflowError(
            f"{path} is not on this machine; evenflow reads local files, so copy it here first."
        )
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


def _open_files(path: str, fragment: str, key: str | Sequence[str] | None, time: str | None) -> FileStream:
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
    keys = _columns(column or key, names, time, path)
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
            f"{path} has no rows and no columns." if not names else f"{path} has only its time column."
        )
    if "key" in choice:
        return ["key"]
    if len(choice) == 1:
        return choice
    raise EvenflowError(
        f"{path} has the columns {', '.join(names)}; say which is the key, as in {path}#{choice[0]} "
        f"or, of several, {path}#{choice[0]}+{choice[1]}."
    )
