"""The one spelling of a stream: what it takes, and the sentence that a wrong one gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import evenflow as ef
from evenflow.streams import (
    GENERATORS,
    Burst,
    Countries,
    Drift,
    Election,
    Evolving,
    Uniform,
    Zipf,
    open_stream,
)


@pytest.mark.parametrize(
    ("spec", "stream"),
    [
        ("zipf:z=1.4,keys=1e5,messages=1e7,seed=1", Zipf(1.4, 10**5, messages=10**7, seed=1)),
        ("zipf", Zipf()),
        ("zipf:", Zipf()),
        (" ZIPF : z = 2 , seed=12345678901234567890", Zipf(2.0, seed=12345678901234567890)),
        ("zipf:keys=1_000,messages=2.5e3,rate=1e4", Zipf(keys=1000, messages=2500, rate=1e4)),
        ("uniform:keys=10,seed=-3", Uniform(10, seed=-3)),
        ("evolving:z=1.2,phases=4+1", Evolving(1.2)),
        ("evolving:phases=1+2+1,seed=4", Evolving(phases=(1, 2, 1), seed=4)),
        ("evolving:phases=5", Evolving(phases=5)),
        ("countries:skew=80,then=0", Countries(80, 0)),
        ("election:share=0.5,messages=1e5", Election(0.5, messages=10**5)),
        ("burst:share=0.2,start=0.1,end=0.2", Burst(share=0.2, start=0.1, end=0.2)),
        ("drift:steps=4,keys=50", Drift(steps=4, keys=50)),
    ],
)
def test_generators_are_spelled(spec: str, stream: Any) -> None:
    assert open_stream(spec) == stream
    assert open_stream(open_stream(spec).name) == stream


@pytest.mark.parametrize("keyword", GENERATORS)
def test_every_generator_says_what_it_is(keyword: str) -> None:
    kind = GENERATORS[keyword]
    assert kind.keyword == keyword
    assert kind.summary
    assert open_stream(keyword) == kind()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("zpif:z=1.4", r"no generator 'zpif'; did you mean 'zipf'\? Write zipf:z=1.4,keys=100000,messages="),
        ("normal:mean=3", r"no generator 'normal'; .*Write zipf:"),
        ("zpif", r"no file and no generator 'zpif'; did you mean 'zipf'"),
        ("zipf:exponent=2", r"zipf has no parameter 'exponent'; .*Example: zipf:z=1.4,keys=100000"),
        ("zipf:kyes=2", r"no parameter 'kyes'; did you mean 'keys'"),
        ("zipf:z", r"'z' is not a parameter; write name=value. Example: zipf:z="),
        ("zipf:z=", r"'z=' is not a parameter"),
        ("zipf:z=1,", r"'' is not a parameter"),
        ("zipf:z=1,z=2", r"z is given twice, as 1 and 2; choose one"),
        ("zipf:z=steep", r"z is 'steep'; it must be a number. Example:"),
        (
            "zipf:z=-1",
            r"z is -1; it must be from 0 \(uniform\) to 100. Example: zipf:",
        ),
        ("zipf:keys=0", r"keys is 0; it must be from 1 to 100000000"),
        ("zipf:keys=1.5", r"keys is 1.5; it must be a whole number"),
        ("zipf:messages=nan", r"messages is nan; it must be a whole number"),
        ("countries:skew=120", r"skew is 120; .*Example: countries:skew=80"),
        ("evolving:phases=a+b", r"phases is 'a\+b'; .*Example: evolving:z=1.4,.*phases=4\+1"),
        ("", r"a stream must be given as text, not ''; write zipf:.* or data.parquet#column"),
        (7, r"a stream must be given as text, not 7"),
        (None, r"a stream must be given as text, not None"),
        ("hdfs://name/rows.parquet#key", r"data is 'hdfs://name/rows.parquet'; hdfs is not supported"),
    ],
)
def test_wrong_generators_get_a_sentence(spec: Any, sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        open_stream(spec)


def test_generators_have_no_columns() -> None:
    for columns in ({"key": "a"}, {"time": "ts"}):
        with pytest.raises(
            ef.EvenflowError, match="zipf generates its own keys and times; omit key and time"
        ):
            open_stream("zipf:z=1", **columns)


def parquet(path: Path, **columns: list[Any]) -> str:
    pa.parquet.write_table(pa.table(columns), path)
    return str(path)


def labels(spec: str, **columns: Any) -> list[str]:
    stream = open_stream(spec, **columns)
    for again in (stream, open_stream(stream.name)):
        ids = [int(id) for chunk in again.chunks() for id in chunk.ids]
        found = [again.label(id) for id in ids]
    return found


def test_the_default_key_is_key_or_the_only_column(tmp_path: Path) -> None:
    one = parquet(tmp_path / "one.parquet", name=["a", "b"])
    two = parquet(tmp_path / "two.parquet", name=["a", "b"], ts=[1, 2])
    key = parquet(tmp_path / "key.parquet", name=["a", "b"], key=["x", "y"])
    assert labels(one) == labels(f"{one}#") == labels(f"{two}#@ts") == labels(two, time="ts") == ["a", "b"]
    assert labels(key) == ["x", "y"]
    assert labels(f"{key}#name") == labels(key, key="name") == ["a", "b"]
    with pytest.raises(
        ef.EvenflowError,
        match=r"two\.parquet has the columns name, ts; name the key column, as in .*two\.parquet#name, "
        r"or several, as in .*two\.parquet#name\+ts\.",
    ):
        open_stream(two)


def test_names_with_signs_in_them_can_be_spelled(tmp_path: Path) -> None:
    names = ["a+b", "a", "b", "c#d", "e@f", "50%", "g h/ü"]
    columns: dict[str, Any] = {name: [str(number)] for number, name in enumerate(names, 1)}
    path = parquet(tmp_path / "odd.parquet", **columns)
    assert labels(f"{path}#a+b") == ["1"]  # a name that is there is taken as it is
    assert labels(f"{path}#b+a") == ["3, 2"]
    assert labels(f"{path}#a%2Bb+a") == ["1, 2"]
    assert labels(f"{path}#c%23d") == labels(path, key="c#d") == ["4"]
    assert labels(f"{path}#e@f") == labels(path, key="e@f") == ["5"]
    assert labels(f"{path}#50%") == ["6"]
    assert labels(f"{path}#g h/ü") == ["7"]
    assert labels(path, key=list(columns)) == ["1, 2, 3, 4, 5, 6, 7"]
    assert open_stream(path, key=["a+b", "e@f"]).name == f"{path}#a%2Bb+e%40f"


def test_time_columns_are_spelled(tmp_path: Path) -> None:
    path = parquet(tmp_path / "t.parquet", key=["a", "b"], ts=[3, 4], **{"t@2": [5, 6]})
    for spec, times in ((f"{path}#key@ts", [3, 4]), (f"{path}#@ts", [3, 4]), (f"{path}#key@t%402", [5, 6])):
        for stream in (open_stream(spec), open_stream(open_stream(spec).name)):
            chunk = next(stream.chunks())
            assert chunk.times is not None
            assert chunk.times.tolist() == times
    assert next(open_stream(f"{path}#key+ts@ts").chunks()).ids.tolist() == [0, 1]


def test_what_exists_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zipf").mkdir()
    parquet(tmp_path / "zipf" / "a.parquet", key=["x"])
    parquet(tmp_path / "odd:name#1.parquet", key=["y"])
    assert labels("zipf") == labels("zipf#key") == ["x"]
    assert labels("odd:name#1.parquet") == labels("odd:name#1.parquet#key") == ["y"]
    assert open_stream(Path("zipf") / "a.parquet").name == "zipf/a.parquet#key"  # type: ignore[arg-type]


def test_wrong_files_and_columns_get_a_sentence(tmp_path: Path) -> None:
    path = parquet(tmp_path / "rows.parquet", user=["a"], item=["b"], ts=[1])
    (tmp_path / "notes.dat").write_text("x")
    (tmp_path / "rows.parquet.gz").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    wrong: list[tuple[str, dict[str, Any], str]] = [
        (
            f"{tmp_path}/row.parquet#user",
            {},
            r"there is no file '.*row\.parquet'; did you mean 'rows\.parquet'",
        ),
        (f"{tmp_path}/other/x.csv", {}, r"there is no file '.*x\.csv'; there is no folder '.*other' either"),
        (f"{tmp_path}/empty/*.csv", {}, r"there is no file '.*\*\.csv'; '.*empty' has nothing"),
        (
            f"{tmp_path}/notes.dat",
            {},
            r"unsupported file type '.*notes\.dat'; evenflow reads \.parquet, ",
        ),
        (f"{tmp_path}/rows.parquet.gz", {}, r"is Parquet compressed as \.gz; decompress it"),
        (f"{tmp_path}/empty", {}, r"folder .*empty has no data files"),
        (f"{tmp_path}/delta", {}, r"cannot read the Delta table .*delta: "),
        (f"{path}#usr", {}, r"rows\.parquet has no column 'usr'; did you mean 'user'"),
        (f"{path}#zzz", {}, r"rows\.parquet has no column 'zzz'; it has user, item, ts"),
        (f"{path}#user+zzz", {}, r"has no column 'zzz'"),
        (f"{path}#user@zzz", {}, r"has no column 'zzz'"),
        (f"{path}#user@", {}, r"has no column ''"),
        (path, {"key": "zzz"}, r"has no column 'zzz'"),
        (path, {"key": ["user", "zzz"]}, r"has no column 'zzz'"),
        (path, {"key": "user", "time": "zzz"}, r"has no column 'zzz'"),
        (
            f"{path}#user",
            {"key": "item"},
            r"the key is given twice, as 'user' after # and as 'item'; choose one",
        ),
        (f"{path}#user@ts", {"time": "ts"}, r"the time column is given twice, as 'ts' and 'ts'; choose one"),
        (f"{path}#user@item", {}, r"row 1 has 'b' in time column 'item'; times must be seconds"),
    ]
    for spec, columns, sentence in wrong:
        with pytest.raises(ef.EvenflowError, match=sentence):
            open_stream(spec, **columns)
    twice = tmp_path / "twice.csv"
    twice.write_text("a,a\n1,2\n")
    with pytest.raises(ef.EvenflowError, match=r"twice\.csv has 2 columns named 'a'; rename them"):
        open_stream(f"{twice}#a")


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    parquet(tmp_path / "rows.parquet", key=["a"])
    (tmp_path / "MANIFEST.md").write_text("what this is")
    with pytest.raises(ef.EvenflowError, match=r"unsupported file type '.*MANIFEST\.md'"):
        open_stream(str(tmp_path))
    assert labels(f"{tmp_path}/*.parquet#key") == ["a"]
