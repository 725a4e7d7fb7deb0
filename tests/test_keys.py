"""hash_keys against a real Spark, and the hash family against plain Python."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from arrow_samples import PARQUET_TYPES, SPARK_TYPES, sample
from evenflow.keys import candidate, mix, salt_of, second_candidate
from reference import Reference
from reference import base as plain

ROWS = 400
MIXES = 25


def spark_hashes(frame: Any, columns: list[list[str]]) -> list[list[int]]:
    """Spark's xxhash64 of each choice of columns, in the frame's order."""
    from pyspark.sql.functions import xxhash64

    hashes = frame.select(*(xxhash64(*choice).alias(str(i)) for i, choice in enumerate(columns))).toArrow()
    return [column.to_numpy().view(np.uint64).tolist() for column in hashes.columns]


def random_choices(names: list[str], rng: np.random.Generator) -> list[list[str]]:
    return [rng.choice(names, rng.integers(2, 6)).tolist() for _ in range(MIXES)]


@pytest.fixture(scope="module")
def typed_table() -> pa.Table:
    rng = np.random.default_rng(42)
    return pa.table({f"c{i}": sample(kind, ROWS, rng) for i, kind in enumerate(SPARK_TYPES.values())})


@pytest.fixture(scope="module")
def typed_mixes(typed_table: pa.Table) -> list[list[str]]:
    return random_choices(typed_table.column_names, np.random.default_rng(43))


@pytest.fixture(scope="module")
def spark_says(spark: Any, typed_table: pa.Table, typed_mixes: list[list[str]]) -> list[list[int]]:
    singles = [[name] for name in typed_table.column_names]
    return spark_hashes(spark.createDataFrame(typed_table), singles + typed_mixes)


@pytest.mark.spark
@pytest.mark.parametrize("index", range(len(SPARK_TYPES)), ids=SPARK_TYPES.keys())
def test_every_type_has_sparks_hash(index: int, typed_table: pa.Table, spark_says: list[list[int]]) -> None:
    assert ef.hash_keys(typed_table.column(index)).tolist() == spark_says[index]


@pytest.mark.spark
@pytest.mark.parametrize("index", range(MIXES))
def test_several_columns_have_sparks_hash(
    index: int, typed_table: pa.Table, typed_mixes: list[list[str]], spark_says: list[list[int]]
) -> None:
    columns = [typed_table.column(name) for name in typed_mixes[index]]
    assert ef.hash_keys(*columns).tolist() == spark_says[len(SPARK_TYPES) + index]


@pytest.mark.spark
def test_strings_of_every_length_have_sparks_hash(spark: Any) -> None:
    words = [(first + "0123456789" * 10)[:length] for first in "aé漢😀" for length in range(101)]
    frame = spark.createDataFrame(pa.table({"word": words}))
    assert ef.hash_keys(words).tolist() == spark_hashes(frame, [["word"]])[0]


@pytest.mark.spark
def test_unsigned_integers_have_the_hash_of_what_spark_reads_from_parquet(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(44)
    table = pa.table({name: sample(kind, ROWS, rng) for name, kind in PARQUET_TYPES.items()})
    pq.write_table(table, tmp_path / "unsigned.parquet")
    frame = spark.read.parquet(str(tmp_path / "unsigned.parquet"))
    assert [kind for _, kind in frame.dtypes] == ["smallint", "int", "bigint"]
    for name, expected in zip(
        table.column_names, spark_hashes(frame, [[n] for n in table.column_names]), strict=True
    ):
        assert ef.hash_keys(table[name]).tolist() == expected


@pytest.mark.spark
def test_a_file_and_its_arrow_table_have_the_same_hashes(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(45)
    names = [
        "string",
        "int64",
        "double",
        "float",
        "bool",
        "date32[day]",
        "timestamp[us]",
        "decimal128(38, 18)",
    ]
    table = pa.table({name: sample(SPARK_TYPES[name], ROWS, rng) for name in names})
    table = table.rename_columns([f"c{i}" for i in range(len(names))])
    pq.write_table(table, tmp_path / "keys.parquet")
    frame = spark.read.parquet(str(tmp_path / "keys.parquet"))
    assert ef.hash_keys(table).tolist() == spark_hashes(frame, [table.column_names])[0]


@pytest.mark.spark
@pytest.mark.parametrize(
    "values",
    [
        ["to", "be", None, ""],
        [b"to", bytearray(b"be"), None],
        [1, -1, None, 2**63 - 1],
        [1.5, float("nan"), -0.0, None],
        [True, False, None],
        [Decimal("1.5"), Decimal("-10.25"), None],
        [dt.date(2024, 2, 29), dt.date(1, 1, 1), None],
        [dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=dt.UTC), None],
        [dt.time(1, 2, 3, 4), None],
        [dt.timedelta(days=-3, microseconds=1), None],
        [[1, None, 3], [], None],
        [[Decimal("2.5")], None],
    ],
    ids=str,
)
def test_python_values_have_the_hash_of_what_spark_makes_of_them(spark: Any, values: list[Any]) -> None:
    frame = spark.createDataFrame([(value,) for value in values], ["key"])
    assert ef.hash_keys(values).tolist() == spark_hashes(frame, [["key"]])[0]


@pytest.mark.spark
@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["a", None, float("nan"), pd.NA], dtype=object),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1.5, None], dtype="Float64"),
        pd.Series(["a", "b", None], dtype="category"),
        pd.Series([dt.datetime(2024, 2, 29, 1, 2, 3, 4), None]),
        pd.Series([1.5, -0.0], dtype="float32"),
    ],
    ids=lambda column: str(column.dtype),
)
def test_pandas_columns_have_the_hash_of_what_spark_makes_of_them(spark: Any, column: pd.Series[Any]) -> None:
    frame = spark.createDataFrame(pd.DataFrame({"key": column}))
    assert ef.hash_keys(column).tolist() == spark_hashes(frame, [["key"]])[0]


@pytest.mark.spark
def test_nan_of_numpy_is_nan_in_spark_too(spark: Any) -> None:
    values = np.array([1.0, np.nan, -0.0])
    frame = spark.createDataFrame(values)
    assert ef.hash_keys(values).tolist() == spark_hashes(frame, [[frame.columns[0]]])[0]


def test_the_example_of_sparks_documentation() -> None:
    array = pa.array([[123]], pa.list_(pa.int32()))
    hashes = ef.hash_keys(["Spark"], array, np.array([2], np.int32))
    assert hashes.view(np.int64).tolist() == [5602566077635097486]


def test_a_router_hashes_what_is_not_hashed() -> None:
    words = ["to", "be", "or", "not", "to", "be"]
    routed = ef.scheme("key").router(workers=5, seed=3).route(words)
    assert routed.tolist() == ef.scheme("key").router(workers=5, seed=3).route(ef.hash_keys(words)).tolist()


# The hash family


uint64s = st.integers(0, plain.MASK)
salts = uint64s.map(np.uint64)


def reference(seed: int, workers: int) -> Reference:
    return Reference(ef.scheme("key"), workers, seed, 0, 1)


@given(uint64s, st.integers(0, 1000), st.integers(), st.integers(1, 2**20))
def test_candidates_are_those_of_plain_python(key: int, index: int, seed: int, n: int) -> None:
    worker = candidate(np.uint64(key), index, salt_of(seed), n)
    assert worker == reference(seed, n).candidate(key, index)
    assert 0 <= worker < n


@given(uint64s, st.integers())
def test_mix_and_salt_are_those_of_plain_python(value: int, seed: int) -> None:
    assert int(mix(np.uint64(value))) == plain.mix(value)
    assert int(salt_of(seed)) == plain.salt_of(seed)


@given(uint64s, st.integers(0, 99), st.integers(2, 60), st.booleans())
def test_the_second_candidate_is_that_of_plain_python(key: int, seed: int, n: int, distinct: bool) -> None:
    first = candidate(np.uint64(key), 0, salt_of(seed), n)
    second = second_candidate(np.uint64(key), first, salt_of(seed), n, distinct)
    assert [first, second] == reference(seed, n).candidates(key, 2, distinct)


@given(uint64s, salts)
def test_one_worker_is_every_candidate(key: int, salt: np.uint64) -> None:
    assert candidate(np.uint64(key), 3, salt, 1) == 0
    assert second_candidate(np.uint64(key), 0, salt, 1, True) == 0


def test_candidates_may_coincide_unless_asked_to_be_distinct() -> None:
    salt = salt_of(0)
    pairs = [
        (candidate(key, 0, salt, 5), second_candidate(key, candidate(key, 0, salt, 5), salt, 5, False))
        for key in np.arange(2000, dtype=np.uint64)
    ]
    coinciding = sum(first == second for first, second in pairs)
    assert coinciding == pytest.approx(2000 / 5, rel=0.15)


def chi_square(counts: Any) -> float:
    """The statistic's distance from its mean, in standard deviations."""
    cells = np.asarray(counts, np.float64).ravel()
    statistic = ((cells - cells.mean()) ** 2 / cells.mean()).sum()
    return float((statistic - (cells.size - 1)) / np.sqrt(2 * (cells.size - 1)))


