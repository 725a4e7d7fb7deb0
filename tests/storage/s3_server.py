"""S3 servers on loopback: moto in a thread of this process, and versitygw as a process of its own."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from uuid import uuid4

from evenflow.storage import Location

ACCESS, SECRET = "tester-access", "tester-secret-do-not-print"
Answer = Iterable[bytes]
Fault = Callable[["Request"], "Answer | None"]  # what is answered instead of the request's own answer


class Request:
    """One request to the server, with its environment of WSGI."""

    def __init__(self, app: Any, environ: dict[str, Any], start: Any):
        self.app, self.environ, self.start = app, environ, start
        self.method: str = environ["REQUEST_METHOD"]
        self.path: str = environ["PATH_INFO"]
        self.query: str = environ.get("QUERY_STRING", "")

    def run(self) -> Answer:
        """Let the server do what was asked for."""
        return self.app(self.environ, self.start)

    def error(self, status: str) -> Answer:
        """Answer with an error, without doing anything."""
        length = int(self.environ.get("CONTENT_LENGTH") or 0)
        self.environ["wsgi.input"].read(length)
        self.start(status, [("Content-Type", "application/xml")])
        return [b"<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>"]

    def done_but_lost(self) -> Answer:
        """Do what was asked for, and cut the connection instead of answering."""
        for _ in self.app(self.environ, lambda *_: None):
            pass
        self.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return []


class S3Server:
    """An S3 server with a bucket for each test; requests are counted, and may fail."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.requests: list[tuple[str, str]] = []  # method and path
        self.fault: Fault | None = None
        self._lock = Lock()

    def __call__(self, app: Any) -> Any:
        """Return the application with requests counted."""

        def wrapped(environ: dict[str, Any], start: Any) -> Answer:
            request = Request(app, environ, start)
            with self._lock:
                self.requests.append((request.method, f"{request.path}?{request.query}".rstrip("?")))
                fault = self.fault
            answer = None if fault is None else fault(request)
            if answer is not None:
                return answer
            with self._lock:  # moto checks conditions and writes in two steps
                return list(request.run())

        return wrapped

    @property
    def options(self) -> dict[str, str]:
        """Storage options for this server."""
        return {
            "aws_endpoint": self.endpoint, "aws_region": "us-east-1", "aws_access_key_id": ACCESS,
            "aws_secret_access_key": SECRET, "aws_allow_http": "true",
        }  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables of the environment."""
        return {name.upper(): value for name, value in self.options.items()}

    def bucket(self) -> Location:
        """Return a new bucket."""
        name = f"bucket-{uuid4().hex[:12]}"
        self._make(name)
        return Location(f"s3://{name}/below", self.options)

    def _make(self, bucket: str) -> None:
        import boto3

        client = boto3.client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-1", aws_access_key_id=ACCESS,
            aws_secret_access_key=SECRET,
        )  # fmt: skip
        client.create_bucket(Bucket=bucket)


@contextmanager
def ranges_read(server: S3Server) -> Iterator[list[int]]:
    """Collect the bytes of each request for a part of an object, in this process's server."""
    lengths = list[int]()

    def note(request: Request) -> None:
        if asked := request.environ.get("HTTP_RANGE"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            lengths.append(int(last) - int(first) + 1)

    server.fault = note
    try:
        yield lengths
    finally:
        server.fault = None


@contextmanager
def moto_server() -> Iterator[S3Server]:
    """Run moto in a thread."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = S3Server()
    app = server(DomainDispatcherApplication(create_backend_app))
    running = make_server("127.0.0.1", 0, app, threaded=True)
    server.endpoint = f"http://127.0.0.1:{running.server_port}"
    thread = Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def versitygw() -> str | None:
    """Return the command, if it is installed: ``make faults`` does so where there is Go."""
    beside = Path(".cache/bin/versitygw").absolute()
    return os.environ.get("VERSITYGW") or (str(beside) if beside.exists() else shutil.which("versitygw"))


@contextmanager
def versity_server(command: str) -> Iterator[S3Server]:
    """Run versitygw over a temporary folder."""
    server = S3Server()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        root, data = Path(folder) / "objects", Path(folder) / "attributes"
        root.mkdir()
        data.mkdir()
        meta = [] if _has_attributes(root) else ["--sidecar", str(data)]
        process = subprocess.Popen(
            [command, "--port", f"127.0.0.1:{port}", "posix", *meta, str(root)],
            env={**os.environ, "ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        server.endpoint = f"http://127.0.0.1:{port}"
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield server
        finally:
            process.terminate()
            process.wait()


def _has_attributes(folder: Path) -> bool:
    """Return whether the file system keeps extended attributes, where versitygw stores entity tags."""
    try:
        os.setxattr(folder, "user.test", b"1")
    except OSError:
        return False
    return True
