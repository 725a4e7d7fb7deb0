"""The scripts and styles of pages, and the content security policy that allows them and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

SCRIPTS = ("uplot.js", "charts.js")
STYLES = ("uplot.css", "charts.css")


@cache
def asset(name: str) -> str:
    """Return the text of a script or style; the address of uPlot's project gives way to its licence.

    >>> asset("uplot.js").splitlines()[0]
    '/*! uPlot 1.6.32. The MIT License (MIT). Copyright (c) 2022 Leon Sorokin */'
    """
    folder = files("evenflow.charts").joinpath("static")
    text = folder.joinpath(name).read_text(encoding="utf-8")
    if name != "uplot.js":
        return text
    licence, _, owner, *_ = folder.joinpath("uplot.LICENSE").read_text(encoding="utf-8").splitlines()
    return f"/*! uPlot 1.6.32. {licence}. {owner} */\n{text.partition(chr(10))[2]}"


def content_policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return the policy of a page with exactly these scripts and styles in it."""
    return (
        f"default-src 'none'; {script_policy(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def script_policy(scripts: Sequence[str]) -> str:
    """Return the part of a policy that allows exactly these scripts."""
    return f"script-src {_hashes(scripts)}"


def _hashes(texts: Sequence[str]) -> str:
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"


def as_json(data: Any) -> str:
    """Return data as JSON that may stand inside a script element.

    >>> as_json({"key": "</script>"})
    '{"key":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
