"""Streams from files: every kind, every row, the hash of the key, a sentence for what is damaged."""

from __future__ import annotations

import bz2
import datetime
import decimal
import gzip
import json
import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.streams import Stream, open_stream, open_table
from evenflow.streams import data_file as data_file_module
from evenflow.streams import tables as tables_module
from evenflow.streams.numbering import KeyNumbers
from evenflow.streams.sample import take_sample

WORDS = ["to", "be", "or", None, "not", "to", "be", "Ünïcode ☃", "", "to", None, "a,b", 'say "x"', "be"]
TIMES = [float(i) for i in range(len(WORDS))]


def numbered(values: Sequence[Any]) -> list[int]:
    """The slow way to number keys in the order in which they appear."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def ids_of(stream: Stream, size: int = 1 << 20) -> list[int]:
    return [int(id) for chunk in stream.chunks(size) for id in chunk.ids]


def times_of(stream: Stream) -> list[float]:
    times: list[float] = []
    for chunk in stream.chunks():
        assert chunk.times is not None
        times += chunk.times.tolist()
    return times


def words_table(copies: int = 1) -> Any:
    times = [float(i) for i in range(len(WORDS) * copies)]
    return pa.table({"n": list(range(len(times))), "key": WORDS * copies, "ts": times})


def write_parquet(path: Path, table: Any) -> None:
    pq.write_table(table, path, row_group_size=5)


def write_arrow_file(path: Path, table: Any) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)


def write_arrow_stream(path: Path, table: Any) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    path.write_bytes(packed(path, sink.getvalue().to_pybytes()))


def write_csv(path: Path, table: Any) -> None:
    options = pa.csv.WriteOptions(delimiter="\t" if ".tsv" in path.name else ",")
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(table, sink, options)
    path.write_bytes(packed(path, sink.getvalue().to_pybytes()))


def write_json(path: Path, table: Any) -> None:
    path.write_bytes(packed(path, "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()))


def packed(path: Path, data: bytes) -> bytes:
    if path.suffix == ".gz":
        return gzip.compress(data)
    if path.suffix == ".bz2":
        return bz2.compress(data)
    if path.suffix in (".zst", ".lz4"):
        codec = {".zst": "zstd", ".lz4": "lz4"}[path.suffix]
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return bytes(sink.getvalue().to_pybytes())
    return data


WRITERS: dict[str, Callable[[Path, Any], None]] = {
    "rows.parquet": write_parquet,
    "rows.pq": write_parquet,
    "rows.arrow": write_arrow_file,
    "rows.feather": write_arrow_file,
    "rows.ipc": write_arrow_stream,
    "rows.arrows": write_arrow_stream,
    "rows.arrows.zst": write_arrow_stream,
    "rows.csv": write_csv,
    "rows.CSV": write_csv,
    "rows.tsv": write_csv,
    "rows.csv.gz": write_csv,
    "rows.csv.zst": write_csv,
    "rows.csv.bz2": write_csv,
    "rows.csv.lz4": write_csv,
    "rows.jsonl": write_json,
    "rows.ndjson.gz": write_json,
    "rows.json.zst": write_json,
}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read so little at a time that a short file has many blocks."""
    monkeypatch.setattr(data_file_module, "BLOCK", 64)
    monkeypatch.setattr(tables_module, "BLOCK", 128)
    monkeypatch.setattr(tables_module, "ROWS", 3)


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_gives_the_same_stream(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name, words_table())
    stream = open_stream(f"{tmp_path / name}#key@ts")
    assert ids_of(stream) == numbered(WORDS)
    assert times_of(stream) == TIMES
    labels = [stream.label(id) for id in range(len(stream.hashes))]
    distinct = list(dict.fromkeys(WORDS))
    assert labels == ["null" if word is None else word for word in distinct]
    assert np.array_equal(stream.hashes, ef.hash_keys(distinct))
    assert stream.messages in (None, len(WORDS))
    assert stream.keys_upper_bound() is None


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", WRITERS)
def test_blocks_and_chunks_leave_no_trace(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name, words_table(copies=20))
    stream = open_stream(f"{tmp_path / name}#key@ts")
    for size in (1, 7, 100, 280, 1000):
        chunks = list(stream.chunks(size))
        assert all(chunk.ids.size == size for chunk in chunks[:-1])
        assert [int(id) for chunk in chunks for id in chunk.ids] == numbered(WORDS * 20)
        assert [t for c in chunks for t in (c.times.tolist() if c.times is not None else [])] == [
            float(i) for i in range(280)
        ]


