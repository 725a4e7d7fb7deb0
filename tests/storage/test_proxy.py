"""What a storage does when the store or the network fails, seen through a proxy before an S3 server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evenflow.control.directory import Control
from evenflow.storage import Location, Storage, StorageError, open_storage
from storage.proxy import Fault, Passing, Proxy, at_random, proxy_before
from storage.s3_server import S3Server

LIMITS = {"timeout": "800ms", "max_retries": "6", "retry_timeout": "20s"}


@pytest.fixture(scope="module")
def proxy(moto: S3Server) -> Iterator[Proxy]:
    with proxy_before(moto) as running:
        yield running


@pytest.fixture
def storage(proxy: Proxy) -> Iterator[Storage]:
    proxy.decide, proxy.done = None, {}
    yield open_storage(Location(proxy.bucket(), LIMITS))
    proxy.decide = None


def first(fault: str, method: str = "PUT") -> Fault:
    """Return a fault that hits the first request of a method."""
    left = 1

    def decide(passing: Passing) -> str | None:
        nonlocal left
        if passing.method != method or not left:
            return None
        left -= 1
        return fault

    return decide


@pytest.mark.parametrize("fault", ["503", "hang", "cut", "lose"])
def test_one_failure_of_a_write_is_not_seen(storage: Storage, proxy: Proxy, fault: str) -> None:
    """Also if the write was done and its answer lost: it is one write, and ours."""
    content = bytes(range(256)) * 400
    proxy.decide = first(fault)
    storage.put("put", content)
    proxy.decide = first(fault)
    assert storage.create("created", content)
    proxy.decide = first(fault)
    version = storage.swap("swapped", b"first", None)
    proxy.decide = first(fault)
    assert storage.swap("swapped", b"second", version) is not None
    proxy.decide = first(fault, "GET")
    assert storage.read("put") == storage.read("created") == content
    assert proxy.done == {fault: 5}
    assert storage.read("swapped") == b"second"
    assert not storage.create("created", b"of another writer")


@pytest.mark.parametrize("fault", ["503", "cut", "lose"])
def test_many_failures_lose_and_double_nothing(storage: Storage, proxy: Proxy, fault: str) -> None:
    proxy.decide = at_random(fault, 0.3)
    control = Control(storage.location / "control")
    for number in range(20):
        assert storage.create(f"entry/{number:03}", b"%d" % number)
        control.note("n", number=number)
    proxy.decide = None
    assert [storage.read(f"entry/{number:03}") for number in range(20)] == [b"%d" % n for n in range(20)]
    assert [note["number"] for note in control.notes("n")] == list(range(20))
    assert proxy.done[fault] >= 8


def test_a_part_of_a_large_upload_is_cut_off(storage: Storage, proxy: Proxy) -> None:
    """The object is there whole, or not at all."""
    content = bytes(range(256)) * 80_000  # three parts
    proxy.decide = first("cut")
    sink = storage.open_sink("large")
    for at in range(0, len(content), 1 << 20):
        sink.write(content[at : at + (1 << 20)])
    assert not storage.exists("large")
    sink.close()
    assert storage.read("large") == content
    assert proxy.done == {"cut": 1}


def test_a_listing_that_lags_hides_nothing_that_is_known_by_name(storage: Storage, proxy: Proxy) -> None:
    storage.put("a", b"1")
    assert [entry.name for entry in storage.entries()] == ["a"]
    proxy.decide = at_random("lag", 1.0, where=lambda passing: passing.is_listing)
    storage.put("b", b"2")
    storage.delete(["a"])
    assert [entry.name for entry in storage.entries()] == ["a"]  # the fault does what it should
    assert storage.exists("b")
    assert not storage.exists("a")
    assert not storage.create("b", b"3")


def test_a_store_that_stays_away_is_one_sentence(proxy: Proxy) -> None:
    away = {"timeout": "300ms", "max_retries": "1", "retry_timeout": "1s"}
    storage = open_storage(Location(proxy.bucket(), away))
    for fault in ("503", "hang", "cut"):
        proxy.decide = at_random(fault, 1.0)
        with pytest.raises(StorageError, match=r"^cannot write s3://.*; check that the bucket") as caught:
            storage.put("name", b"x" * 1000)
        assert "\n" not in str(caught.value)
    proxy.decide = None
    storage.put("name", b"x")
