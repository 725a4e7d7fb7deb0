"""A path that is watched: a control directory, a state, or the checkpoint of ``evenflow run``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenflow.control.directory import DECISIONS, HISTORY, LOG, PLANS, ROTATED_LOG, Control, local_path
from evenflow.errors import EvenflowError
from evenflow.history.events import without_paths
from evenflow.history.query import QueryHistory
from evenflow.history.tail import Tail
from evenflow.plan import Plan

STATE_CONTROL = "_evenflow"  # the control directory inside a state
RUN_CONTROL = "control"  # the one inside a checkpoint of `evenflow run`
_FILES = (LOG, ROTATED_LOG, HISTORY)


class Watched:
    """Everything that is known of the operators that share a control directory.

    >>> import tempfile
    >>> control = Control(tempfile.mkdtemp())
    >>> watched = Watched(control.folder)
    >>> control.note("batch", operator="fill-1", batch=0, rows=[3, 1], keys=2, pairs=2)
    >>> watched.poll()
    True
    >>> [history.summary()["max_over_mean"] for history in watched.histories()]
    [1.5]
    """

    def __init__(self, path: str | Path, name: str | None = None):
        self.path = local_path(path, "path")
        if not self.path.is_dir():
            raise EvenflowError(
                f"there is no folder at {self.path}; pass the control directory or the state of a query."
            )
        self.name = name or (self.path.parent.name if self.path.name == STATE_CONTROL else self.path.name)
        self.control: Control | None = None
        self._operators: dict[str, QueryHistory] = {}
        self._tails: list[Tail] = []
        self._busy: list[dict[str, Any]] = []  # of an operator that has not been seen yet

    @property
    def state(self) -> Path | None:
        """The state of a ``stateful`` query, if that is what the path is."""
        for root in (self.path, self.path.parent):
            if (root / "_delta_log").is_dir() and (root / STATE_CONTROL).is_dir():
                return root
        return None

    def poll(self) -> bool:
        """Read what was added since the last call; return whether there was anything."""
        if self.control is None:
            self.control = self._find_control()
            if self.control is None:
                return False
            folder = self.control.folder
            self._tails = [Tail(folder), Tail(folder / DECISIONS)]
        changed = False
        for tail in self._tails:
            for note in tail.read():
                self._add(note)
                changed = True
        return changed

    def histories(self) -> list[QueryHistory]:
        """Return the history of each operator, in the order of their first notes."""
        return list(self._operators.values())

    def plan(self, history: QueryHistory) -> Plan | None:
        """Return the current plan of an operator, if it has one."""
        if self.control is None:
            return None
        name = f"{history.operator}.plan" if history.operator else "owners.plan"
        found = self.control.read(f"{PLANS}/{name}", "plan")
        try:
            return None if found is None else Plan.from_json(found[0]["plan"])
        except (EvenflowError, KeyError, TypeError):
            return None

    def explain(self, history: QueryHistory) -> str:
        """Return the current plan of an operator in words."""
        plan = self.plan(history)
        if plan is None:
            return "There is no plan to explain: rows are placed by hash, or by routers while they arrive."
        return plan.explain(top=20)

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails:
            tail.close()

    def _find_control(self) -> Control | None:
        for folder in (self.path, self.path / STATE_CONTROL, self.path / RUN_CONTROL):
            if any((folder / name).is_file() for name in _FILES):
                return Control(folder)
        return None

    def _add(self, note: dict[str, Any]) -> None:
        kind, operator = note["event"], note.get("operator", "")
        if not isinstance(operator, str):
            return
        if kind == "busy":  # reports do not name their operator
            for history in self._operators.values():
                history.add(note)
            if not self._operators:
                self._busy.append(note)
            return
        if operator not in self._operators:
            if kind not in ("batch", "run", "past", "started"):
                if kind == "fallback" or operator:
                    self._start(operator).add(note)
                elif self._operators:  # the decisions of a stateful query
                    next(iter(self._operators.values())).add(note)
                else:
                    self._start("").add(note)
                return
            self._start(operator)
        history = self._operators[operator]
        if kind == "started" and isinstance(note.get("name"), str):
            history.kind = "state"
            history.name = f"{self.name}: {without_paths(note['name'])}"
        history.add(note)

    def _start(self, operator: str) -> QueryHistory:
        name = f"{self.name}: {without_paths(operator)}" if operator else self.name
        history = self._operators[operator] = QueryHistory(name, operator, "stream" if operator else "state")
        for note in self._busy:
            history.add(note)
        self._busy = []
        return history


def as_json(snapshot: Any) -> str:
    """Return a snapshot as JSON that may stand inside a script element."""
    text = json.dumps(snapshot, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
