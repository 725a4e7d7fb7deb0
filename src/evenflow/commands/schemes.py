"""``evenflow schemes``: the available schemes and their declared properties."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.commands.terminal import Json, print_json

if TYPE_CHECKING:
    from evenflow.schemes.base import Scheme

PROPERTIES = {
    "splits_keys": "splits keys",
    "needs_load": "load",
    "needs_time": "time",
    "needs_reports": "reports",
    "plannable": "plannable",
    "rescales": "rescales",
}


def complete_scheme(incomplete: str) -> list[str]:
    """Return the matching scheme names, for shell completion."""
    import evenflow as ef

    return [name for name in ef.list_schemes() if name.startswith(incomplete)]


def schemes(
    name: Annotated[
        str | None, typer.Argument(help="Show one scheme in full.", autocompletion=complete_scheme)
    ] = None,
    as_json: Json = False,
) -> None:
    """List every grouping scheme with its paper, properties and parameters.

    Example: `evenflow schemes d-choices`
    """
    import evenflow as ef
    from evenflow.report.tables import Table, show

    if name is not None:
        kind = type(ef.scheme(name))
        if as_json:
            print_json(describe(kind) | {"description": description(kind)})
        else:
            typer.echo(f"{kind.name}: {kind.summary}\n\n{description(kind)}\n")
            properties = [(name, bool(getattr(kind, name))) for name in PROPERTIES]
            parameters = [(f.name, str(f.type), repr(f.default)) for f in dataclasses.fields(kind)]
            show(
                [
                    Table("Properties", ("property", ""), properties),
                    Table("Parameters", ("parameter", "type", "default"), parameters),
                ]
            )
        return
    kinds = list(ef.list_schemes().values())
    if as_json:
        print_json([describe(kind) for kind in kinds])
        return
    about = [
        (kind.name, ", ".join(kind.aliases), kind.paper, kind.summary, _property_names(kind))
        for kind in kinds
    ]
    defaults = [(kind.name, _defaults(kind)) for kind in kinds]
    columns = ("scheme", "aliases", "paper", "description", "properties")
    show(
        [
            Table("Schemes", columns, about, note=_LEGEND),
            Table("Parameters and defaults", ("scheme", "parameters"), defaults),
        ]
    )


_LEGEND = (
    "Properties: splits keys: a key may be on several workers; load, time, reports: inputs that decisions "
    "depend on; plannable: decisions can be precomputed as a table; rescales: the number of workers can "
    "change while a router runs."
)


def describe(kind: type[Scheme]) -> dict[str, Any]:
    """Return a scheme's declarations as plain data."""
    return {
        "name": kind.name,
        "aliases": list(kind.aliases),
        "paper": kind.paper,
        "summary": kind.summary,
        "properties": {name: getattr(kind, name) for name in PROPERTIES},
        "parameters": [
            {"name": field.name, "type": str(field.type), "default": field.default}
            for field in dataclasses.fields(kind)
        ],
    }


def description(kind: type[Scheme]) -> str:
    """Return a scheme's documentation: its class docstring, then its module's, which follows the paper."""
    texts = (kind.__doc__, sys.modules[kind.__module__].__doc__)
    return "\n\n".join(inspect.cleandoc(text) for text in texts if text)


def _property_names(kind: type[Scheme]) -> str:
    return ", ".join(label for name, label in PROPERTIES.items() if getattr(kind, name))


def _defaults(kind: type[Scheme]) -> str:
    return ", ".join(f"{field.name}={field.default!r}" for field in dataclasses.fields(kind))
