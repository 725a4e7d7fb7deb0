"""The queries that a dashboard shows: the operators of every path that it watches."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenflow.history.query import QueryHistory
from evenflow.history.watch import Watched

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Query:
    """One operator, under an id for addresses."""

    id: str
    history: QueryHistory
    watched: Watched


class Queries:
    """Everything that is watched; ``poll`` reads what is new, ``revision`` grows when there was anything."""

    def __init__(self, paths: Sequence[str | Path]):
        self.watched: list[Watched] = []
        for path in paths:
            self.watch(path)
        self.revision = 0
        self._lock = threading.RLock()

    def watch(self, path: str | Path, name: str | None = None) -> None:
        """Watch another path."""
        found = Watched(path, name)
        names = {other.name for other in self.watched}
        number = 2
        base = found.name
        while found.name in names:
            found.name = f"{base} {number}"
            number += 1
        self.watched.append(found)

    def poll(self) -> bool:
        """Read what was added to the logs; return whether there was anything."""
        with self._lock:
            changed = [watched.poll() for watched in list(self.watched)]
            self.revision += any(changed)
        return any(changed)

    def all(self) -> list[Query]:
        """Return the queries, in the order of the paths and of their first batches."""
        with self._lock:
            return [
                Query(_identifier(f"{watched.name}-{history.operator}"), history, watched)
                for watched in self.watched
                for history in watched.histories()
            ]

    def find(self, identifier: str) -> Query | None:
        """Return a query by its id."""
        return next((query for query in self.all() if query.id == identifier), None)

    def summaries(self) -> list[dict[str, Any]]:
        """Return the id and the numbers of the last batch of each query."""
        with self._lock:
            return [{"id": query.id, "summary": query.history.summary()} for query in self.all()]

    def snapshot(self, query: Query) -> dict[str, Any]:
        """Return everything that the page shows of a query."""
        with self._lock:
            return {
                **query.history.snapshot(),
                "explain": query.watched.explain(query.history),
                "steerable": query.history.kind == "state" and query.watched.state is not None,
            }

    @contextlib.contextmanager
    def followed(self, seconds: float = POLL_SECONDS) -> Iterator[Queries]:
        """Poll in the background."""
        stop = threading.Event()

        def follow() -> None:
            while not stop.is_set():
                self.poll()
                stop.wait(seconds)

        thread = threading.Thread(target=follow, name="evenflow-dashboard", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()
            for watched in self.watched:
                watched.close()


def _identifier(text: str) -> str:
    """Return a text as part of an address.

    >>> _identifier("my state/1-fill-ab12")
    'my-state-1-fill-ab12'
    """
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.") or "query"
