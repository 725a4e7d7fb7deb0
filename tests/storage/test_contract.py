"""What every storage promises, on a folder and on S3 servers; and what it does when a store fails."""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest

from evenflow.errors import EvenflowError
from evenflow.storage import Location, Storage, StorageError, locate, open_storage
from extent import ALL
from storage.s3_server import SECRET, Answer, Request, S3Server, versity_server, versitygw

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def versity() -> Iterator[S3Server]:
    command = versitygw()
    if not ALL or command is None:
        pytest.skip("make faults runs it where versitygw is installed")
    with versity_server(command) as server:
        yield server


@pytest.fixture(params=["folder", "moto", "versity"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "folder":
        return open_storage(tmp_path / "below")
    server: S3Server = request.getfixturevalue(request.param)
    return open_storage(server.bucket())


@pytest.fixture
def failing(moto: S3Server) -> Iterator[S3Server]:
    yield moto
    moto.fault = None


def quick(server: S3Server, **options: str) -> Storage:
    """Return a storage that gives up early."""
    limits = {"timeout": "2s", "max_retries": "3", "retry_timeout": "3s", **options}
    return open_storage(Location(server.bucket(), limits))


def test_an_object_is_replaced_whole(storage: Storage) -> None:
    for content in (b"first", b"", b"second" * 1000):
        storage.put("a/b/name", content)
        assert storage.read("a/b/name") == content
        assert storage.size("a/b/name") == len(content)
    assert [entry.name for entry in storage.entries()] == ["a/b/name"]


def test_large_objects_and_their_parts(storage: Storage) -> None:
    content = bytes(range(256)) * 50_000  # 12.8 MB: in several parts
    storage.put("large", content)
    assert storage.read_range("large", 5_000_001, 300) == content[5_000_001:5_000_301]
    assert storage.read_range("large", len(content) - 8, 8) == content[-8:]
    assert storage.read("large") == content


def test_what_is_missing_is_not_found(storage: Storage) -> None:
    for read in (
        storage.read,
        storage.size,
        storage.read_version,
        lambda name: storage.read_range(name, 0, 1),
    ):
        with pytest.raises(FileNotFoundError):
            read("nothing/here")
    assert not storage.exists("nothing/here")
    assert storage.entries("nothing") == []
    storage.delete(["nothing/here"])


def test_one_of_many_writers_creates(storage: Storage) -> None:
    barrier, created = Barrier(8), []

    def create(number: int) -> None:
        barrier.wait()
        if storage.create("claim", b"by %d" % number):
            created.append(number)

    threads = [Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(created) == 1
    assert storage.read("claim") == b"by %d" % created[0]
    assert not storage.create("claim", b"later")


def test_compare_and_set(storage: Storage) -> None:
    first = storage.swap("lease", b"1", None)
    assert first is not None
    assert storage.swap("lease", b"other", None) is None
    content, version = storage.read_version("lease")
    assert (content, version) == (b"1", first)
    second = storage.swap("lease", b"2", version)
    assert second not in (None, first)
    assert storage.swap("lease", b"3", version) is None, "an old version was accepted"
    assert storage.read("lease") == b"2"
    storage.delete(["lease"])
    assert storage.swap("lease", b"3", second) is None, "a version of an object that is gone was accepted"
    assert not storage.exists("lease")


def test_one_of_many_writers_swaps(storage: Storage) -> None:
    storage.put("count", b"0")
    barrier = Barrier(4)

    def add(name: int) -> None:
        barrier.wait()
        for _ in range(5):
            while True:
                content, version = storage.read_version("count")
                more = int(content.split()[0]) + 1
                if storage.swap("count", b"%d by %d" % (more, name), version) is not None:
                    break

    threads = [Thread(target=add, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert storage.read("count").split()[0] == b"20"


def test_listing_and_deleting(storage: Storage) -> None:
    names = [f"log/{number:04}" for number in range(12)]
    for name in [*names, "logs/other", "plan"]:
        storage.put(name, name.encode())
    assert [entry.name for entry in storage.entries("log")] == names
    assert [entry.size for entry in storage.entries("log")] == [len(name) for name in names]
    assert len(storage.entries()) == 14
    storage.delete([*names[:11], "log/missing"])
    assert [entry.name for entry in storage.entries("log")] == names[11:]


def test_throttled_requests_are_repeated(failing: S3Server) -> None:
    storage = quick(failing)
    for status in ("503 Slow Down", "429 Too Many Requests", "500 Internal Server Error"):
        left = 2

        def fail(request: Request, status: str = status) -> Answer | None:
            nonlocal left
            left -= 1
            return request.error(status) if left >= 0 else None

        for call in (
            lambda: storage.put("name", b"x"),
            lambda: storage.read("name"),
            lambda: storage.delete(["created"]),
            lambda: storage.create("created", b"x"),
            lambda: storage.swap("name", b"y", storage.read_version("name")[1]),
            storage.entries,
        ):
            left, failing.fault = 2, fail
            call()
            assert left < 0
            failing.fault = None
    assert storage.read("created") == b"x"
    assert storage.read("name") == b"y"


def test_a_write_whose_answer_was_lost_is_one_write(failing: S3Server) -> None:
    storage = quick(failing)
    lost = 0

    def lose(request: Request) -> Answer | None:
        nonlocal lost
        if request.method == "PUT" and not lost:
            lost += 1
            return request.done_but_lost()
        return None

    failing.fault = lose
    assert storage.create("claim", b"mine")
    assert lost == 1
    assert not storage.create("claim", b"theirs")
    version: str | None = storage.read_version("claim")[1]
    lost = 0
    version = storage.swap("claim", b"mine again", version)
    assert lost == 1
    assert version == storage.read_version("claim")[1]
    assert storage.read("claim") == b"mine again"


def test_a_store_that_stays_away_is_one_sentence_in_time(failing: S3Server) -> None:
    storage = quick(failing, timeout="300ms", max_retries="2", retry_timeout="1s")

    def hang(request: Request) -> Answer:
        time.sleep(1.0)
        return request.error("503 Slow Down")

    failing.fault = hang
    for call in (
        lambda: storage.read("name"),
        lambda: storage.put("name", b""),
        lambda: storage.create("name", b""),
        lambda: storage.size("name"),
    ):
        with pytest.raises(
            StorageError, match=r"^cannot (read|write) s3://bucket-\w+/below/name \("
        ) as caught:
            call()
        assert isinstance(caught.value, OSError)
        assert isinstance(caught.value, EvenflowError)
        assert "\n" not in str(caught.value)


def test_secrets_are_in_no_text(failing: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    storage = quick(failing, max_retries="1", retry_timeout="500ms")
    failing.fault = lambda request: request.error("503 Slow Down")
    with pytest.raises(StorageError) as caught:
        storage.put("name", b"")
    wrong = open_storage(Location("s3://no-such-bucket/x", {**failing.options, "max_retries": "0"}))
    failing.fault = None
    with pytest.raises((StorageError, FileNotFoundError)) as missing:
        wrong.put("name", b"")
    shown = [repr(storage), str(storage.location), repr(storage.location), f"{storage.location}", caplog.text]
    shown += [str(caught.value), repr(caught.value), str(missing.value), repr(storage.location / "child")]
    assert not [text for text in shown if SECRET in text]
    assert caught.value.__cause__ is None
    assert pickle.loads(pickle.dumps(storage.location)).options == storage.location.options


def test_settings_of_the_environment(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    place = moto.bucket()
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    storage = open_storage(f"s3a://{str(place).removeprefix('s3://')}/environment")
    storage.put("name", b"x")
    assert open_storage(place).read("environment/name") == b"x"


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("hdfs://name/path", "hdfs is not supported; mount it"),
        ("ftp://name/path", "use a local path, file://, s3://"),
        ("s3://", "which names no bucket"),
        ("", "is empty"),
    ],
)
def test_what_is_no_location(place: str, says: str) -> None:
    with pytest.raises(EvenflowError, match=says):
        locate(place)