@pytest.mark.usefixtures("small_blocks")
def test_two_passes_at_once_agree(tmp_path: Path) -> None:
    write_parquet(tmp_path / "rows.parquet", words_table(copies=5))
    stream = open_stream(str(tmp_path / "rows.parquet"))
    slow, fast = stream.chunks(4), stream.chunks(9)
    one = [next(slow).ids]
    two = [chunk.ids for chunk in fast]
    one += [chunk.ids for chunk in slow]
    assert np.concatenate(one).tolist() == np.concatenate(two).tolist() == numbered(WORDS * 5)


def test_hashes_cover_what_was_read(tmp_path: Path) -> None:
    keys = np.random.default_rng(1).permutation(30_000)
    pq.write_table(pa.table({"key": keys}), tmp_path / "k.parquet", row_group_size=1000)
    stream = open_stream(str(tmp_path / "k.parquet"))
    read = 0
    for chunk in stream.chunks(777):
        read += chunk.ids.size
        assert np.array_equal(stream.hashes[chunk.ids], ef.hash_keys(keys[read - chunk.ids.size : read]))
    assert stream.hashes.size == read == 30_000
    assert stream.label(29_999) == str(keys[-1])


@given(
    keys=st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 50), max_size=300),
    cuts=st.lists(st.integers(0, 300), max_size=4),
    room=st.integers(1, 8),
)
def test_numbers_are_given_in_order_of_appearance(keys: list[int], cuts: list[int], room: int) -> None:
    numbers = KeyNumbers(room)
    hashes = np.array(keys, np.uint64)
    ids: list[int] = []
    fresh: list[int] = []
    begin = 0
    for part in np.split(hashes, sorted(min(cut, hashes.size) for cut in cuts)):
        found, rows = numbers.of(part)
        ids += found.tolist()
        fresh += (rows + begin).tolist()
        begin += part.size
    assert ids == numbered(keys)
    assert fresh == [row for row, key in enumerate(keys) if key not in keys[:row]]
    assert len(numbers) == len(set(keys))


TYPED = {
    "int64": pa.array([5, -1, 5, None, 2**62]),
    "int32": pa.array([5, -1, 5, None, 7], pa.int32()),
    "uint8": pa.array([5, 255, 5, None, 7], pa.uint8()),
    "double": pa.array([0.5, -1.0, 0.5, None, 1e300]),
    "bool": pa.array([True, False, True, None, False]),
    "date": pa.array([datetime.date(2024, 1, 31), None, datetime.date(1969, 1, 1)]),
    "timestamp": pa.array([1, 2, 1, None], pa.timestamp("ms", "UTC")),
    "decimal": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
    "binary": pa.array([b"\xff\x00", None, b"ab", b"\xff\x00"]),
    "large_string": pa.array(["a", None, "b", "a"], pa.large_string()),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([2, 1, 2, None]), ["never", "b", "a"]),
    "list": pa.array([[1, 2], None, [2, 1], [1, 2]]),
    "struct": pa.array([{"x": 1, "y": "a"}, {"x": 2, "y": "a"}, {"x": 1, "y": "a"}]),
}


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
@pytest.mark.parametrize("kind", TYPED)
def test_a_key_is_hashed_as_its_type(kind: str, ending: str, tmp_path: Path) -> None:
    column = TYPED[kind]
    path = tmp_path / f"typed.{ending}"
    {"arrow": write_arrow_file, "parquet": write_parquet}[ending](
        path, pa.table({"k": column, "n": range(len(column))})
    )
    stream = open_stream(f"{path}#k")
    ids = np.array(ids_of(stream))
    assert ids.tolist() == numbered([str(value) for value in column.to_pylist()])
    assert np.array_equal(stream.hashes[ids], ef.hash_keys(column))
    assert all(stream.label(int(id)) for id in ids)


