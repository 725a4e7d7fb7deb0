"""The one kind of error that evenflow raises for bad input: a sentence with the value and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EvenflowError(ValueError):
    """Something the caller can mend; the message says what was wrong and what to do."""


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the known words closest to ``word`` as the end of a sentence.

    >>> nearest("d-choice", ["d-choices", "key"])
    "did you mean 'd-choices'?"
    """
    known = sorted(words)
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "known are " + ", ".join(known) + "."
