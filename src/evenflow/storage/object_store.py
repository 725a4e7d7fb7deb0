"""An object store (S3, GCS, Azure) as a storage, by ``obstore``.

Throttling (429, 503), server errors and dropped connections are retried with back-off; every request has a
time limit, and so has the sum of its repetitions. A conditional write whose answer was lost is told from one
that another writer won by reading the object back.
"""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypeVar

from evenflow.extras import require
from evenflow.storage.base import Entry, Storage, StorageError
from evenflow.storage.location import OBJECT_STORES, Location

CLIENT_DEFAULTS = {"timeout": "30s", "connect_timeout": "5s"}
PART_BYTES = 8 << 20  # of a large upload
MAX_RETRIES = 8
RETRY_SECONDS = 60
_CLIENT = (
    "allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "proxy_ca_certificate",
    "proxy_excludes", "pool_idle_timeout", "pool_max_idle_per_host", "timeout", "user_agent",
)  # fmt: skip
_RETRY = ("max_retries", "retry_timeout")
_ATTEMPTS = 4  # at a conditional write without an answer
_PAUSE = 0.2  # seconds, doubled each time
_QUERY = re.compile(r"\?[^\s\"')]*")  # of a URL: it may hold a signature
_ANSWER = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")
_MISSING = ("NoSuchKey", "BlobNotFound")  # said of objects
_SERVER = re.compile(r"https?://[^/\s]+")
_STATUS = re.compile(r"status code: (\d{3}[^:\n]*)")
_METADATA = "http://169.254."  # where machines ask for the credentials of their role
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m)?\s*$")

T = TypeVar("T")