def test_uint64_keys_are_what_spark_makes_of_them(tmp_path: Path) -> None:
    column = pa.array([2**64 - 1, 3, 2**64 - 1], pa.uint64())
    write_arrow_file(tmp_path / "u.arrow", pa.table({"key": column}))
    stream = open_stream(str(tmp_path / "u.arrow"))
    assert ids_of(stream) == [0, 1, 0]
    assert np.array_equal(stream.hashes, ef.hash_keys(column.cast(pa.decimal128(20, 0)))[:2])
    assert stream.label(0) == str(2**64 - 1)


def test_several_columns_are_one_key(tmp_path: Path) -> None:
    first = ["x", None, "x", "y", None, "x", None]
    second = [None, "x", "y", "x", None, None, "x"]
    number = [1, 1, 1, 1, 1, 1, 2]
    table = pa.table({"a": first, "b": second, "n": number})
    write_parquet(tmp_path / "ab.parquet", table)
    stream = open_stream(f"{tmp_path / 'ab.parquet'}#a+b")
    ids = ids_of(stream)
    assert ids == [
        0,
        1,
        2,
        3,
        4,
        0,
        1,
    ]  # (x, null) and (null, x) are two keys, though Spark's hash is the same
    assert np.array_equal(stream.hashes[ids], ef.hash_keys(first, second))
    assert [stream.label(id) for id in range(5)] == ["x, null", "null, x", "x, y", "y, x", "null, null"]
    for key in (["a", "n"], ("a", "n"), "a+n"):
        both = open_stream(str(tmp_path / "ab.parquet"), key=key)
        ids = ids_of(both)
        assert np.array_equal(both.hashes[ids], ef.hash_keys(first, number))


def test_a_null_key_is_a_key(tmp_path: Path) -> None:
    write_parquet(tmp_path / "n.parquet", pa.table({"key": pa.array([None, "a", None, None])}))
    stream = open_stream(str(tmp_path / "n.parquet"))
    assert ids_of(stream) == [0, 1, 0, 0]
    assert stream.label(0) == "null"
    assert stream.hashes.tolist() == ef.hash_keys([None, "a"]).tolist()


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl", "rows.arrow"])
def test_only_null_keys_are_refused(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name, pa.table({"n": [1, 2], "k": pa.nulls(2, pa.string())}))
    stream = open_stream(f"{tmp_path / name}#k")
    with pytest.raises(
        ef.EvenflowError, match=r"every key of .*rows\.\w+#k is null; choose another of the columns n, k"
    ):
        ids_of(stream)
    both = open_stream(f"{tmp_path / name}#k+n")
    assert ids_of(both) == [0, 1]


# CSV --------------------------------------------------------------------------------------------------------


def csv(tmp_path: Path, text: str | bytes, name: str = "t.csv") -> str:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_csv_keys_are_text(tmp_path: Path) -> None:
    stream = open_stream(csv(tmp_path, 'key,n\n007,1\n7,2\n7.0,3\n85123A,4\n,5\n"",6\nnull,7\nNA,8\n'))
    labels = ["007", "7", "7.0", "85123A", None, "", "null", "NA"]
    assert ids_of(stream) == list(range(8))
    assert np.array_equal(stream.hashes, ef.hash_keys(labels))


def test_csv_fields_may_hold_line_ends_and_commas(tmp_path: Path) -> None:
    stream = open_stream(csv(tmp_path, '\ufeffkey,n\r\n"a\r\nb",1\r\n"c,d",2\r\n"say ""x""",3\r\n'))
    ids_of(stream)
    assert [stream.label(id) for id in range(3)] == ["a\r\nb", "c,d", 'say "x"']


@pytest.mark.parametrize("damage", ["1,2,3", "1", '"open,2'])
def test_a_damaged_csv_row_is_named(damage: str, tmp_path: Path) -> None:
    path = csv(tmp_path, "key,n\n" + "1,2\n" * 40 + damage + "\n" + "1,2\n" * 40)
    with pytest.raises(ef.EvenflowError, match=r"cannot read .*t\.csv as CSV: .*Row #42.*Expected 2 columns"):
        ids_of(open_stream(path))


def test_csv_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = csv(tmp_path, b"key,n\na,1\nZ\xfcrich,2\n")
    with pytest.raises(ef.EvenflowError, match=r"Row #3: .*invalid UTF8"):
        ids_of(open_stream(path))


