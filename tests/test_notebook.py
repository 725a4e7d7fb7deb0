"""Objects in a notebook: each shows itself, as text that is escaped, without scripts."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.charts import notebook
from evenflow.plan import make_plan


class Elements(HTMLParser):
    """The tags of a page, which must close in order."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(of: Any) -> Elements:
    """An object as a notebook shows it."""
    found = Elements(of._repr_html_())
    assert not {"script", "link", "iframe"} & set(found.seen)
    return found


def test_plans() -> None:
    plan = make_plan(4, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
    found = shown(plan)
    assert found.seen.count("rect") == 4
    assert "0000000000000007" in found.texts
    assert "60.00%" in found.texts
    assert plan.explain().splitlines()[0] in found.texts
    empty = make_plan(4, np.zeros(0, np.uint64), [], total=1.0)
    assert "table" not in shown(empty).seen


@pytest.mark.parametrize("name", ["key", "fill", "fish"])
def test_schemes(name: str) -> None:
    scheme = ef.scheme(name)
    texts = shown(scheme).texts
    assert scheme.summary in texts
    assert set(scheme.parameters()) <= set(texts)


def test_simulations_and_advice() -> None:
    result = ef.simulate("key", "zipf:z=1.2,keys=100,messages=5000,seed=1", workers=5)
    found = shown(result)
    assert found.seen.count("rect") == 5
    assert "max over mean" in found.texts
    keys = [f"<b>{number % 50 if number % 3 else 0}</b>" for number in range(3000)]
    advice = ef.advise(pa.table({"k": keys}), "k", workers=4)
    found = shown(advice)
    assert advice.recommendation.reason in found.texts
    assert "<b>0</b>" in "".join(found.texts)  # a key is text
    assert found.seen.count("svg") >= 1


def test_bars_of_many_workers_are_few_and_nothing_is_no_picture() -> None:
    many = notebook.bars([1.0] * 9999 + [5.0], "rows")
    assert many.count("<rect") <= 64
    assert "5 of the mean" in many
    assert notebook.bars([], "rows") == notebook.bars([0, 0], "rows") == ""


@pytest.mark.spark
def test_what_spark_returns(spark: Any) -> None:
    from evenflow.spark import balance, loads
    from evenflow.spark.routing.placed import Placed

    df = spark.range(2000).selectExpr("if(id % 2 = 0, '<i>', string(id % 50)) as k")
    placed: list[Placed] = []
    even = df.transform(balance("k", 4, on_placed=placed.append))
    found = shown(placed[0])
    assert "planned fill on 4 workers" in found.texts
    assert found.seen.count("rect") == 4
    report = loads(even, "k", workers=4)
    found = shown(report)
    assert report.summary() in found.texts
    assert "<i>" in found.texts
