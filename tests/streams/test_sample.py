"""A bounded part of a stream: which messages it has, and that it is a stream like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from evenflow.errors import EvenflowError
from evenflow.streams import open_stream
from evenflow.streams.sample import take_sample


def _parquet(path: Path, rows: int, group: int, first: int = 0) -> None:
    numbers = list(range(first, first + rows))
    pyarrow.parquet.write_table(pa.table({"key": numbers, "ts": numbers}), path, row_group_size=group)


@pytest.mark.parametrize("limit", [None, 1000, 2000])
def test_a_stream_within_the_limit_is_taken_whole(limit: int | None) -> None:
    stream = open_stream("zipf:keys=50,messages=1000,rate=10")
    sample = take_sample(stream, limit)
    whole = next(stream.chunks())
    assert sample.ids.tolist() == whole.ids.tolist()
    assert sample.times is not None
    assert whole.times is not None
    assert sample.times.tolist() == whole.times.tolist()
    assert (sample.messages, sample.total, sample.how, sample.name) == (1000, 1000, "", stream.name)
    assert sample.label(3) == stream.label(3)


def test_chunks_are_the_sample_in_order() -> None:
    sample = take_sample(open_stream("zipf:keys=50,messages=1000,rate=10"), None)
    chunks = list(sample.chunks(300))
    assert [chunk.ids.size for chunk in chunks] == [300, 300, 300, 100]
    assert np.concatenate([chunk.ids for chunk in chunks]).tolist() == sample.ids.tolist()
    assert sample.keys_upper_bound() == sample.hashes.size == 50


def test_a_generator_gives_blocks_from_its_start_to_its_end() -> None:
    stream = open_stream("uniform:keys=100000,messages=100000,rate=1")
    sample = take_sample(stream, 1000)
    assert sample.messages == 1000
    assert sample.how == "1,000 of 100,000 messages, in 100 blocks spread over the stream"
    assert sample.times is not None
    assert sample.times[0] == 0
    assert sample.times[-1] == 99_999
    gaps = np.diff(sample.times)
    assert np.count_nonzero(gaps > 1) == 99
    assert (gaps[gaps > 1] < 1100).all()
    whole = next(stream.chunks())
    assert sample.ids.tolist() == whole.ids[sample.times.astype(int)].tolist()


def test_parquet_gives_the_beginning_of_every_row_group_by_its_size(tmp_path: Path) -> None:
    _parquet(tmp_path / "a.parquet", 250, 100)
    sample = take_sample(open_stream(f"{tmp_path}/a.parquet#key@ts"), 50)
    assert sample.times is not None
    assert sample.times.tolist() == [*range(20), *range(100, 120), *range(200, 210)]
    assert sample.total == 250
    assert sample.how == "50 of 250 messages, from the beginning of every row group of the file"


def test_of_several_files_each_gives_a_part(tmp_path: Path) -> None:
    _parquet(tmp_path / "a.parquet", 300, 1000)
    _parquet(tmp_path / "b.parquet", 100, 1000, first=1000)
    sample = take_sample(open_stream(f"{tmp_path}#key@ts"), 40)
    assert sample.times is not None
    assert sample.times.tolist() == [*range(30), *range(1000, 1010)]
    assert sample.total == 400
    assert "2 files" in sample.how


def test_of_several_files_of_unknown_length_each_gives_a_part(tmp_path: Path) -> None:
    for name, first in (("a", 1000), ("b", 2000)):
        lines = "\n".join(str(first + row) for row in range(500))
        (tmp_path / f"{name}.csv").write_text(f"key\n{lines}\n")
    sample = take_sample(open_stream(str(tmp_path)), 100)
    labels = [sample.label(int(id)) for id in sample.ids]
    assert labels == [str(1000 + row) for row in range(50)] + [str(2000 + row) for row in range(50)]
    assert sample.total is None
    assert sample.how == ("100 messages, from the beginning of each of 2 files; the total is unknown")


def test_one_file_of_unknown_length_gives_its_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("key\n" + "\n".join(str(row) for row in range(500)) + "\n")
    sample = take_sample(open_stream(str(path)), 100)
    assert [sample.label(int(id)) for id in sample.ids] == [str(row) for row in range(100)]
    assert sample.total is None
    assert sample.how == "the first 100 messages; the total is unknown"
    exact = take_sample(open_stream(str(path)), 500)
    assert (exact.messages, exact.total, exact.how) == (500, 500, "")


def test_a_sample_of_nulls_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("key,other\n" + ",1\n" * 500 + "x,1\n")
    with pytest.raises(EvenflowError, match=r"every key of .* is null"):
        take_sample(open_stream(str(path), key="key"), 100)
    assert take_sample(open_stream(str(path), key="key"), 1000).messages == 501


def test_a_sample_has_a_message() -> None:
    with pytest.raises(EvenflowError, match="limit is 0; it must be at least 1"):
        take_sample(open_stream("zipf"), 0)


def test_reading_says_how_far_it_is() -> None:
    said: list[int] = []
    take_sample(open_stream("zipf:messages=1e6,keys=10"), None, said.append)
    assert said[-1] == 1_000_000
    assert said == sorted(said)
