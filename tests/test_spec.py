"""Parameters as text: read as their annotations say, spelled back, and mistakes are sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import EvenflowError
from evenflow.spec import build, check_count, number, spell, whole


@dataclass(frozen=True)
class Knobs:
    size: int = 10
    share: float = 0.5
    split: bool = True
    limit: float | None = None
    word: str = "a"
    parts: float | tuple[float, ...] = 1.0


@given(
    st.builds(
        Knobs,
        size=st.integers(-(2**70), 2**70),
        share=st.floats(allow_nan=False),
        split=st.booleans(),
        limit=st.none() | st.floats(allow_nan=False),
        word=st.text("abc-", min_size=1),
        parts=st.lists(st.floats(0, 1e6), min_size=2, max_size=4).map(tuple),
    )
)
def test_what_is_spelled_is_read_again(knobs: Knobs) -> None:
    text = spell("knobs", vars(knobs))
    assert build(Knobs, Knobs, "knobs", text.partition(":")[2]) == knobs


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("size=1.5", "size is 1.5; it must be a whole number."),
        ("size=inf", "size is inf; it must be a whole number."),
        ("size=many", "size is 'many'; it must be a whole number."),
        ("split=2", "split is '2'; it must be yes or no."),
        ("share=none", "share is 'none'; it must be a number."),
        ("limit=x", "limit is 'x'; it must be a number or none."),
        ("parts=1+x", "parts is '1+x'; it must be a number or numbers such as 1.2+1.3+1.2."),
        ("sise=1", "knobs has no parameter 'sise'; did you mean 'size'?"),
    ],
)
def test_mistakes_are_sentences_with_an_example(text: str, sentence: str) -> None:
    with pytest.raises(EvenflowError) as error:
        build(Knobs, Knobs, "knobs", text)
    example = "knobs:size=10,share=0.5,split=yes,word=a,parts=1"
    assert str(error.value) == f"{sentence} Example: {example}."


@pytest.mark.parametrize("value", [True, 2.0, "2", None, 0])
def test_counts_are_integers(value: Any) -> None:
    check_count("jobs", np.int64(2), 1, "it is 1 or more")
    with pytest.raises(EvenflowError, match=r"jobs is .*; it is 1 or more\."):
        check_count("jobs", value, 1, "it is 1 or more")


@pytest.mark.parametrize("value", [True, "2", None, 2.5, float("nan"), float("inf"), 9])
def test_whole_numbers_may_be_floats(value: Any) -> None:
    assert whole("keys", 2.0, 1, 5, "it is 1 to 5") == whole("keys", np.float64(2), 1, 5, "") == 2
    with pytest.raises(EvenflowError, match=r"keys is "):
        whole("keys", value, 1, 5, "it is 1 to 5")


@pytest.mark.parametrize("value", [True, "0.2", None, float("nan"), -1, 1.5])
def test_numbers_lie_in_their_range(value: Any) -> None:
    assert number("share", np.float32(0.5), 0, 1, "it is 0 to 1") == 0.5
    with pytest.raises(EvenflowError, match=r"share is .*; it is 0 to 1\."):
        number("share", value, 0, 1, "it is 0 to 1")