# JSON lines -------------------------------------------------------------------------------------------------


def lines(tmp_path: Path, *rows: str | bytes) -> str:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join(row.encode() if isinstance(row, str) else row for row in rows))
    return str(path)


def test_json_keys_keep_their_type(tmp_path: Path) -> None:
    stream = open_stream(
        lines(tmp_path, '{"key": 1, "o": {"x": 1}}', "", '{"key": null}', '{"o": 3}', '{"key": 2}'), "key"
    )
    assert ids_of(stream) == [0, 1, 1, 2]
    assert np.array_equal(stream.hashes, ef.hash_keys([1, None, 2]))
    stream = open_stream(lines(tmp_path, '{"key": "2024-01-31 12:00:00"}', '{"key": "2024-01-31"}'))
    assert ids_of(stream) == [0, 1]
    assert np.array_equal(stream.hashes, ef.hash_keys(["2024-01-31 12:00:00", "2024-01-31"]))


@pytest.mark.usefixtures("small_blocks")
def test_json_fields_may_come_late(tmp_path: Path) -> None:
    rows = ['{"key": null, "n": 1}'] * 20 + ['{"n": 1}'] * 20 + ['{"key": "a"}', '{"key": "b"}'] * 20
    stream = open_stream(lines(tmp_path, *rows))
    assert ids_of(stream) == [0] * 40 + [1, 2] * 20
    assert [stream.label(id) for id in range(3)] == ["null", "a", "b"]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("blank", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ('{"key": ', "is not a JSON object; every line must be"),
        ('{"key": 1', "is not a JSON object"),
        ("[1, 2]", "is not a JSON object"),
        ("7", "is not a JSON object"),
        ('{"key": "x"}', "has 'x' in 'key', which was int64 before; use one type"),
        ('{"key": 1.5}', "has 1.5 in 'key', which was int64 before"),
        ('{"key": true}', "has True in 'key', which was int64"),
        ('{"key": 9223372036854775808}', "has 9223372036854775808 in 'key', which was int64"),
        ('{"key": 1, "key": 2}', "cannot be read: JSON parse error: .*specified twice"),
    ],
)
def test_a_damaged_json_line_is_named(damage: str, sentence: str, blank: str, tmp_path: Path) -> None:
    rows = ['{"key": 1}'] * 40 + [blank + damage] + ['{"key": 1}'] * 40
    with pytest.raises(ef.EvenflowError, match=rf"^line {41 + len(blank)} of .*t\.jsonl {sentence}"):
        ids_of(open_stream(lines(tmp_path, *rows)))


def test_json_that_is_not_lines_of_plain_fields_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ef.EvenflowError, match=r"line 1 of .* is not a JSON object"):
        open_stream(lines(tmp_path, "[", '{"key": 1},', '{"key": 2}', "]"))
    path = lines(tmp_path, '{"key": null}', '{"key": {"a": 1}}')
    with pytest.raises(
        ef.EvenflowError, match=r"line 2 of .* has {\"a\": 1} in 'key'; keys and times must be text"
    ):
        ids_of(open_stream(path))


@pytest.mark.usefixtures("small_blocks")
def test_other_json_fields_may_be_anything(tmp_path: Path) -> None:
    others = ['{"x": 1}', '"text"', "[1, {}]", "null", "12345678901234567890"]
    rows = [
        f'{{"o": {other}, "key": "k{i % 3}", "ts": {i % 2 / 2 + i}}}' for i, other in enumerate(others * 9)
    ]
    stream = open_stream(lines(tmp_path, *rows), key="key", time="ts")
    assert ids_of(stream) == [i % 3 for i in range(45)]
    assert times_of(stream)[:4] == [
        0,
        1.5,
        2,
        3.5,
    ]  # a time may go from whole to broken numbers, a key may not


