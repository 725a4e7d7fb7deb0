"""Hashes of every Arrow type against a plain-Python XXH64, without a JVM."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from arrow_samples import ALL_TYPES, POINT, SPARK_TYPES, sample
from evenflow.keys.hashing import SEED
from reference.xxhash import plain, spark_hash, xxh64


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
        (b"xxhash", 20141025, 13067679811253438005),
    ],
)
def test_reference_gives_published_values(data: bytes, seed: int, expected: int) -> None:
    assert xxh64(data, seed) == expected


def expected_hashes(array: Any) -> list[int]:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_nested(array.type) and "dictionary" in str(array.type):
        array = pa.array(array.to_pylist(), pa.list_(array.type.value_type.value_type))
    return [spark_hash(value, array.type) for value in plain(array)]


@pytest.mark.parametrize("kind", ALL_TYPES.values(), ids=ALL_TYPES.keys())
@pytest.mark.parametrize("nulls", [0.0, 0.3])
def test_every_type_is_hashed_as_the_reference_does(kind: pa.DataType, nulls: float) -> None:
    array = sample(kind, 200, np.random.default_rng(5), nulls)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hashes = ef.hash_keys(array)
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == expected_hashes(array)


@pytest.mark.parametrize("kind", ALL_TYPES.values(), ids=ALL_TYPES.keys())
def test_slices_and_chunks_are_hashed_like_the_whole(kind: pa.DataType) -> None:
    array = sample(kind, 100, np.random.default_rng(6))
    whole = ef.hash_keys(array)
    for first, count in ((0, 100), (1, 37), (13, 0), (8, 64), (99, 1)):
        assert ef.hash_keys(array.slice(first, count)).tolist() == whole[first : first + count].tolist()
    chunks = pa.chunked_array([array.slice(0, 9), array.slice(9, 0), array.slice(9)])
    assert ef.hash_keys(chunks).tolist() == whole.tolist()
    assert ef.hash_keys(pa.chunked_array([], kind)).size == 0
    assert ef.hash_keys(pa.nulls(3, kind)).tolist() == [42, 42, 42]


@pytest.mark.parametrize("first_byte", ["a", "é", "漢", "😀"])
def test_strings_of_every_length(first_byte: str) -> None:
    words = [(first_byte + "0123456789" * 10)[:length] for length in range(101)]
    expected = [xxh64(word.encode(), 42) for word in words]
    assert ef.hash_keys(words).tolist() == expected
    assert ef.hash_keys([word.encode() for word in words]).tolist() == expected


@given(st.lists(st.none() | st.binary(max_size=100)), st.integers(0, 7))
def test_random_bytes_wherever_they_lie(keys: list[bytes | None], shift: int) -> None:
    array = pa.array([b"x" * shift, *keys], pa.binary()).slice(1)
    assert ef.hash_keys(array).tolist() == [42 if key is None else xxh64(key, 42) for key in keys]


@given(st.lists(st.tuples(st.sampled_from(sorted(SPARK_TYPES)), st.integers(0, 99)), min_size=1, max_size=4))
def test_columns_are_chained(choice: list[tuple[str, int]]) -> None:
    columns = [sample(SPARK_TYPES[name], 20, np.random.default_rng(seed)) for name, seed in choice]
    running = [int(SEED)] * 20
    for column in columns:
        decoded = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        running = [
            spark_hash(value, decoded.type, seed) for value, seed in zip(plain(decoded), running, strict=True)
        ]
    assert ef.hash_keys(*columns).tolist() == running


def test_values_under_nulls_do_not_count() -> None:
    # Arrow allows a null struct to have values in its fields, and a null list to have elements.
    field = pa.array([1, 2, 3], pa.int64())
    structs = pa.StructArray.from_arrays([field], ["a"], mask=pa.array([False, True, False]))
    assert structs.field(0).null_count == 0
    assert ef.hash_keys(structs).tolist() == ef.hash_keys([1, None, 3]).tolist()
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), field, mask=structs.is_null())
    assert ef.hash_keys(lists).tolist() == ef.hash_keys([1, None, 3]).tolist()
    points = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), structs, mask=structs.is_null())
    assert ef.hash_keys(points).tolist() == ef.hash_keys([1, None, 3]).tolist()


def test_lists_fold_element_by_element_and_structs_field_by_field() -> None:
    points = [[{"name": "a", "x": 1, "y": 0.5}, {"name": "b", "x": 2, "y": None}], [], None]
    expected = ef.hash_keys(
        ["a"], np.array([1], np.int32), [0.5], ["b"], np.array([2], np.int32), pa.nulls(1, pa.float64())
    )
    assert ef.hash_keys(pa.array(points, pa.list_(POINT))).tolist() == [expected[0], 42, 42]


@pytest.mark.parametrize(
    "number",
    [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**63, -(2**63), 2**64 - 1, -(2**64), 10**38 - 1, 1 - 10**38],
)
def test_long_decimals_are_as_short_as_javas(number: int) -> None:
    length = ((number if number >= 0 else ~number).bit_length()) // 8 + 1
    expected = xxh64(number.to_bytes(length, "big", signed=True), 42)
    assert ef.hash_keys(pa.array([Decimal(number)], pa.decimal128(38, 0))).tolist() == [expected]


def test_dictionaries_of_any_size_and_place() -> None:
    words = [f"word {number}" for number in range(128)]
    codes = np.arange(128, dtype=np.int8)
    full = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words))
    assert ef.hash_keys(full).tolist() == ef.hash_keys(words).tolist()
    few = full.slice(3, 5)  # the dictionary is longer than the column
    assert ef.hash_keys(few).tolist() == ef.hash_keys(words[3:8]).tolist()
    with_nulls = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 1]), pa.array([None, "a"]))
    assert ef.hash_keys(with_nulls).tolist() == ef.hash_keys([None, None, "a", "a"]).tolist()
    assert ef.hash_keys([1, 2], full.slice(7, 2)).tolist() == ef.hash_keys([1, 2], words[7:9]).tolist()
    assert ef.hash_keys(words[::-1], full).tolist() == ef.hash_keys(words[::-1], words).tolist()


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (pa.uint64(), "uint64"),
        (pa.float16(), "halffloat"),
        (pa.map_(pa.string(), pa.int32()), "map<string, int32>"),
        (pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.int32()))])), "map<string, int32>"),
        (pa.dense_union([pa.field("a", pa.int32())]), "dense_union"),
        (pa.month_day_nano_interval(), "month_day_nano_interval"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "run_end_encoded"),
        (pa.list_view(pa.int32()), "list_view"),
        (pa.decimal256(39, 0), "decimal256\\(39, 0\\)"),
        (pa.decimal128(5, -2), "decimal128\\(5, -2\\)"),
    ],
    ids=str,
)
def test_other_types_are_refused_by_name_even_when_empty(kind: pa.DataType, named: str) -> None:
    with pytest.raises(ef.EvenflowError, match=named):
        ef.hash_keys(pa.chunked_array([], kind))


def test_values_outside_of_sparks_range_are_refused() -> None:
    with pytest.raises(ef.EvenflowError, match=r"timestamp\[s\].*cast"):
        ef.hash_keys(pa.array([2**62], pa.timestamp("s")))
    with pytest.raises(ef.EvenflowError, match=r"date64.*cast"):
        ef.hash_keys(pa.array([5], pa.int64()).view(pa.date64()))