class ObjectStore(Storage):
    """Objects of a bucket below a prefix."""

    def __init__(self, location: Location):
        super().__init__(location)
        require("obstore", "state", f"{location.scheme}://")
        import obstore
        from obstore.exceptions import BaseError

        self._obstore = obstore
        config, client, retry = split_options(location.options)
        try:
            self._store: Any = obstore.store.from_url(  # type: ignore[call-overload]
                location.url, config=config or None, client_options=client, retry_config=retry
            )
        except (BaseError, ValueError) as error:
            raise self._failed("open", "", error) from None

    def put(self, name: str, content: bytes) -> None:
        """Write an object; a large one in several parts."""
        self.call("write", name, lambda: self._obstore.put(self._store, name, content))

    def open_sink(self, name: str) -> Any:
        """Return an upload: in one request if it is small, otherwise in several parts."""
        return _Sink(self, name)

    def open_upload(self, name: str) -> Any:
        """Start an upload in several parts."""
        return self.call("write", name, lambda: self._obstore.open_writer(self._store, name))

    def create(self, name: str, content: bytes) -> bool:
        """Write an object if there is none (``If-None-Match``)."""
        return self._conditionally(name, content, "create") is not None

    def swap(self, name: str, content: bytes, version: str | None) -> str | None:
        """Replace an object of a version (``If-Match``)."""
        return self._conditionally(name, content, "create" if version is None else {"e_tag": version})

    def _conditionally(self, name: str, content: bytes, mode: Any) -> str | None:
        """Write on a condition; return the version, or None if the condition does not hold."""
        from obstore.exceptions import AlreadyExistsError, GenericError, NotFoundError, PreconditionError

        pause = _PAUSE
        for attempt in range(_ATTEMPTS):
            self.requests += 1
            try:
                written = self._obstore.put(self._store, name, content, mode=mode, use_multipart=False)
                return str(written["e_tag"])
            except (AlreadyExistsError, PreconditionError, NotFoundError, FileNotFoundError):
                return self._own(name, content)
            except GenericError as error:  # the answer may be lost
                own = self._own(name, content)
                if own is not None:
                    return own
                if attempt == _ATTEMPTS - 1:
                    raise self._failed("write", name, error) from None
            except Exception as error:
                raise self._failed("write", name, error) from None
            time.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")

    def _own(self, name: str, content: bytes) -> str | None:
        """Return the version of an object if it has this content."""
        try:
            found, version = self.read_version(name)
        except FileNotFoundError:
            return None
        return version if found == content else None

    def read(self, name: str) -> bytes:
        """Read an object."""
        return self.call("read", name, lambda: bytes(self._obstore.get(self._store, name).bytes()))

    def read_version(self, name: str) -> tuple[bytes, str]:
        """Read an object with its entity tag."""

        def read() -> tuple[bytes, str]:
            found = self._obstore.get(self._store, name)
            return bytes(found.bytes()), str(found.meta["e_tag"])

        return self.call("read", name, read)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Read a part of an object."""

        def read() -> bytes:
            return bytes(self._obstore.get_range(self._store, name, start=start, length=length))

        return self.call("read", name, read)

    def size(self, name: str) -> int:
        """Ask for the size of an object."""
        return self.call("read", name, lambda: int(self._obstore.head(self._store, name)["size"]))

    def entries(self, below: str = "") -> list[Entry]:
        """List objects, a page of a thousand per request."""

        def listed() -> list[Entry]:
            found = []
            for page in self._obstore.list(self._store, prefix=below or None):
                for meta in page:
                    found.append(Entry(meta["path"], meta["size"], meta["last_modified"].timestamp()))
            return sorted(found)

        return self.call("list", below, listed)

    def is_empty(self, below: str = "") -> bool:
        """Ask for one object."""

        def first() -> bool:
            return not next(iter(self._obstore.list(self._store, prefix=below or None, chunk_size=1)), [])

        return self.call("list", below, first)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects, many per request."""
        chosen = list(names)
        if chosen:
            try:
                self.call("delete", chosen[0], lambda: self._obstore.delete(self._store, chosen))
            except FileNotFoundError:  # some stores say so
                if len(chosen) > 1:
                    for name in chosen:
                        self.delete([name])

    def call(self, verb: str, name: str, call: Callable[[], T]) -> T:
        """Make a request; its failure is one sentence."""
        from obstore.exceptions import NotFoundError

        self.requests += 1
        try:
            return call()
        except (FileNotFoundError, NotFoundError) as error:
            answer = _ANSWER.search(str(error))
            if verb == "write" or (answer is not None and answer[1] not in _MISSING):  # such as the bucket
                raise self._failed(verb, name, error) from None
            raise FileNotFoundError(f"there is no {self.location / name}") from None
        except Exception as error:
            raise self._failed(verb, name, error) from None

    def _failed(self, verb: str, name: str, error: BaseException) -> StorageError:
        """Return the error of a request: what the store said, without secrets."""
        place, said = self.location / name if name else self.location, explained(error, self.location)
        return StorageError(
            f"cannot {verb} {place} ({said}); check that the bucket exists, that its "
            f"endpoint and credentials are set for this process ({_settings(self.location)}), and try again."
        )


class _Sink:
    """The parts of an upload; nothing is there before it is closed."""

    def __init__(self, store: ObjectStore, name: str):
        self.store, self.name = store, name
        self.waiting = io.BytesIO()
        self.upload: Any = None
        self.sent = 0
        self.closed = False

    def write(self, content: Any) -> int:
        """Add bytes."""
        written = self.waiting.write(content)
        if self.waiting.tell() >= PART_BYTES:
            if self.upload is None:
                self.upload = self.store.open_upload(self.name)
            self._send()
        return written

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.sent + self.waiting.tell()

    def flush(self) -> None:
        """Do nothing before a part is full."""

    def abort(self) -> None:
        """Give up; the store forgets parts of uploads that are never finished by the rules of its bucket."""
        self.closed = True

    def _send(self) -> None:
        content, self.waiting = self.waiting.getvalue(), io.BytesIO()
        self.sent += len(content)
        self.store.call("write", self.name, lambda: self.upload.write(content))

    def close(self) -> None:
        """Finish the upload."""
        if self.closed:
            return
        self.closed = True
        if self.upload is None:
            self.store.put(self.name, self.waiting.getvalue())
            return
        self._send()
        self.store.call("write", self.name, self.upload.close)


