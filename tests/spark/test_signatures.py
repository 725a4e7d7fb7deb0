"""The operators' API: names one can see, one shape of call, no setting that is silently ignored."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F

import evenflow as ef
import evenflow.spark
from evenflow.errors import EvenflowError
from evenflow.spark import Aggregator, KeyedProcessor, Placed, Plan, aggregate, apply, balance, stateful
from spark.stream_files import read_batches

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

OPERATORS = [balance, apply, aggregate, stateful]


class Count(Aggregator):
    buffer = "n long"
    merges = {"n": "sum"}  # noqa: RUF012

    def zero(self) -> tuple[int]:
        return (0,)

    def reduce(self, state: Any, rows: Any) -> tuple[int]:
        return (state[0] + rows.num_rows,)


class Remember(KeyedProcessor):
    state = "n long"

    def start(self, key: Any) -> dict[str, int]:
        return {"n": 0}

    def process(self, key: Any, state: Any, rows: Any) -> Any:
        return state, []


def one_row(group: pa.Table) -> pa.Table:
    return pa.table({"n": [group.num_rows]})


@pytest.fixture
def df(spark: Any) -> Any:
    return spark.range(1000).selectExpr("if(id % 2 = 0, 0, id % 50) as k", "id")


def test_the_public_names_can_be_seen() -> None:
    for package in (ef, evenflow.spark):
        assert set(package.__all__) <= set(dir(package))
        assert not [name for name in package.__all__ if inspect.ismodule(getattr(package, name))]
    for name in ("Plan", "Placed", "AutoWorkers", "StatefulQuery", "Aggregator", "KeyedProcessor"):
        assert inspect.isclass(getattr(evenflow.spark, name))
    assert evenflow.spark.Plan is ef.Plan


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_share_their_parameters(operator: Any) -> None:
    names = list(inspect.signature(operator).parameters)
    assert names[:2] == ["df", "key"]
    shared = ["using", "schema", "state", "workers", "scheme", "mode"]
    positional = [
        name
        for name, parameter in inspect.signature(operator).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ][2:]
    assert positional == [name for name in shared if name in positional]
    assert inspect.signature(operator).parameters["workers"].default is None


def test_with_the_frame_in_front_or_for_transform(df: Any) -> None:
    calls: list[tuple[Any, dict[str, Any]]] = [
        (balance, {"workers": 3}),
        (apply, {"using": one_row, "schema": "n long", "workers": 3}),
        (aggregate, {"using": Count(), "schema": "n long", "workers": 3}),
    ]
    for operator, options in calls:
        in_front = operator(df, "k", **options)
        piped = df.transform(operator("k", **options))
        by_name = operator(df=df, key="k", **options)
        passed_on = df.transform(operator, "k", **options)
        for other in (piped, by_name, passed_on):
            assert sorted(other.collect()) == sorted(in_front.collect())


def test_workers_are_sparks_partitions_unless_told(spark: Any, df: Any, tmp_path: Path) -> None:
    placed: list[Placed] = []
    out = balance(df, "k", on_placed=placed.append)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    assert placed[0].workers == out.rdd.getNumPartitions() == partitions
    assert "spark.sql.shuffle.partitions" in placed[0].explain()
    balance(df, "k", workers=7, on_placed=placed.append)
    plan = placed[1].plan
    assert isinstance(plan, Plan)
    assert balance(df, "k", plan=plan).rdd.getNumPartitions() == 7
    (tmp_path / "in").mkdir()
    stream = read_batches(spark, tmp_path / "in", "k long")
    writer = stateful(stream, "k", Remember(), "n long", tmp_path / "state")
    assert writer.config.workers == partitions


def test_a_setting_that_would_be_ignored_is_refused(spark: Any, df: Any, tmp_path: Path) -> None:
    placed: list[Placed] = []
    balance(df, "k", workers=4, on_placed=placed.append)
    plan = placed[0].plan
    (tmp_path / "in").mkdir()
    stream = read_batches(spark, tmp_path / "in", "k long")
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (df, {"mode": "online", "plan": plan}, "mode is 'online' and plan is given"),
        (df, {"mode": "online", "sample": 0.5}, "sample is 0.5, but mode is 'online'"),
        (df, {"scheme": "d-choices", "sample": 0.5}, "sample is 0.5, but mode is 'online'"),
        (df, {"plan": plan, "sample": 0.5}, "sample is 0.5, but plan is given"),
        (df, {"scheme": "key", "sample": 0.5}, "key is planned without counting"),
        (stream, {"sample": 0.5}, "df is a stream"),
        (df, {"sources": 2}, "sources is 2 but mode is 'planned'"),
        (df, {"mode": "repartition"}, "scheme is 'fill'; use scheme='key'"),
        (df, {"mode": "repartition", "scheme": "key", "plan": plan}, "which uses no plan"),
        (
            df,
            {"mode": "repartition", "scheme": "key", "sources": 2},
            "sources is 2 but mode is 'repartition'",
        ),
        (df, {"mode": "repartition", "scheme": "key", "sample": 0.5}, "omit sample"),
    ]
    for frame, options, sentence in refused:
        with pytest.raises(EvenflowError, match=sentence):
            balance(frame, "k", 4, **options)


def test_a_scheme_is_spelled_as_on_the_command_line(df: Any) -> None:
    placed: list[Placed] = []
    out = balance(df, "k", 4, "fill:split=no", on_placed=placed.append)
    assert placed[0].plan is not None
    assert placed[0].plan.splits == 0
    pairs = out.select("k", F.spark_partition_id()).distinct().collect()
    assert len(pairs) == len({row["k"] for row in pairs})
