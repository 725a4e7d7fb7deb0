"""The scripts and styles of pages, and the content security policy that allows them and nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

SCRIPTS = ("uplot.js", "charts.js")
STYLES = ("uplot.css", "charts.css")


@cache
def asset(name: str) -> str:
    """Return the text of a script or style.

    >>> asset("uplot.js").startswith("/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
    True
    """
    return files("evenflow.charts").joinpath("static", name).read_text(encoding="utf-8")


def content_policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return the policy of a page with exactly these scripts and styles in it."""
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: Sequence[str]) -> str:
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
