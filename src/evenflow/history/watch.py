"""A path that is watched: a control directory, a state, or the checkpoint of ``evenflow run``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenflow.control.directory import DECISIONS, PLANS, Control
from evenflow.errors import EvenflowError
from evenflow.history.events import without_paths
from evenflow.history.query import QueryHistory
from evenflow.history.tail import ObjectTail, Tail, open_tail
from evenflow.plan import Plan
from evenflow.storage import Location, locate

STATE_CONTROL = "_evenflow"  # the control directory inside a state
RUN_CONTROL = "control"  # the one inside a checkpoint of `evenflow run`


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
        self.path = locate(path, "path")
        if not Control(self.path).exists():
            what = "no folder" if self.path.is_local else "nothing"
            raise EvenflowError(
                f"there is {what} at {self.path}; pass the control directory or the state of a query."
            )
        self.name = name or (self.path.parent.name if self.path.name == STATE_CONTROL else self.path.name)
        self.control: Control | None = None
        self._operators: dict[str, QueryHistory] = {}
        self._tails: list[Tail | ObjectTail] = []
        self._busy: list[dict[str, Any]] = []  # of an operator that has not been seen yet

    @property
    def state(self) -> Location | None:
        """The state of a ``stateful`` query, if that is what the path is."""
        for root in (self.path, self.path.parent):
            if all(Control(root / name).exists() for name in ("_delta_log", STATE_CONTROL)):
                return root
        return None

    def poll(self) -> bool:
        """Read what was added since the last call; return whether there was anything."""
        if self.control is None:
            self.control = self._find_control()
            if self.control is None:
                return False
            place = self.control.location
            self._tails = [open_tail(place)]
            if place.is_local:  # an object store has decisions in the one log
                self._tails.append(open_tail(place / DECISIONS))
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
        for place in (self.path, self.path / STATE_CONTROL, self.path / RUN_CONTROL):
            control = Control(place)
            if control.log.exists():
                return control
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