# Text -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz", "t.text.zst"])
def test_text_is_split_into_words(name: str, tmp_path: Path) -> None:
    text = "  To be,\tor not\r\nto be:\n\n that is  the question \u2003☃ " * 10 + "longer" * 40 + " end"
    path = tmp_path / name
    path.write_bytes(packed(path, text.encode()))
    stream = open_stream(f"{path}#word")
    words = re.split(r"[ \t\r\n]+", text.strip(" "))  # only ASCII white space separates
    ids = ids_of(stream)
    assert [stream.label(id) for id in ids] == words
    assert np.array_equal(stream.hashes[ids], ef.hash_keys(words))
    assert open_stream(str(path)).name == f"{path}#word"


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes("Grüße aus Zürich".encode("latin-1"))
    with pytest.raises(
        ef.EvenflowError, match=r"has text that is not UTF-8 after row 0; convert the file to UTF-8"
    ):
        open_stream(str(tmp_path / "t.txt"))


# Times ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "seconds"),
    [
        (pa.array([1, 2, 3]), [1, 2, 3]),
        (pa.array([0.5, 1.5, 1.5]), [0.5, 1.5, 1.5]),
        (pa.array([1, 2, 3], pa.uint16()), [1, 2, 3]),
        (pa.array([1500, 2500, 2501], pa.timestamp("ms")), [1.5, 2.5, 2.501]),
        (pa.array([1500, 2500, 2501], pa.timestamp("ns", "Europe/Berlin")), [1.5e-6, 2.5e-6, 2.501e-6]),
        (pa.array([0, 1, 2], pa.date32()), [0, 86400, 172800]),
        (pa.array([0, 86400000, 172800000], pa.date64()), [0, 86400, 172800]),
        (pa.array([1, 2, 3], pa.duration("s")), [1, 2, 3]),
        (pa.array([1, 2, 3], pa.time32("ms")), [0.001, 0.002, 0.003]),
        (
            pa.array([decimal.Decimal("1.25"), decimal.Decimal("2.50"), decimal.Decimal("3.00")]),
            [1.25, 2.5, 3],
        ),
        (pa.array(["1", "2.5", "3e1"]), [1, 2.5, 30]),
        (
            pa.array(["1970-01-01 00:00:01", "1970-01-02T00:00:00", "1970-01-02 00:00:00.5"]),
            [1, 86400, 86400.5],
        ),
        (
            pa.array(["1970-01-01T00:00:01Z", "1970-01-01T02:00:00+01:00", "1970-01-02T00:00:00Z"]),
            [1, 3600, 86400],
        ),
        (pa.array(["1", "2", "3"]).dictionary_encode(), [1, 2, 3]),
        (pa.array([5, 3, 7]), [5, 5, 7]),
    ],
    ids=str,
)
def test_times_become_seconds(column: Any, seconds: list[float], tmp_path: Path) -> None:
    write_arrow_file(tmp_path / "t.arrow", pa.table({"key": ["a", "b", "c"], "when": column}))
    assert times_of(open_stream(str(tmp_path / "t.arrow"), time="when")) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_late_rows_arrive_with_those_before_them(tmp_path: Path) -> None:
    said = [float(t) for t in np.random.default_rng(1).integers(0, 100, 50)]
    write_parquet(tmp_path / "t.parquet", pa.table({"key": ["a"] * 50, "ts": said}))
    stream: Any = open_stream(str(tmp_path / "t.parquet"), time="ts")
    arrived = np.maximum.accumulate(said)
    assert times_of(stream) == arrived.tolist()
    assert stream.late == int((arrived > said).sum()) > 0


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (pa.array([1, None, 3]), "row 2 has no time in column 'ts'; fix the value, or read without"),
        (pa.array([1.0, 2.0, float("nan")]), "row 3 has a time that is not finite"),
        (pa.array([1.0, float("inf"), 2.0]), "row 2 has a time that is not finite"),
        (
            pa.array(["1", "soon", "3"]),
            "row 2 has 'soon' in time column 'ts'; times must be seconds",
        ),
        (pa.array(["1", "2024-01-31", "3"]), "mixes numbers and dates; use one format"),
        (
            pa.array([True, False, True]),
            "time column 'ts' has type bool; use a column of timestamps, dates or numbers",
        ),
    ],
    ids=str,
)
def test_bad_times_get_a_sentence(column: Any, sentence: str, tmp_path: Path) -> None:
    write_arrow_file(tmp_path / "t.arrow", pa.table({"key": ["a", "b", "c"], "ts": column}))
    with pytest.raises(ef.EvenflowError, match=sentence):
        open_stream(str(tmp_path / "t.arrow"), time="ts")


