"""`evenflow advise` and `evenflow doctor` with the URL of an object store."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import evenflow as ef
from evenflow.cli import main
from evenflow.errors import EvenflowError
from evenflow.storage import Location, open_storage
from evenflow.streams import FileStream, open_stream
from extent import in_make_faults
from storage.s3_server import SECRET, Request, S3Server, ranges_read, versitygw

NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def place(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Location:
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    return moto.bucket()


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


def rows(count: int, seed: int = 0) -> pa.Table:
    keys = np.minimum(np.random.default_rng(seed).zipf(1.5, count), 50)
    return pa.table({"user": [f"u{key}" for key in keys], "page": np.arange(count)})


def as_bytes(table: pa.Table, kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        pyarrow.parquet.write_table(table, sink, row_group_size=1000)
    elif kind == "arrow":
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    elif kind == "jsonl":
        sink.write("\n".join(json.dumps(row) for row in table.to_pylist()).encode())
    else:
        pyarrow.csv.write_csv(table, sink)
    return gzip.compress(sink.getvalue()) if kind == "csv.gz" else sink.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl", "csv", "csv.gz"])
def test_objects_are_the_same_stream_as_files(place: Location, tmp_path: Path, kind: str) -> None:
    storage = open_storage(place)
    for number in range(3):
        content = as_bytes(rows(500, number), kind)
        storage.put(f"day/{number}.{kind}", content)
        (tmp_path / f"{number}.{kind}").write_bytes(content)
    storage.put("day/_SUCCESS", b"")
    storage.put("day/deeper/x.txt", b"other")
    wanted = [chunk.ids.tolist() for chunk in open_stream(str(tmp_path), "user").chunks()]
    for url in (f"{place}/day/*.{kind}", f"{place}/**/?.{kind}"):
        stream = open_stream(f"{url}#user")
        assert [chunk.ids.tolist() for chunk in stream.chunks()] == wanted
    one = open_stream(f"{place}/day/1.{kind}", "user")
    assert sum(chunk.ids.size for chunk in one.chunks()) == 500


def test_folders_give_columns_as_local_ones_do(place: Location, tmp_path: Path) -> None:
    """A column for each level, whole numbers as such, escaped text, and null."""
    storage = open_storage(place)
    for number, folder in enumerate(("day=1/shop=a%20b", "day=22/shop=c", f"day={NULL}/shop={NULL}")):
        content = as_bytes(rows(500, number), "parquet")
        storage.put(f"sales/{folder}/part.parquet", content)
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "part.parquet").write_bytes(content)
    storage.put("sales/_SUCCESS", b"")
    for key in (["day"], ["shop"], ["user", "day"], ["shop", "user"]):
        found, wanted = (open_stream(path, key) for path in (f"{place}/sales", str(tmp_path)))
        ids = [np.concatenate([chunk.ids for chunk in stream.chunks()]) for stream in (found, wanted)]
        assert ids[0].tolist() == ids[1].tolist()
        assert found.hashes.tolist() == wanted.hashes.tolist()
    by_day = open_stream(f"{place}/sales", "day")
    assert [by_day.label(id) for id in np.unique(np.concatenate([c.ids for c in by_day.chunks()]))] == [
        "1", "22", "null",
    ]  # fmt: skip
    spark_hashes = ef.hash_keys(pa.array([1, 22, None], pa.int32())).tolist()
    assert by_day.hashes.tolist() == spark_hashes
    assert sum(chunk.ids.size for chunk in pickle.loads(pickle.dumps(by_day)).chunks()) == 1500


def test_a_part_of_a_large_object_is_read_by_ranges(place: Location, moto: S3Server) -> None:
    wide = rows(20_000).append_column("text", pa.array([f"{number:0200}" for number in range(20_000)]))
    sink = io.BytesIO()
    pyarrow.parquet.write_table(wide, sink, row_group_size=1000, compression=None, use_dictionary=False)
    open_storage(place).put("wide.parquet", sink.getvalue())
    stream = open_stream(f"{place}/wide.parquet", "user")
    assert isinstance(stream, FileStream)
    assert stream.messages == 20_000
    moto.requests.clear()
    with ranges_read(moto) as lengths:
        assert sum(chunk.ids.size for chunk in stream.beginnings([2000])) == 2000
    assert {method for method, _ in moto.requests} <= {"GET", "HEAD"}
    assert 0 < sum(lengths) < len(sink.getvalue()) / 2, (lengths, len(sink.getvalue()))


def test_delta_tables_and_what_is_not_there(place: Location) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(f"{place}/table", rows(300))
    assert sum(chunk.ids.size for chunk in open_stream(f"{place}/table", "user").chunks()) == 300
    with pytest.raises(EvenflowError, match=r"there is no data at 's3://.*/nothing'; check the URL"):
        open_stream(f"{place}/nothing", "user")


def test_doctor_tries_out_a_store(place: Location, moto: S3Server) -> None:
    found = run("doctor", "--storage", str(place), "--json")
    checks = {check["what"]: check for check in json.loads(found.stdout)}
    tried = ["write", "read", "create if absent", "compare and set", "list", "latency", "delete"]
    assert all(checks[f"storage: {what}"]["ok"] for what in tried), found.stdout
    assert "ms" in checks["storage: latency"]["found"]
    assert open_storage(place).is_empty()

    def ignores_conditions(request: Request) -> None:
        for name in ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"):
            request.environ.pop(name, None)

    moto.fault = ignores_conditions
    try:
        found = run("doctor", "--storage", str(place), "--json")
    finally:
        moto.fault = None
    checks = {check["what"]: check for check in json.loads(found.stdout)}
    for what in ("create if absent", "compare and set"):
        assert "conditional writes" in checks[f"storage: {what}"]["to_do"]
    assert found.exit_code == 1


def test_doctor_says_what_is_missing(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "(NoSuchBucket: " in refused("s3://there-is-no-such-bucket/x")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT", nobody)
    assert f"(no answer from {nobody})" in refused(f"{place}/a")
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "if the server has no TLS, set AWS_ALLOW_HTTP=true" in refused(f"{place}/b")
    found = run("doctor", "--storage", "hdfs://name/x", "--json")
    assert "hdfs is not supported" in json.loads(found.stdout)[-1]["to_do"]
    found = run("doctor", "--storage", f"{__file__}/below", "--json")  # where no user may write
    assert f"{__file__}/below: Not a directory; pass a" in json.loads(found.stdout)[-1]["to_do"]


@in_make_faults
def test_doctor_on_a_server_that_checks_signatures(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    if versitygw() is None:
        pytest.skip("versitygw is not here; make faults installs it where there is Go")
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    place = str(s3.bucket())
    checks = json.loads(run("doctor", "--storage", place, "--json").stdout)
    assert all(check["ok"] for check in checks if check["what"].startswith("storage"))
    assert "(NoSuchBucket: " in refused("s3://there-is-no-such-bucket/x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"not {SECRET}")
    assert "(SignatureDoesNotMatch: " in refused(f"{place}/a")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    assert "No user exists with the provided access key ID" in refused(f"{place}/b")


def refused(url: str) -> str:
    """Return the sentence of the doctor about a storage that cannot be written, opened for the first time."""
    found = run("doctor", "--storage", url, "--json")
    last = json.loads(found.stdout)[-1]
    assert (last["what"], last["ok"], found.exit_code) == ("storage: write", False, 1)
    assert SECRET not in found.output
    assert last["to_do"].startswith(f"cannot write {url}/")
    assert "\n" not in last["to_do"]
    return str(last["to_do"])
