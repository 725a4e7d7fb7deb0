"""Reading Spark's checkpoint of a query: the query's id, the next batch, and digests of batches.

Spark writes ``metadata`` (the id) once, ``offsets/N`` before batch N runs and ``commits/N`` after it; a batch
that is in ``offsets`` but not in ``commits`` is replayed with the same rows. A local checkpoint is read as
files, any other through Spark's readers, which support its file system, also on Spark Connect.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from evenflow.control.directory import local_path
from evenflow.errors import first_line

ABSENT = ""  # the digest of a batch that is not in the checkpoint
_NOT_FOUND = "PATH_NOT_FOUND"


class UnreadableCheckpoint(Exception):  # noqa: N818 - not an error: the query continues with fewer checks
    """The checkpoint may exist but cannot be read."""


class Checkpoint:
    """One checkpoint location, as Spark would resolve it."""

    def __init__(self, location: str, spark: SparkSession):
        self.location = location.rstrip("/")
        self.spark = spark

    @property
    def is_local(self) -> bool:
        """Whether it is read as local files."""
        return self._folder() is not None

    def query(self) -> str | None:
        """Return the id of the query; None if Spark has not assigned one yet."""
        text = self._text("metadata")
        if text is None:
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableCheckpoint(f"{self.location}/metadata contains no id: {error}") from error

    def next_batch(self) -> int:
        """Return the batch that Spark will run next."""
        started, finished = (max(self._numbers(name), default=None) for name in ("offsets", "commits"))
        if started is None:
            return 0
        return started + 1 if started == finished else started

    def digest(self, batch: int) -> str:
        """Return a digest of a batch's offsets file: the end of its rows, and its time."""
        text = self._text(f"offsets/{batch}")
        if text is None:
            return ABSENT
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def _folder(self) -> Path | None:
        """Return the local directory; None if there is none, or it has to be read through Spark."""
        if self.location.startswith("file:"):
            return local_path(self.location)
        if "://" in self.location:
            return None
        folder = Path(self.location)
        return (
            folder if folder.is_dir() else None
        )  # a path without a scheme may be on Spark's default file system

    def _text(self, name: str) -> str | None:
        """Return the content of a file; None if it does not exist."""
        folder = self._folder()
        if folder is not None:
            try:
                return (folder / name).read_text()
            except FileNotFoundError:
                return None
            except (OSError, UnicodeDecodeError) as error:
                raise UnreadableCheckpoint(f"{self.location}/{name}: {error}") from error
        try:
            rows = self.spark.read.text(f"{self.location}/{name}", wholetext=True).collect()
        except PySparkException as error:
            self._check_absent(name, error)
            return None
        return str(rows[0][0]) if rows else ""

    def _numbers(self, name: str) -> list[int]:
        """Return the batches that have a file in a directory."""
        folder = self._folder()
        if folder is not None:
            try:
                return _digits(path.name for path in (folder / name).iterdir())
            except FileNotFoundError:
                return []
            except OSError as error:
                raise UnreadableCheckpoint(f"{self.location}/{name}: {error}") from error
        try:
            files = self.spark.read.format("binaryFile").load(f"{self.location}/{name}")
            return _digits(row["path"].rpartition("/")[2] for row in files.select("path").collect())
        except PySparkException as error:
            self._check_absent(name, error)
            return []

    def _check_absent(self, name: str, error: PySparkException) -> None:
        """Raise unless the error means that the path does not exist."""
        if not isinstance(error, AnalysisException) or error.getCondition() != _NOT_FOUND:
            raise UnreadableCheckpoint(f"{self.location}/{name}: {first_line(error)}") from error


def _digits(names: Iterable[str]) -> list[int]:
    return [int(name) for name in names if name.isdigit()]
