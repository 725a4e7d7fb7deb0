"""Every app on Spark, as a stream and read at once, against an exact answer made without Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from apps.reference_tree import SlowTree
from apps.test_aggregators import SlowBayes
from evenflow.apps import parse_app
from evenflow.apps.base import AppSetup
from evenflow.apps.generated import Points, Trades
from evenflow.apps.tree import Tree
from evenflow.runner.pipeline import Job, Progress, run
from evenflow.runner.sources import open_input
from evenflow.spark import balance
from evenflow.streams import Zipf
from extent import in_make_faults, long

pytestmark = pytest.mark.spark
ways = pytest.mark.parametrize("at_once", [pytest.param(False, id="stream"), long(True, id="at-once")])


def ran(
    spark: Any, app: str, source: str, *, at_once: bool, scheme: str = "fill", **options: Any
) -> Progress:
    wanted = parse_app(app)
    opened = open_input(
        spark, source, options.pop("key", []), rows_per_batch=options.pop("batch", 1000), keys=wanted.keys
    )
    job = Job(opened, wanted, 3, ef.scheme(scheme), at_once=at_once, **options)
    return run(job, lambda seen: None)


def trades(count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Trades(messages=count, tickers=20).make(np.arange(count)).to_pylist()
    return rows


@in_make_faults
@pytest.mark.faults
@ways
def test_vwap(spark: Any, at_once: bool, tmp_path: Path) -> None:
    source = "trades:messages=2000,tickers=20"
    seen = ran(spark, "vwap", source, at_once=at_once, top=20, sink=str(tmp_path / "out"))
    value: defaultdict[str, float] = defaultdict(float)
    volume: Counter[str] = Counter()
    for row in trades(2000):
        value[row["ticker"]] += row["price"] * row["size"]
        volume[row["ticker"]] += row["size"]
    found = seen.view["windows"]["all"]
    assert {ticker: one["volume"] for ticker, one in found.items()} == volume
    for ticker, one in found.items():
        assert one["vwap"] == pytest.approx(value[ticker] / volume[ticker], rel=1e-12)
    assert seen.total == 2000
    assert sum(seen.busy) > 0
    written = spark.read.parquet(str(tmp_path / "out")).groupBy("ticker").max("volume").collect()
    assert {row[0]: row[1] for row in written} == volume


def test_a_users_trades(spark: Any, tmp_path: Path) -> None:
    """Text of a CSV is read as numbers, what is none is counted, windows are of the user's own time."""
    path = tmp_path / "day.csv"
    path.write_text(
        "when,symbol,close,lots\n2024-01-02 09:00:00,A,10,3\n2024-01-02 09:59:59,A,20,1\n"
        "2024-01-02 10:00:00,A,30,1\n2024-01-02 10:01:00,A,n/a,1\n"
    )
    seen = ran(spark, "vwap:price=close,size=lots,time=when,window=1 hour", str(path), at_once=True)
    hours = {start[11:16]: tickers["A"] for start, tickers in seen.view["windows"].items()}
    assert {hour: (one["vwap"], one["unread"]) for hour, one in hours.items()} == {
        "09:00": (12.5, 0),
        "10:00": (30.0, 1),
    }
    with pytest.raises(
        ef.EvenflowError, match=r"vwap needs a column for price.*vwap:price=lots \(the columns are when,"
    ):
        ran(spark, "vwap", str(path), at_once=True)
    with pytest.raises(ef.EvenflowError, match="time=lots"):
        ran(spark, "count:window=1 day", str(path), at_once=True, key=["symbol"])