# Folders ----------------------------------------------------------------------------------------------------


def test_a_folder_is_its_files_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "day"
    (folder / "part").mkdir(parents=True)
    write_csv(folder / "b.csv", pa.table({"key": ["b"], "x": [1]}))
    write_json(folder / "c.jsonl", pa.table({"key": ["c"]}))
    write_parquet(folder / "a.parquet", pa.table({"x": [1, 2], "key": ["a", "b"]}))
    write_csv(folder / "part" / "d.csv.gz", pa.table({"key": ["d"]}))
    for hidden in ("_SUCCESS", ".a.parquet.crc", "part/_temporary.csv"):
        (folder / hidden).write_text("no data")
    stream = open_stream(str(folder))
    assert [stream.label(id) for id in ids_of(stream)] == ["a", "b", "b", "c", "d"]
    assert stream.messages is None
    only = open_stream(f"{folder}/*.csv#key")
    assert [only.label(id) for id in ids_of(only)] == ["b"]
    everywhere = open_stream(f"{folder}/**/*.csv*#key")
    assert [everywhere.label(id) for id in ids_of(everywhere)] == ["b", "d"]


def test_files_of_parquet_know_their_length(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_parquet(tmp_path / f"{name}.parquet", words_table())
    assert open_stream(f"{tmp_path}#key").messages == 2 * len(WORDS)


def test_the_files_of_a_folder_must_agree(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", pa.table({"key": [1, 2]}))
    write_parquet(tmp_path / "b.parquet", pa.table({"key": ["1", "2"]}))
    with pytest.raises(
        ef.EvenflowError,
        match=r"column 'key' is string in .*b\.parquet but int64 before; cast it to one type",
    ):
        ids_of(open_stream(str(tmp_path)))
    write_parquet(tmp_path / "b.parquet", pa.table({"kee": [1, 2]}))
    with pytest.raises(ef.EvenflowError, match=r"b\.parquet has no column 'key'; did you mean 'kee'"):
        open_stream(str(tmp_path))
    write_parquet(tmp_path / "b.parquet", pa.table({"key": pa.nulls(2)}))
    assert ids_of(open_stream(str(tmp_path))) == [0, 1, 2, 2]


# Damage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name in WRITERS if name not in ("rows.csv", "rows.CSV", "rows.tsv")]
)
def test_a_cut_file_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path, words_table(copies=50))
    whole = path.read_bytes()
    half = whole[: len(whole) // 2].rstrip(b"}\n")  # a text that is cut between two lines looks whole
    path.write_bytes(half)
    with pytest.raises(ef.EvenflowError, match=r"cannot read|cannot be read|is not a JSON object"):
        ids_of(open_stream(f"{path}#key"))


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.csv.gz", "x.jsonl.zst", "x.jsonl"])
def test_a_file_of_another_kind_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"this is, after all, only text\n" * 9)
    with pytest.raises(ef.EvenflowError, match=rf"{name} "):
        ids_of(open_stream(f"{tmp_path / name}#key"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", b""),
        ("e.csv", b"key,n\n"),
        ("e.jsonl", b""),
        ("e.jsonl", b"\n\n"),
        ("e.txt", b""),
        ("e.txt", b" \n\t"),
        ("e.parquet", b""),
        ("e.arrow", b""),
    ],
)
def test_empty_data_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ef.EvenflowError, match=r"e\.\w+ has no rows|cannot read .*e\.\w+ as"):
        open_stream(str(tmp_path / name))


def test_tables_without_rows_are_refused(tmp_path: Path) -> None:
    empty = pa.table({"key": pa.array([], pa.string())})
    for name in ("rows.parquet", "rows.arrow", "rows.arrows"):
        WRITERS[name](tmp_path / name, empty)
        with pytest.raises(ef.EvenflowError, match="has no rows; a stream needs at least one"):
            open_stream(str(tmp_path / name))