def _settings(location: Location) -> str:
    kind = OBJECT_STORES[location.scheme]
    names = {"S3": "AWS_...", "GCS": "GOOGLE_...", "Azure": "AZURE_..."}
    return f"storage options or the environment, {names[kind]}"


def explained(error: BaseException, location: Location) -> str:
    """Return what a store, or the library that asked it, said: a clause without secrets.

    >>> place = Location("s3://b/c")
    >>> answer = "<Error><Code>NoSuchBucket</Code><Message>The bucket does not exist.</Message></Error>"
    >>> explained(OSError(f"Error performing PUT http://h/b?x=1 in 2ms - 404: {answer}"), place)
    'NoSuchBucket: The bucket does not exist'
    >>> explained(OSError("Error performing PUT http://h:1/b/c - HTTP error: error sending request"), place)
    'no answer from http://h:1'
    >>> explained(OSError("PUT http://h:1/b - Server returned non-2xx status code: 404 Not Found"), place)
    'http://h:1 answered 404 Not Found'
    """
    text = str(error)
    answer, server, status = _ANSWER.search(text), _SERVER.search(text), _STATUS.search(text)
    if answer is not None:
        said = f"{answer[1]}: {answer[2]}"
    elif _METADATA in text:
        said = "there are no credentials, and this machine has no role that it could ask for some"
    elif server is not None and "error sending request" in text:
        said = f"no answer from {server[0]}"
    elif server is not None and "builder error" in text:
        said = f"{server[0]} is no address to ask; if the server has no TLS, set AWS_ALLOW_HTTP=true"
    elif server is not None and status is not None:  # no store, such as a proxy
        said = f"{server[0]} answered {status[1].strip()}"
    else:
        lines = text.partition("Debug source")[0].splitlines()
        said = " ".join(line.strip(" \u21b3") for line in lines).strip() or type(error).__name__
    return without_secrets(said, location)[:300].rstrip(". ")


def without_secrets(text: str, location: Location) -> str:
    """Return a text without the values of storage options and without the queries of URLs.

    >>> place = Location("s3://b/c", {"aws_secret_access_key": "hidden", "aws_region": "eu-west-1"})
    >>> without_secrets("PUT http://h/b?sig=1 with hidden in eu-west-1", place)
    'PUT http://h/b?... with *** in eu-west-1'
    """
    for name, value in location.options.items():
        if value and not re.search(r"region|endpoint|timeout|retries|allow|bucket|url", name.lower()):
            text = text.replace(str(value), "***")
    return _QUERY.sub("?...", text)


def split_options(options: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return storage options as those of the store, of its client and of its retries."""
    config, client, retry = {}, dict[str, Any](CLIENT_DEFAULTS), dict[str, Any]()
    if "AWS_ALLOW_HTTP" in os.environ:  # obstore looks for it only if there are no options of the client
        client["allow_http"] = os.environ["AWS_ALLOW_HTTP"]
    for name, value in options.items():
        key = name.lower()
        if key in _RETRY:
            retry[key] = value
        elif key in _CLIENT:
            client[key] = value
        elif key == "aws_allow_http":
            client["allow_http"] = value
        else:
            config[name] = value
    seconds = seconds_of(str(retry.get("retry_timeout", RETRY_SECONDS)))
    return config, client, {
        "max_retries": int(retry.get("max_retries", MAX_RETRIES)),
        "retry_timeout": timedelta(seconds=seconds),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2,
        },
    }  # fmt: skip


def seconds_of(text: str) -> float:
    """Return a duration such as "30s" in seconds.

    >>> seconds_of("30s"), seconds_of("500ms"), seconds_of("2m")
    (30.0, 0.5, 120.0)
    """
    found = _DURATION.match(text)
    if found is None:
        raise StorageError(f"the storage option retry_timeout is {text!r}; pass a duration such as 30s.")
    return float(found[1]) * {"ms": 0.001, "m": 60.0}.get(found[2] or "s", 1.0)
