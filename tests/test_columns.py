"""What becomes of lists, numpy arrays and pandas columns before they are hashed."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.keys.columns import as_column

NAN = float("nan")
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 7)


def _words(value: object) -> str:
    """The same test id in every process: some values have no repr that lasts."""
    return str(value) if isinstance(value, str | pa.DataType) else "values"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", None], pa.string()),
        ([b"a", bytearray(b"b"), memoryview(b"c")], pa.binary()),
        ([True, None, np.True_], pa.bool_()),
        ([1, None, np.int64(2)], pa.int64()),
        ([1.0, None, NAN, np.float64(2)], pa.float64()),
        ([Decimal("1.5"), None, Decimal(100)], pa.decimal128(38, 18)),
        ([dt.date(2024, 2, 29), None], pa.date32()),
        ([NOON, None], pa.timestamp("us")),
        ([dt.time(1, 2, 3, 4), None], pa.time64("us")),
        ([dt.timedelta(days=-1, microseconds=3), None], pa.duration("us")),
        ([[1, 2], None, (), [None]], pa.list_(pa.int64())),
        ([[Decimal("1.5")], [[Decimal(1)]][0]], pa.list_(pa.decimal128(38, 18))),
        ([np.int32(1), None], pa.int32()),
        ([np.float32(1), None], pa.float32()),
        ([None, None], pa.null()),
        ([], pa.null()),
    ],
    ids=_words,
)
def test_a_list_has_the_type_that_spark_infers(values: list[Any], kind: pa.DataType) -> None:
    expected = pa.array(values, kind)
    assert as_column(values).equals(expected) or as_column(values).to_pylist() == pytest.approx(
        expected.to_pylist(), nan_ok=True
    )
    assert as_column(values).type == kind
    assert ef.hash_keys(values).tolist() == ef.hash_keys(expected).tolist()
    assert ef.hash_keys(tuple(values)).tolist() == ef.hash_keys(expected).tolist()


@pytest.mark.parametrize(
    "keys",
    [
        [Decimal("1.5"), Decimal("10.25"), Decimal(7)],
        [1.0, NAN, 2.5],
        [NOON, dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))],
        [[1], [], [2, 3]],
        [dt.timedelta(seconds=1), pd.Timedelta(1500)],
        [pd.Timestamp(1999), pd.Timestamp(-1999)],
        ["a", pd.NA, None],
    ],
    ids=str,
)
def test_a_key_has_the_same_hash_whatever_comes_with_it(keys: list[Any]) -> None:
    together = ef.hash_keys(keys).tolist()
    assert together == [ef.hash_keys([key]).item() for key in keys]


def test_nulls_and_nan() -> None:
    nan = ef.hash_keys(pa.array([NAN])).item()
    one = ef.hash_keys([1.0]).item()
    assert ef.hash_keys(np.array([1.0, NAN])).tolist() == [one, nan]
    assert ef.hash_keys(pd.Series([1.0, NAN])).tolist() == [one, nan]
    assert ef.hash_keys([1.0, NAN, None, pd.NA]).tolist() == [one, nan, 42, 42]
    assert ef.hash_keys([NOON, pd.NaT]).tolist() == [ef.hash_keys([NOON]).item(), 42]
    assert ef.hash_keys([pd.NaT, pd.NA, None]).tolist() == [42, 42, 42]
    assert ef.hash_keys(pd.Series([1.0, NAN]).astype("Float64")).tolist() == [one, 42]
    assert ef.hash_keys(pd.Series([NOON, None])).tolist() == [ef.hash_keys([NOON]).item(), 42]


@pytest.mark.parametrize(
    "values", [["a"], [b"a"], [1], [True], [1.5], [Decimal(1)], [NOON], [dt.date(2024, 1, 1)], [[1, 2]], []]
)
def test_nan_in_an_object_column_is_missing(values: list[Any]) -> None:
    column = pd.Series([*values, NAN, None, pd.NA, pd.NaT], dtype=object)
    expected = [*ef.hash_keys(values).tolist(), 42, 42, 42, 42]
    assert ef.hash_keys(column).tolist() == expected
    assert ef.hash_keys(column.to_numpy()).tolist() == expected


@pytest.mark.parametrize(
    ("column", "same"),
    [
        (np.array([1, 2], np.int16), pa.array([1, 2], pa.int16())),
        (np.array([1, 2, 3, 4])[::2], pa.array([1, 3])),
        (np.array([1, 2], ">i4"), pa.array([1, 2], pa.int32())),
        (np.array([1.5, 2], ">f8"), pa.array([1.5, 2.0])),
        (np.array(["a", "héé"]), pa.array(["a", "héé"])),
        (np.array(["a", "héé"], np.dtypes.StringDType()), pa.array(["a", "héé"])),
        (np.array([b"a", b"bcd"]), pa.array([b"a", b"bcd"])),
        (np.array(["2024-02-29", "NaT"], "M8[D]"), pa.array([dt.date(2024, 2, 29), None])),
        (np.array([-1500, 7], "M8[ns]"), pa.array([-2, 0], pa.timestamp("us"))),
        (np.array([-1500, 7], "m8[ns]"), pa.array([-2, 0], pa.duration("us"))),
        (np.ma.array([1, 2], mask=[False, True]), pa.array([1, None])),
        (pd.Series([1, None], dtype="Int64"), pa.array([1, None])),
        (pd.Series([1, 2], dtype="uint8"), pa.array([1, 2], pa.int16())),
        (pd.Series([1, 2], dtype="uint32"), pa.array([1, 2], pa.int64())),
        (pd.Series(["a", None], dtype="string"), pa.array(["a", None])),
        (pd.Series(["a", None], dtype="string[pyarrow]"), pa.array(["a", None])),
        (pd.Series([True, None], dtype="boolean"), pa.array([True, None])),
        (pd.Series(["a", "b", None, "a"], dtype="category"), pa.array(["a", "b", None, "a"])),
        (pd.CategoricalIndex([2.5, 1.5, 2.5]), pa.array([2.5, 1.5, 2.5])),
        (pd.Series([1.5, None], dtype=pd.ArrowDtype(pa.float32())), pa.array([1.5, None], pa.float32())),
        (pd.DatetimeIndex(["2024-01-01"], tz="Asia/Tokyo"), pa.array([1704034800000000])),
        (pd.RangeIndex(3), pa.array([0, 1, 2])),
        (pd.Index(["x", "y"]), pa.array(["x", "y"])),
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}",
)
def test_typed_columns_keep_their_type(column: Any, same: pa.Array) -> None:
    assert ef.hash_keys(column).tolist() == ef.hash_keys(same).tolist()


def test_tables_stand_for_their_columns() -> None:
    numbers, words = [1, 2, None], ["a", None, "c"]
    expected = ef.hash_keys(numbers, words).tolist()
    frame = pd.DataFrame({"n": pd.array(numbers, dtype="Int64"), "w": words}, index=[7, 7, 8])
    table = pa.table({"n": numbers, "w": words})
    assert ef.hash_keys(frame).tolist() == expected
    assert ef.hash_keys(table).tolist() == expected
    assert ef.hash_keys(table.to_batches()[0]).tolist() == expected
    assert ef.hash_keys(frame["n"], table["w"]).tolist() == expected
    assert ef.hash_keys(pd.MultiIndex.from_frame(frame.iloc[:1])).tolist() == expected[:1]
    twins = pd.concat([frame["n"], frame["n"]], axis=1)  # two columns of one name
    assert ef.hash_keys(twins).tolist() == ef.hash_keys(numbers, numbers).tolist()


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1, 2.5], "mix the types float and int"),
        ([1, True], "mix the types bool and int"),
        ([1, "a"], "mix the types int and str"),
        (["a", b"a"], "mix the types bytes and str"),
        (["a", NAN], "mix the types float and str"),
        ([1, Decimal(1)], "mix the types Decimal and int"),
        ([dt.date(2024, 1, 1), NOON], "mix the types date and datetime"),
        ([np.int32(1), 1], "mix the types int and int32"),
        ([[1], [2.5]], "mix the types float and int"),
        ([[1], 2], "mix the types int and list"),
        ([{"a": 1}], "Python type dict"),
        ([{1}], "Python type set"),
        ([[{1}]], "Python type set"),
        ([object()], "Python type object"),
        ([1j], "Python type complex"),
        ([Colour.RED], "Python type Colour"),
        ([uuid.uuid4()], "Python type UUID"),
        ([np.float16(1)], "Python type float16"),
        ([2**63], "type int do not fit"),
        (["\ud800"], "type str do not fit"),
        ([Decimal(10) ** 30], "type Decimal do not fit"),
        ([Decimal("0.1") ** 19], "type Decimal do not fit"),
        ([np.uint64(1)], "uint64"),
    ],
    ids=_words,
)
def test_mixed_and_unhashable_objects_are_refused(values: list[Any], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        ef.hash_keys(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1, 2.5], "mix the types float and int"),
        ([True, 2.5], "mix the types bool and float"),
        (["a", 1], "mix the types int and str"),
        ([Decimal(1), 2.5], "mix the types Decimal and float"),
        ([{"a": 1}], "Python type dict"),
    ],
    ids=str,
)
def test_mixed_object_columns_are_refused(values: list[Any], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        ef.hash_keys(pd.Series(values, dtype=object))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ((), "no column to hash"),
        (("word",), "keys have type str; pass a list"),
        ((7,), "keys have type int"),
        (({"a"},), "keys have type set"),
        (([1], [1, 2]), r"\[1, 2\] values"),
        ((np.zeros((3, 2)),), "2 dimensions.*hash_keys"),
        ((np.array(5),), "0 dimensions"),
        ((pd.DataFrame(index=[1]),), "DataFrame has no columns"),
        ((pa.table({}),), "Table has no columns"),
        ((np.array([1], np.uint64),), "uint64.*already"),
        ((pd.Series([1], dtype="uint64"),), "uint64.*already"),
        ((np.array([1], "M8[h]"),), r"datetime64\[h\]"),
        ((np.array([1j]),), "complex128"),
        ((pd.Series(pd.period_range("2024", periods=2)),), "period"),
        ((pd.Series(pd.interval_range(0, 2)),), "interval"),
        ((pd.Series(pd.arrays.SparseArray([1, 0])),), "Sparse"),
        ((pa.table({"a": [1]}), [1]), "keys have type Table"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_column_is_refused(columns: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        ef.hash_keys(*columns)
