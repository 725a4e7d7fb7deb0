"""Nobody outside evenflow.schemes asks what class a scheme is: it would leave out schemes of others."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import evenflow
from evenflow import schemes
from evenflow.schemes.base import Router, Scheme
from evenflow.schemes.coordination import Coordinator
from evenflow.schemes.owner_plans import OwnerPlans

SOURCE = Path(evenflow.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py") if SOURCE / "schemes" not in path.parents)


def classes() -> set[str]:
    """Return the names of all classes that evenflow.schemes has for schemes, routers and what they make."""
    found = set()
    for module in pkgutil.iter_modules(schemes.__path__, "evenflow.schemes."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, Scheme | Router | OwnerPlans | Coordinator):
                found.add(name)
    return found


CLASSES = classes()


def questions(text: str) -> Iterator[str]:
    """Yield what asks a scheme or router for its class, or for an attribute that it may lack."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            asked = node.func.id in ("isinstance", "issubclass") and CLASSES & set(names(node.args[1]))
            lacks = node.func.id in ("getattr", "hasattr") and {"scheme", "router"} & set(names(node.args[0]))
            if asked or lacks:
                yield f"line {node.lineno}: {ast.unparse(node)}"
        elif (isinstance(node, ast.MatchClass) and CLASSES & set(names(node.cls))) or (
            isinstance(node, ast.Compare) and CLASSES & set(names(*node.comparators))
        ):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def names(*nodes: ast.AST) -> Iterator[str]:
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                yield part.id
            elif isinstance(part, ast.Attribute):
                yield part.attr


def test_the_classes_are_found() -> None:
    assert {"Scheme", "Router", "Fill", "ExplicitRouter", "OwnerRouter", "KeyPlans", "OneMap"} <= CLASSES
    assert len(FILES) > 100


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(scheme, Fill)",
        "isinstance(self.router, Fill | explicit.ExplicitRouter)",
        "issubclass(kind, (int, HeadScheme))",
        "type(scheme) is Key",
        'getattr(self.scheme, "split", True)',
        'hasattr(router, "lookup")',
        "match scheme:\n    case Explicit():\n        pass",
    ],
)
def test_each_way_of_asking_is_noticed(text: str) -> None:
    assert list(questions(text))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nobody_asks(path: Path) -> None:
    assert list(questions(path.read_text())) == []
