"""A proxy on loopback between us and an S3 server, which fails as stores and networks do.

It passes requests on as they are (the signature covers the server's own name, which it keeps), and a fault
decides about each one: answer 503, hang, cut the upload in the middle, lose the answer of a request that was
done, or show an older listing.
"""

from __future__ import annotations

import http.client
import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from evenflow.storage import Location
from storage.s3_server import S3Server

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>"
HANG_SECONDS = 2.0  # longer than the time limits of the tests


@dataclass(frozen=True)
class Passing:
    """A request on its way."""

    method: str
    path: str  # with its query

    @property
    def is_listing(self) -> bool:
        """Whether objects are listed."""
        return self.method == "GET" and "list-type=2" in self.path


Fault = Callable[[Passing], str | None]  # "503", "hang", "cut", "lose" or "lag"


class Proxy(S3Server):
    """A server that passes on to another one."""

    def __init__(self, behind: S3Server):
        super().__init__()
        self.behind = behind
        self.decide: Fault | None = None
        self.done: dict[str, int] = {}  # faults that happened
        self.ending = Event()
        self._listings: dict[str, Any] = {}
        self._guard = Lock()

    def bucket(self) -> Location:
        """Return a new bucket of the server behind, reached through this one."""
        return Location(self.behind.bucket(), self.options)

    def fault_of(self, passing: Passing) -> str | None:
        """Return what is to happen to a request."""
        with self._guard:
            self.requests.append((passing.method, passing.path))
            fault = None if self.decide is None else self.decide(passing)
            if fault is not None:
                self.done[fault] = self.done.get(fault, 0) + 1
            return fault

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        """Pass a request on; return status, headers and body of the answer."""
        target = urlsplit(self.behind.endpoint)
        connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOPS]
            return answer.status, kept, answer.read()
        finally:
            connection.close()

    def older(self, path: str, answer: Any) -> Any:
        """Return the listing that was shown before, if there was one."""
        with self._guard:
            return self._listings.setdefault(path, answer)

    def listed(self, path: str, answer: Any) -> None:
        """Remember a listing."""
        with self._guard:
            self._listings[path] = answer


_HOPS = ("transfer-encoding", "connection", "content-length", "date", "server")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _pass(self) -> None:
        proxy, passing = self.proxy, Passing(self.command, self.path)
        fault = proxy.fault_of(passing)
        length = int(self.headers.get("Content-Length") or 0)
        if fault == "cut":
            self.rfile.read(length // 2)
            self._hang_up()
            return
        body = self.rfile.read(length)
        if fault == "hang":
            proxy.ending.wait(HANG_SECONDS)
            self._hang_up()
            return
        if fault == "503":
            self._answer(503, [("Content-Type", "application/xml")], SLOW_DOWN)
            return
        answer = proxy.ask(self.command, self.path, dict(self.headers.items()), body)
        if fault == "lose":
            self._hang_up()
            return
        if passing.is_listing:
            answer = proxy.older(self.path, answer) if fault == "lag" else answer
            proxy.listed(self.path, answer)
        self._answer(*answer)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815 - names of the base class

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Print nothing: clients that give up are part of the tests."""


@contextmanager
def proxy_before(server: S3Server) -> Iterator[Proxy]:
    """Run a proxy before a server."""
    proxy = Proxy(server)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    running = _Server(("127.0.0.1", 0), handler)
    proxy.endpoint = f"http://127.0.0.1:{running.server_port}"
    thread = Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.ending.set()
        running.shutdown()
        running.server_close()
        thread.join()


def at_random(
    fault: str, share: float, seed: int = 1, where: Callable[[Passing], bool] | None = None
) -> Fault:
    """Return a fault that hits a share of the requests, by chance."""
    chance = random.Random(seed)

    def decide(passing: Passing) -> str | None:
        hit = chance.random() < share
        return fault if hit and (where is None or where(passing)) else None

    return decide
