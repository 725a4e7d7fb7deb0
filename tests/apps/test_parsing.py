"""How apps and generated rows are spelled, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.apps import App, apps, parse_app, register
from evenflow.apps.generated import ROWS, open_rows
from evenflow.apps.windows import seconds


def test_every_app_is_known() -> None:
    wanted = {"count", "top-k", "naive-bayes", "decision-tree", "heavy-hitters", "vwap", "windowed-join"}
    assert wanted <= set(apps())
    for name, kind in apps().items():
        assert parse_app(name) == kind()
        assert kind.summary


@pytest.mark.parametrize(
    ("spelling", "sentence"),
    [
        ("vwpa", "there is no app 'vwpa'; did you mean 'vwap'"),
        ("vwap:prise=close", "vwap has no parameter 'prise'; did you mean 'price'"),
        (
            "vwap:price",
            "'price' is not a parameter; write name=value. Example: vwap:price=price,size=",
        ),
        ("count:window=soon", "window is 'soon'; it must be a duration such as '10 minutes'"),
        ("heavy-hitters:capacity=many", "capacity is 'many'; it must be a whole number"),
        ("heavy-hitters:capacity=0", "capacity is 0"),
        ("heavy-hitters:check=perhaps", "it must be yes or no"),
        ("naive-bayes:alpha=0", "alpha is 0.0; it must be above 0"),
        ("naive-bayes:holdout=1", "holdout is 1.0"),
        ("decision-tree:bins=1", "bins is 1"),
        ("windowed-join:band=-1", "band is -1.0"),
    ],
)
def test_mistakes_are_sentences(spelling: str, sentence: str) -> None:
    with pytest.raises(ef.EvenflowError) as error:
        parse_app(spelling)
    assert sentence in str(error.value)


def test_parameters_are_read() -> None:
    app: Any = parse_app("vwap: price = close, window=2 hours")
    assert (app.price, app.size, app.window) == ("close", "size", "2 hours")
    hitters: Any = parse_app("heavy-hitters:capacity=1e3,check=yes")
    assert (hitters.capacity, hitters.check) == (1000, True)


def test_a_user_adds_an_app() -> None:
    @dataclass(frozen=True)
    class Mine(parse_app("count").__class__):  # type: ignore[misc]
        name = "mine-for-a-test"

    assert register(Mine) is Mine
    try:
        assert isinstance(parse_app("mine-for-a-test"), App)
        with pytest.raises(ef.EvenflowError, match="'mine-for-a-test' is already registered"):

            @register
            class Another(Mine):
                pass
    finally:
        apps()
        from evenflow.apps import base

        del base._APPS["mine-for-a-test"]


def test_the_list_of_apps_loads_without_spark() -> None:
    code = "import sys, evenflow.apps; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", sorted(ROWS))
def test_rows_are_a_function_of_their_position(name: str) -> None:
    generator = open_rows(f"{name}:messages=1000,seed=3")
    some = np.array([5, 900, 17, 5])
    rows = generator.make(some).to_pylist()
    assert rows == [generator.make(np.array([at])).to_pylist()[0] for at in some]
    assert rows[0] == rows[3] != rows[1]
    assert rows != open_rows(f"{name}:messages=1000,seed=4").make(some).to_pylist()
    assert generator.make(np.zeros(0, np.int64)).to_pylist() == []


def test_bad_generators() -> None:
    with pytest.raises(ef.EvenflowError, match=r"points has no parameter 'dims'.* Example: points:"):
        open_rows("points:dims=3")
    with pytest.raises(ef.EvenflowError, match="classes of points is 0; it must be at least 1"):
        open_rows("points:classes=0")
    assert open_rows("zipf") is None


def test_spans() -> None:
    assert [seconds(text) for text in ("1 day", "90 seconds", "1.5 hours", "x", "1")] == [
        86_400, 90, 5400, None, None,
    ]  # fmt: skip
