"""The error that evenflow raises for invalid input: one sentence with the value and the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_FROM_JAVA = "An error occurred while calling "  # and not which; what Java said is in the second line
_OWN = re.compile(r"evenflow\.(?:errors|storage\.base)\.(?:Evenflow|Storage)Error: (.*)")


class EvenflowError(ValueError):
    """Invalid input; the message says what was wrong and what to do."""


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the end of an error message that suggests the known words closest to ``word``.

    >>> nearest("d-choice", ["d-choices", "key"])
    "did you mean 'd-choices'?"
    """
    known = sorted(words)
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "choose one of " + ", ".join(known) + "."


def own_sentence(text: str) -> str | None:
    """Return the last message of an error of evenflow's in a longer text, such as Spark's of a failed query.

    >>> own_sentence("Job aborted\\nevenflow.errors.EvenflowError: workers is 0.\\n\\tat org.apache")
    'workers is 0.'
    """
    found = [match[1] for line in text.splitlines() if (match := _OWN.match(line.strip()))]
    return found[-1] if found else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if there is none.

    >>> first_line(OSError("An error occurred while calling o1.load.\\n: java.io.IOException: why\\n\\tat x"))
    'java.io.IOException: why'
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    said = lines[0] if len(lines) < 2 or not lines[0].startswith(_FROM_JAVA) else lines[1]
    return said.removeprefix(": ")
