"""The spelling of schemes: what it reads, that it comes back, and what it says to mistakes."""

from __future__ import annotations

import pytest

import evenflow as ef
from evenflow.schemes.spelling import parse_scheme, parse_schemes, spell


@pytest.mark.parametrize("name", sorted(ef.list_schemes()))
def test_every_name_and_alias_spells_its_scheme(name: str) -> None:
    for word in (name, *ef.list_schemes()[name].aliases):
        assert parse_scheme(word) == ef.scheme(name)
        assert spell(parse_scheme(word)) == name


def test_a_piece_with_an_equals_sign_belongs_to_the_scheme_on_its_left() -> None:
    found = parse_schemes("d-choices:epsilon=1e-3,distinct=no,key, fill:epsilon=0.1 ,horizon=1e3")
    assert found == [
        ef.scheme("d-choices", epsilon=1e-3, distinct=False),
        ef.scheme("key"),
        ef.scheme("fill", epsilon=0.1, horizon=1000),
    ]


def test_a_scheme_given_twice_is_taken_once_but_other_parameters_are_another_scheme() -> None:
    assert [spell(found) for found in parse_schemes("key,kg,fill,fill:split=no")] == [
        "key",
        "fill",
        "fill:split=no",
    ]


def test_all_is_every_scheme() -> None:
    assert {found.name for found in parse_schemes("all")} == set(ef.list_schemes())


@pytest.mark.parametrize(
    "text",
    [
        "explicit:algorithm=scan,alpha=1.1+1.2+1.3,window=5000,every=0,counting=no",
        "fish:theta=0.01,capacity=none,choices=w-choices",
        "d-choices:theta=none,epsilon=1e-5",
    ],
)
def test_a_spelling_makes_the_same_scheme_again(text: str) -> None:
    found = parse_scheme(text)
    assert parse_scheme(spell(found)) == found
    assert parse_schemes(f"key,{spell(found)},fill")[1] == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fil", "there is no scheme 'fil'; did you mean 'fill'"),
        ("", "'' is not a scheme; use one of"),
        ("key,", "'' is not a scheme"),
        ("epsilon=3", "'epsilon=3' is not a scheme"),
        (
            "d-choices:epsilon",
            "'epsilon' is not a parameter; write name=value. Example: d-choices:",
        ),
        ("d-choices:epsilom=1", "d-choices has no parameter 'epsilom'; did you mean 'epsilon'"),
        ("key:a=1", "key has no parameter 'a'; it takes none"),
        ("fill:epsilon=much", "epsilon is 'much'; it must be a number. Example: fill:epsilon=0.02"),
        ("fill:split=0.5", "split is '0.5'; it must be yes or no"),
        ("fill:horizon=2.5", "horizon is 2.5; it must be a whole number"),
        ("fill:epsilon=1,epsilon=2", "epsilon is given twice, as 1 and 2; choose one"),
        ("fill:epsilon=-1", "epsilon is -1.0; choose a tolerance above 0"),
        ("explicit:alpha=1+x", "alpha is '1+x'; it must be a number or numbers such as"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ef.EvenflowError) as error:
        parse_schemes(text)
    assert sentence in str(error.value)
