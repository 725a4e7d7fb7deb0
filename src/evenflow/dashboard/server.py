"""The web server of the dashboard: the page, its data as JSON, server-sent events, and guarded actions."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from evenflow.charts.assets import as_json
from evenflow.dashboard.page import live_page, saved_page, static_files
from evenflow.dashboard.queries import Queries, Query
from evenflow.errors import EvenflowError
from evenflow.extras import require
from evenflow.history.events import without_paths
from evenflow.storage import open_storage

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_CHECK_SECONDS = 0.2
_HEARTBEAT_SECONDS = 15.0
_MAX_BODY = 1000  # bytes of a request for an action
_EVERYWHERE = ("0.0.0.0", "::")


class Dashboard:
    """The application, and the server that it runs on."""

    def __init__(self, queries: Queries, host: str = "127.0.0.1", port: int = 8700, token: str | None = None):
        self.queries = queries
        self.host = host
        self.port = port
        self.token = token  # of actions; without one there are none
        self._stopping = threading.Event()

    @property
    def url(self) -> str:
        """Address of the page."""
        shown = "127.0.0.1" if self.host in _EVERYWHERE else self.host
        shown = f"[{shown}]" if ":" in shown else shown
        return f"http://{shown}:{self.port}/"

    @property
    def app(self) -> Starlette:
        """The application."""
        allowed = ["*"] if self.host in _EVERYWHERE else ["127.0.0.1", "localhost", "[::1]", self.host]
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/static/{name}", self._static),
                Route("/queries.json", self._list),
                Route("/queries/{id}.json", self._query),
                Route("/queries/{id}/{action}", self._act, methods=["POST"]),
                Route("/events", self._events),
                Route("/save", self._save),
            ],
            # a page of another site that resolves its name to this address is refused
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=allowed)],
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[Dashboard]:
        """Serve in the background until the context ends."""
        listener = self._listen()
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self.app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, server_header=False
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="evenflow-server", daemon=True)
        with self.queries.followed():
            thread.start()
            try:
                yield self
            finally:
                self._stopping.set()
                server.should_exit = True
                thread.join(10)
                listener.close()

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
            listener.listen()  # whoever connects before the server is up waits
        except (OSError, OverflowError) as error:
            listener.close()
            raise EvenflowError(
                f"cannot listen on {self.host} port {self.port} ({error}); use another --port, or 0 for a "
                "free one."
            ) from None
        return listener

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(live_page(self.token is not None), headers=_HEADERS)

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        text = static_files().get(name)
        if text is None:
            return Response("not found", 404, headers=_HEADERS)
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return Response(text, media_type=kind, headers=_HEADERS)

    async def _list(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(lambda: as_json(self.queries.summaries())))

    async def _query(self, request: Request) -> Response:
        query = self.queries.find(request.path_params["id"])
        if query is None:
            return JSONResponse({"message": "there is no such query"}, 404, headers=_HEADERS)
        return _json(await asyncio.to_thread(lambda: as_json(self.queries.snapshot(query))))

    async def _save(self, request: Request) -> Response:
        page = await asyncio.to_thread(saved_page, self.queries)
        kept = {**_HEADERS, "Content-Disposition": 'attachment; filename="evenflow.html"'}
        return HTMLResponse(page, headers=kept)

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._changes(request), media_type="text/event-stream", headers=_HEADERS)

    async def _changes(self, request: Request) -> AsyncIterator[str]:
        """Yield an event whenever something was added to a log."""
        told, quiet = -1, 0.0
        while not self._stopping.is_set() and not await request.is_disconnected():
            if self.queries.revision != told:
                told, quiet = self.queries.revision, 0.0
                yield f"data: {told}\n\n"
            elif quiet >= _HEARTBEAT_SECONDS:
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(_CHECK_SECONDS)
            quiet += _CHECK_SECONDS

    async def _act(self, request: Request) -> Response:
        refused = self._refusal(request)
        if refused is not None:
            return JSONResponse({"message": refused}, 403, headers=_HEADERS)
        query = self.queries.find(request.path_params["id"])
        if query is None:
            return JSONResponse({"message": "there is no such query"}, 404, headers=_HEADERS)
        try:
            body = await _body(request)
            message = await asyncio.to_thread(act, query, request.path_params["action"], body)
        except EvenflowError as error:
            return JSONResponse({"message": without_paths(error)}, 400, headers=_HEADERS)
        return JSONResponse({"message": message}, headers=_HEADERS)

    def _refusal(self, request: Request) -> str | None:
        """Return why a request may not act; None if it may."""
        if self.token is None:
            return "this dashboard only shows; start it with --allow-actions to steer queries"
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "the token is wrong; the command printed it when it started"
        return None


def _json(text: str) -> Response:
    return Response(text, media_type="application/json", headers=_HEADERS)


async def _body(request: Request) -> dict[str, Any]:
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _MAX_BODY:
            raise EvenflowError("the request is too long; send the number of workers alone.")
    try:
        body = json.loads(content or b"{}")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise EvenflowError('the request is not a JSON object; send one such as {"workers": 8}.')
    return body


def act(query: Query, action: str, body: dict[str, Any]) -> str:
    """Ask a stateful query for something; return what will happen."""
    root, control = query.watched.state, query.watched.control
    if query.history.kind != "state" or root is None or control is None:
        raise EvenflowError("only a stateful query can be steered; pass the path of its state.")
    require("pyspark", "spark", "steering a query")
    require("deltalake", "state", "steering a query")
    from evenflow.spark.state.requests import request_rebalance, request_rescale

    if action == "rescale":
        request_rescale(open_storage(root), control, body.get("workers"))  # type: ignore[arg-type]
        return f"{body['workers']} workers from the next batch on"
    if action == "rebalance":
        request_rebalance(open_storage(root), control)
        return "the keys are balanced anew before the next batch"
    raise EvenflowError(f"there is no action {action!r}; use rescale or rebalance.")


def new_token() -> str:
    """Return a token for actions."""
    return secrets.token_urlsafe(24)