# Memory and speed of thought --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl", "rows.arrows"])
def test_the_rows_are_never_all_in_memory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_module, "ROWS", 1000)
    monkeypatch.setattr(tables_module, "BLOCK", 1 << 14)
    monkeypatch.setattr(data_file_module, "BLOCK", 1 << 14)
    rows = 400_000
    table = pa.table({"key": [f"key number {i % 10}" for i in range(rows)]})
    path = tmp_path / name
    if name == "rows.parquet":
        pq.write_table(table, path, row_group_size=10_000, use_dictionary=False)
    elif name == "rows.arrows":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    else:
        WRITERS[name](path, table)
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    try:
        assert sum(chunk.ids.size for chunk in open_stream(f"{path}#key").chunks(1000)) == rows
    finally:
        pa.set_memory_pool(usual)
    assert 0 < counted.max_memory() < table.nbytes / 4


def test_a_stream_travels_to_another_process_by_its_spelling(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", words_table())
    stream = open_stream(f"{tmp_path / 'rows.csv'}#key+n@ts")
    again = pickle.loads(pickle.dumps(stream))
    assert again.name == stream.name
    assert ids_of(again) == ids_of(stream)
    with pytest.raises(ef.EvenflowError, match="id is 14; the ids read so far are 0 to 13"):
        again.label(14)


FRAME = {"user": ["ann", "bob", "ann", None, "ann", "cy"] * 50, "day": [16, 16, 17, 17, 18, 18] * 50}


def counted(stream: Stream) -> dict[tuple[str, int], int]:
    """Return how often each key came, by its label and hash."""
    ids = np.concatenate([chunk.ids for chunk in stream.chunks()])
    return {
        (stream.label(id), int(stream.hashes[id])): int(count)
        for id, count in enumerate(np.bincount(ids))
        if count
    }


@pytest.mark.parametrize("key", [["user"], ["day"], ["user", "day"]])
def test_frames_and_tables_are_read_as_files_are(tmp_path: Path, key: list[str]) -> None:
    """The same keys and hashes, wherever the rows are; a partition's column is an int, as Spark has it."""
    table = pa.table(FRAME).set_column(1, "day", pa.array(FRAME["day"], pa.int32()))
    pq.write_table(table, tmp_path / "one.parquet")
    wanted = counted(open_stream(str(tmp_path / "one.parquet"), key=key))
    deltalake.write_deltalake(str(tmp_path / "delta"), table.slice(0, 100))
    deltalake.write_deltalake(str(tmp_path / "delta"), table.slice(100), mode="append")
    deltalake.write_deltalake(str(tmp_path / "by_day"), table, partition_by=["day"])
    pq.write_to_dataset(table, str(tmp_path / "hive"), partition_cols=["day"])
    pq.write_table(table.slice(0, 90), tmp_path / "first.parquet")
    pq.write_table(table.slice(90), tmp_path / "second.parquet")
    (tmp_path / "hive" / "_SUCCESS").write_text("")
    several = [tmp_path / "first.parquet", str(tmp_path / "second.parquet")]
    for stream in (
        open_table(table, key),
        open_table(table.to_pandas(), key),
        open_stream(several, key=key),  # type: ignore[arg-type]
        open_stream(str(tmp_path / "delta"), key=key),
        open_stream(str(tmp_path / "by_day"), key=key),
        open_stream(str(tmp_path / "hive"), key=key),
    ):
        assert counted(stream) == wanted, stream.name
        assert stream.messages == 300
        some = take_sample(stream, 60)
        assert (some.messages, some.total) == (60, 300)
        assert len(set(some.ids.tolist())) > 1
        assert counted(pickle.loads(pickle.dumps(stream))) == wanted


def test_deleted_rows_of_a_delta_table_are_not_read(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path), pa.table(FRAME))
    deltalake.DeltaTable(str(tmp_path)).delete("user = 'ann'")
    found = counted(open_stream(str(tmp_path), key="user"))
    assert {label: rows for (label, _), rows in found.items()} == {"bob": 50, "cy": 50, "null": 50}


def test_what_a_frame_lacks_is_a_sentence() -> None:
    table = pa.table(FRAME)
    with pytest.raises(ef.EvenflowError, match="no columns 'usr'"):
        open_table(table, "usr")
    with pytest.raises(ef.EvenflowError, match="name the key column"):
        open_table(table, None)
    with pytest.raises(ef.EvenflowError, match="no file in an empty list"):
        open_stream([])