@pytest.mark.faults
@in_make_faults
@ways
def test_top_of_windows(spark: Any, at_once: bool) -> None:
    source = "zipf:z=1.2,keys=50,messages=2000,rate=10,seed=5"
    seen = ran(spark, "top-k:window=1 minute", source, at_once=at_once, top=3)
    counts: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for at, key in enumerate(Zipf(z=1.2, keys=50, messages=2000, seed=5).generate(0, 2000).ids.tolist()):
        counts[(1_600_000_000 + at // 10) // 60][key + 1] += 1
    expected = [sorted(one.values(), reverse=True)[:3] for _, one in sorted(counts.items())]
    found = list(seen.view["windows"].values())
    assert [[one["rows"] for one in most] for most in found] == expected
    for minute, most in zip(sorted(counts), found, strict=True):
        assert all(counts[minute][one["key"]] == one["rows"] for one in most)


@ways
def test_naive_bayes_predicts_as_one_machine(spark: Any, at_once: bool) -> None:
    source = "documents:messages=1200,length=10,seed=4"
    app: Any = parse_app("naive-bayes:holdout=0.2")
    seen = ran(spark, "naive-bayes:holdout=0.2", source, at_once=at_once, batch=600)
    table = open_input(spark, source, [], keys=()).table
    rows = app.documents(table).collect()
    slow = SlowBayes([(row["label"], row["words"]) for row in rows if not row["held"]])
    model = app.model(seen.view)
    assert model.documents == slow.prior
    assert model.words == {label: dict(counts) for label, counts in slow.counts.items()}
    held = [row for row in rows if row["held"]]
    answers = model.predict_all(row["words"] for row in held)
    assert answers == [slow.predict(row["words"]) for row in held]
    right = sum(a == row["label"] for a, row in zip(answers, held, strict=True)) / len(held)
    assert seen.view["accuracy"][-1] == right > 0.7
    assert seen.view["asked"] == len(held) > 150


def test_texts_and_columns_as_features(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "mail.csv"
    path.write_text('kind,text,day\nspam,"Cash, CASH now",mon\nham,tea at noon,tue\nham,"tea, please",mon\n')
    texts = ran(spark, "naive-bayes:label=kind,features=text,holdout=0", str(path), at_once=True)
    assert texts.view["documents"] == {"spam": 1, "ham": 2}
    assert texts.view["words"]["spam"] == {"cash": 2, "now": 1}
    columns = ran(spark, "naive-bayes:label=kind,features=text+day,holdout=0", str(path), at_once=True)
    assert columns.view["words"]["ham"]["day=mon"] == 1
    with pytest.raises(ef.EvenflowError, match="makes its own keys; omit it"):
        ran(spark, "naive-bayes:label=kind,features=text", str(path), at_once=True, key=["kind"])


@in_make_faults
@pytest.mark.faults
@ways
def test_decision_tree_is_as_good_as_the_sequential_one(spark: Any, at_once: bool) -> None:
    source = "points:messages=4500,dimensions=4,spread=1.2,seed=1"
    app = "decision-tree:holdout=0,rows_per_split=300,depth=4"
    seen = ran(spark, app, source, at_once=at_once, batch=1500)
    made = Points(messages=4500, dimensions=4, spread=1.2, seed=1).make(np.arange(12_000))
    features = made.field("features").flatten().to_numpy().reshape(-1, 4)
    labels = np.array(made.field("label").to_pylist())
    slow = SlowTree(bins=64, rows=300, gain=0.002, depth=4)
    periods = [np.arange(4500)] * 5 if at_once else np.split(np.arange(4500), 3)
    for period in periods:
        if at_once:
            forget(slow.root)
        slow.learn(features[period].tolist(), labels[period].tolist())
    test = slice(4500, None)
    ours = np.mean(np.array(Tree.from_json(seen.view["tree"]).predict(features[test])) == labels[test])
    theirs = np.mean(
        [slow.predict(one) == label for one, label in zip(features[test].tolist(), labels[test], strict=True)]
    )
    assert theirs > 0.7
    assert abs(ours - theirs) <= 0.01
    assert seen.batches == (5 if at_once else 3)
    assert len(seen.view["merges"]) == len([node for node in seen.view["tree"] if node["feature"] >= 0]) > 3
    assert max(seen.view["held"]) <= max(seen.view["shuffled"])


def forget(node: dict[str, Any]) -> None:
    """Begin to count anew, as a tree does that reads all rows once more."""
    node["seen"], node["histograms"] = 0, {}
    if node["split"] is not None:
        for child in node["split"][2:]:
            forget(child)


@pytest.mark.parametrize(("scheme", "at_once"), [("fill", False), ("key", True), ("shuffle", True)])
def test_heavy_hitters_are_within_their_bounds(spark: Any, scheme: str, at_once: bool) -> None:
    source = "zipf:z=1.2,keys=500,messages=3000,seed=2"
    app = "heavy-hitters:capacity=40,check=yes"
    # several batches: a plan is made from those before, and may come a batch late
    seen = ran(spark, app, source, at_once=at_once, scheme=scheme, top=100, batch=600)
    ids = Zipf(z=1.2, keys=500, messages=3000, seed=2).generate(0, 3000).ids
    exact = Counter(str(key + 1) for key in ids.tolist())
    assert seen.view["rows"] == 3000
    for one in seen.view["top"]:
        assert one["at_least"] <= exact[one["item"]] <= one["at_most"]
        assert one["rows"] == exact[one["item"]]
    assert [one["item"] for one in seen.view["top"][:3]] == [key for key, _ in exact.most_common(3)]
    held = [one["summaries"] for one in seen.view["top"]]
    assert {"key": max(held) == 1, "shuffle": held[0] == 3, "fill": held[0] > 1}[scheme]
    assert all("mean_error" in line for line in seen.view["errors"])


@in_make_faults
@pytest.mark.faults
@ways
def test_windowed_join(spark: Any, at_once: bool) -> None:
    app = "windowed-join:window=1 second,value=price,band=0.1"
    seen = ran(spark, app, "trades:messages=2000,tickers=20", at_once=at_once, top=5)
    groups: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for row in trades(2000):
        groups[int(row["time"].timestamp()), row["ticker"]].append(row["price"])
    pairs = {key: len(values) * (len(values) - 1) // 2 for key, values in groups.items()}
    most = seen.view["most"]
    assert [one["comparisons"] for one in most] == sorted(pairs.values(), reverse=True)[:5]
    assert seen.total == 2000
    biggest = groups[max(pairs, key=lambda key: pairs[key])]
    matches = sum(abs(a - b) <= 0.1 for at, a in enumerate(biggest) for b in biggest[:at])
    assert (most[0]["rows"], most[0]["matches"]) == (len(biggest), matches)


@pytest.mark.parametrize("app", ["decision-tree:features=a+b+c", "naive-bayes:features=a+b"])
def test_shuffle_sends_every_feature_to_every_worker(spark: Any, tmp_path: Path, app: str) -> None:
    """Also where every row is exploded into as many rows as there are workers."""
    table = spark.range(900, numPartitions=1).selectExpr("id % 2 label", "id % 5 a", "id % 7 b", "id % 3 c")
    setup = AppSetup([], 3, ef.scheme("shuffle"), "online", tmp_path)
    rows, by = parse_app(app).rows(table, setup)
    placed = rows.transform(balance(by, 3, scheme="shuffle", mode="online"))
    placed = placed.withColumn("worker", F.spark_partition_id())
    homes = placed.groupBy(*by).agg(F.countDistinct("worker"), F.count("*")).collect()
    assert sum(row[-1] for row in homes) == rows.count() > 2000
    assert {row[-2] for row in homes} == {3}
