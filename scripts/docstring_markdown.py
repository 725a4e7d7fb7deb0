"""A griffe extension for the API reference that converts docstrings to Markdown.

Doctests outside an ``Examples`` section become code blocks, and roles such as ``:mod:`` become plain code.
Otherwise Markdown would render a doctest as a quotation, and a nested list in its output as a link.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLES = re.compile(r"^Examples\n-+$", re.MULTILINE)
_DOCTEST = re.compile(r"^(?:>>> .*\n?)(?:.+\n?)*", re.MULTILINE)  # up to the next empty line
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


class DocstringMarkdown(griffe.Extension):
    """Convert every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Convert the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Return a docstring with its doctests fenced.

    >>> as_markdown("Add.\\n\\n>>> [[1]]\\n[[1]]\\n\\nSee :mod:`os`.")
    'Add.\\n\\n```pycon\\n>>> [[1]]\\n[[1]]\\n```\\n\\nSee `os`.'
    """
    text = _ROLE.sub(r"`\1`", text)
    section = _EXAMPLES.search(text)  # griffe handles these
    end = section.start() if section else len(text)
    return _DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text[:end]) + text[end:]