# Keys in a row are the hardest for a weak mixer; hashed words are what routers get.
STREAMS = ["in a row", "high bits", "words"]


def keys_of(stream: str) -> Any:
    numbers = np.arange(20_000, dtype=np.uint64)
    if stream == "words":
        return ef.hash_keys([f"word {number}" for number in numbers])
    return numbers if stream == "in a row" else numbers << np.uint64(40)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("n", [7, 100])
@pytest.mark.parametrize("index", [0, 1, 9])
def test_candidates_are_uniform(stream: str, n: int, index: int) -> None:
    salt = salt_of(1)
    workers = [candidate(key, index, salt, n) for key in keys_of(stream)]
    assert abs(chi_square(np.bincount(workers, minlength=n))) < 5


@pytest.mark.parametrize("stream", STREAMS)
def test_candidates_of_two_indices_and_of_two_seeds_are_independent(stream: str) -> None:
    n = 8
    first, second, other = np.array(
        [
            (candidate(k, 0, salt_of(1), n), candidate(k, 1, salt_of(1), n), candidate(k, 0, salt_of(2), n))
            for k in keys_of(stream)
        ]
    ).T
    assert abs(chi_square(np.bincount(first * n + second, minlength=n * n))) < 5
    assert abs(chi_square(np.bincount(first * n + other, minlength=n * n))) < 5


def test_chi_square_sees_a_bias() -> None:
    assert chi_square(np.bincount(np.arange(20_000) % 100 // 2 * 2, minlength=100)) > 5
