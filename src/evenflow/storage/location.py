"""A location: a local path or the URL of an object store, with the settings to reach it."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from evenflow.errors import EvenflowError

OBJECT_STORES = {"s3": "S3", "s3a": "S3", "gs": "GCS", "az": "Azure", "abfs": "Azure", "abfss": "Azure"}
_FILE_SCHEME = "file:"
_KNOWN = "a local path, file://, s3://, gs://, az:// or abfss://"


class Location(str):
    """A path or URL as text, with storage options that its text does not show.

    Options are those of ``deltalake`` and ``obstore``, such as ``{"aws_endpoint": "..."}``. Without any, the
    environment (``AWS_...``, ``GOOGLE_...``, ``AZURE_...``) and the machine's own role are used. Options
    reach Spark's tasks inside of the code that is sent there, never in the text of a plan, log or error.

    >>> place = Location("s3://bucket/control", {"aws_secret_access_key": "hidden"})
    >>> place / "planned", place.scheme, place.name
    (Location('s3://bucket/control/planned'), 's3', 'control')
    """

    options: dict[str, str]

    def __new__(cls, url: str | Path, storage_options: Mapping[str, str] | None = None) -> Location:
        """Return a location."""
        made = super().__new__(cls, url)
        known = url.options if isinstance(url, Location) else {}
        made.options = {**known, **(storage_options or {})}
        return made

    def __getnewargs__(self) -> tuple[str, dict[str, str]]:  # type: ignore[override]
        return str.__str__(self), self.options

    def __str__(self) -> str:
        return str.__str__(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str.__repr__(self)})"

    def __truediv__(self, name: str) -> Location:
        """Return the location of a name below this one."""
        return Location(f"{self.rstrip('/')}/{name}", self.options)

    @property
    def scheme(self) -> str:
        """The scheme of the URL; "file" for a local path."""
        head, mark, _ = self.partition("://")
        return head.lower() if mark else "file"

    @property
    def is_local(self) -> bool:
        """Whether it is a local path."""
        return self.scheme == "file"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.rstrip("/"))

    @property
    def parent(self) -> Location:
        """The location above."""
        return Location(posixpath.dirname(self.rstrip("/")), self.options)

    @property
    def url(self) -> str:
        """The URL as libraries read it, which decode what is escaped; a local path as it is.

        >>> Location("s3://bucket/time=10%3A00").url
        's3://bucket/time%3D10%253A00'
        """
        if self.is_local:
            return str(self)
        head, _, path = self.partition("://")[2].partition("/")
        return f"{self.scheme}://{head}/{quote(path)}"

    @property
    def path(self) -> Path:
        """The local path."""
        if not self.is_local:
            raise EvenflowError(f"{self} is not a local path; use a folder.")
        return Path(self)


def locate(place: str | Path, argument: str = "control") -> Location:
    """Return a path or URL as a location; local ones are absolute.

    >>> locate("file:///data/control"), locate("s3a://bucket/x/")
    (Location('/data/control'), Location('s3a://bucket/x'))
    """
    options = place.options if isinstance(place, Location) else {}
    text = str(place)
    if not text:
        raise EvenflowError(f"{argument} is empty; pass the path of a folder or the URL of an object store.")
    if text.startswith(_FILE_SCHEME):
        text = "/" + text.removeprefix(_FILE_SCHEME).lstrip("/")
    scheme, mark, rest = text.partition("://")
    if not mark:
        return Location(os.path.abspath(text), options)
    if scheme.lower() not in OBJECT_STORES:
        works = f"use {_KNOWN}"
        if scheme.lower() in ("hdfs", "viewfs", "dbfs"):
            works = f"{scheme} is not supported; mount it and pass the path, or use {_KNOWN}"
        raise EvenflowError(f"{argument} is {text!r}; {works}.")
    if not rest.strip("/"):
        raise EvenflowError(f"{argument} is {text!r}, which names no bucket; pass {scheme}://BUCKET/PATH.")
    return Location(f"{scheme.lower()}://{rest.strip('/')}", options)
