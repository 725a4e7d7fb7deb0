"""The papers' applications, run by `evenflow run`; each is an Aggregator for `evenflow.spark`.

To add an app, write a file here with a frozen dataclass of its parameters under ``@register`` (see
:class:`evenflow.apps.base.App`), and import it below.

>>> parse_app("vwap:price=close").price
'close'
"""

from typing import Any

from evenflow.apps import counting, decision_tree, heavy_hitters, naive_bayes, vwap, windowed_join
from evenflow.apps.base import App, apps, register
from evenflow.errors import EvenflowError, nearest
from evenflow.spec import build

__all__ = [
    "App",
    "apps",
    "counting",
    "decision_tree",
    "heavy_hitters",
    "naive_bayes",
    "parse_app",
    "register",
    "vwap",
    "windowed_join",
]


def parse_app(text: str) -> App:
    """Parse an app: its name, and parameters after a colon."""
    name, _, rest = text.partition(":")
    kind: Any = apps().get(name.strip())
    if kind is None:
        raise EvenflowError(f"there is no app {name.strip()!r}; {nearest(name.strip(), apps())}")
    app: App = build(kind, kind, kind.name, rest)
    return app
