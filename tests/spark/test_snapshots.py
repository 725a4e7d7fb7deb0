"""Snapshots between micro-batches: frozen once, joined from parts, small, and never missed."""

from __future__ import annotations

import itertools
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.files import create_exclusive
from evenflow.kernels import UInt64Array
from evenflow.schemes.fill import FillRouter
from evenflow.schemes.handover import hand_over
from evenflow.spark.routing import router_snapshots as snapshots
from evenflow.spark.routing.router_snapshots import Snapshots
from evenflow.storage import Location
from evenflow.storage.folder import Folder
from extent import long
from storage.s3_server import S3Server

WORKERS = 8
SOURCES = 3


def keys(seed: int, messages: int = 3000) -> UInt64Array:
    weights = np.arange(1, 301) ** -1.4
    ids = np.random.default_rng(seed).choice(300, messages, p=weights / weights.sum())
    return np.random.default_rng(0).integers(0, 2**64, 300, dtype=np.uint64)[ids]


def run_batch(kept: Snapshots, batch: int, partitions: int = 3, messages: int = 3000) -> list[ef.Router]:
    """Let the partitions of a batch route and leave what they know."""
    routers = []
    for partition in range(partitions):
        router = kept.scheme.router(WORKERS, source=partition % SOURCES, sources=SOURCES)
        before = kept.load_before(batch)
        if before is not None:
            router.learn([before], 1 / SOURCES)
        router.route(keys(batch * partitions + partition, messages))
        kept.save(batch, partition, router)
        routers.append(router)
    return routers


ORDERS = sorted(set(itertools.permutations(["big", "big", "tiny", "tiny", "empty"])))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["fill", "d-choices"])
def test_nothing_is_forgotten_over_tiny_batches(tmp_path: Path, name: str, order: tuple[str, ...]) -> None:
    """Tiny batches have few rows and few partitions; a batch without rows leaves no file."""
    kept = Snapshots(tmp_path, ef.scheme(name), WORKERS)
    hottest: set[int] = set()
    for batch, size in enumerate([*order, *["tiny"] * 12]):
        if size == "big":
            run_batch(kept, batch)
            values, counts = np.unique(keys(batch * 3), return_counts=True)
            hottest = set(values[np.argsort(-counts)[:3]].tolist())
        elif size == "tiny":
            run_batch(kept, batch, partitions=1, messages=8)
        router = ef.scheme(name).router(WORKERS)
        if (known := kept.load_before(batch + 1)) is not None:
            router.learn([known], 1 / 3)
        assert not hottest or known_hot(router) >= hottest


@pytest.mark.parametrize("batches", [40, long(1000)])
def test_no_batch_lists_objects_and_few_are_kept(moto: S3Server, batches: int) -> None:
    """Some requests for the first task of a batch and its parts, one for every other one, and no history."""
    kept = Snapshots(moto.bucket() / "online", ef.scheme("fill"), WORKERS)
    for batch in range(batches):
        if batch % 10 in (7, 8):  # no rows
            continue
        moto.requests.clear()
        assert (kept.load_before(batch) is None) == (batch == 0)
        first = list(moto.requests)
        moto.requests.clear()
        assert (kept.load_before(batch) is None) == (batch == 0)
        again = [(method, path.rpartition("/")[2]) for method, path in moto.requests]
        assert again == ([("GET", f"{batch - 1:09d}.joined")] if batch else [])
        for partition in range((batch + 5) % 12):  # one of a dozen batches leaves nothing
            router = kept.scheme.router(WORKERS, source=partition, sources=12)
            router.route(keys(batch + partition, 50))
            kept.save(batch, partition, router)
        assert not [path for _, path in first if "list-type" in path], (batch, first)
        assert len(first) <= 3 * (3 + 8) + 12, (batch, first)
        assert len(kept.storage.entries()) <= 2 + 12


@pytest.mark.parametrize("last", [0, 3])
def test_a_long_time_without_rows_is_not_found_by_listing(moto: S3Server, last: int) -> None:
    """Also if the query starts again in the meantime, and if rows come from time to time."""
    kept = Snapshots(moto.bucket() / "online", ef.scheme("fill"), WORKERS)
    for batch in range(last + 1):
        run_batch(kept, batch)
    snapshots.sweep(kept.storage.location, last + 50)
    moto.requests.clear()
    for batch in (last + 60, last + 200, last + 1000):
        before = kept.load_before(batch)
        assert isinstance(before, FillRouter)
        assert before.homes()
        assert not [path for _, path in moto.requests if "list-type" in path]
    assert len(moto.requests) < 3 * 60  # each batch looks at the same few names before


def test_a_query_that_starts_again_sweeps_what_killed_tasks_left(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path, ef.scheme("fill"), WORKERS)
    for batch in range(3):
        run_batch(kept, batch)
    kept.save(0, 7, kept.scheme.router(WORKERS))  # long after its batch
    snapshots.sweep(Location(tmp_path), 3)
    assert len(names(tmp_path)) == 5
    snapshots.sweep(Location(tmp_path), 5)
    assert names(tmp_path) == ["000000001.joined", *(f"000000002.{part:05d}.part" for part in range(3))]


def known_hot(router: ef.Router) -> set[int]:
    if isinstance(router, FillRouter):
        return {key for key, homes in router.homes().items() if len(homes) > 1}
    assert router.head is not None
    return set(router.head[0].tolist())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "newest")


def test_a_batch_begins_with_what_the_one_before_learned(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path, ef.scheme("fill"), WORKERS)
    assert kept.load_before(0) is None
    routers = run_batch(kept, 0)
    known = kept.load_before(1)
    assert isinstance(known, FillRouter)
    for router in routers:
        assert isinstance(router, FillRouter)
        assert router.homes().keys() <= known.homes().keys()
    assert names(tmp_path) == ["000000000.joined"]
    for batch in range(1, 5):
        run_batch(kept, batch)
    assert len(names(tmp_path)) == 4  # the joined file of batch 3 and three parts of batch 4
    kept.load_before(7)  # batches 5 and 6 had no rows
    assert names(tmp_path) == ["000000006.joined"]
    router = kept.scheme.router(WORKERS)
    router.route(keys(0))
    kept.save(7, 0, router)
    assert isinstance(kept.load_before(99), FillRouter)  # found by its number, which batch 7 noted
    assert names(tmp_path) == ["000000098.joined"]


def test_what_a_batch_begins_with_never_changes(tmp_path: Path) -> None:
    """A task of the batch before that ends late, or ends again, changes nothing."""
    kept = Snapshots(tmp_path, ef.scheme("w-choices"), WORKERS)
    late = run_batch(kept, 0)[2]
    first = kept.load_before(1)
    assert first is not None
    other = kept.scheme.router(WORKERS)
    other.route(keys(99))
    kept.save(0, 2, other)
    kept.save(0, 3, late)
    again = kept.load_before(1)
    assert again is not None
    assert again.to_bytes() == first.to_bytes()


def test_tasks_that_begin_at_once_freeze_a_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others wait for the one that does; one that is held for long is not waited for."""
    kept = Snapshots(tmp_path, ef.scheme("w-choices"), WORKERS)
    run_batch(kept, 0)
    merged = list[int]()

    def slowly(*parts: Any) -> Any:
        merged.append(1)
        time.sleep(0.2)
        return hand_over(*parts)

    monkeypatch.setattr(snapshots, "hand_over", slowly)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: Snapshots(tmp_path, kept.scheme, WORKERS).load_before(1), range(4)))
    assert len({router.to_bytes() for router in found if router is not None}) == 1
    assert (len(merged), None in found) == (1, False)
    run_batch(kept, 1)
    with Folder(Location(str(tmp_path))).alone() as others:
        assert not others
        assert kept.load_before(2) is not None


def test_the_first_file_stays(tmp_path: Path) -> None:
    assert create_exclusive(tmp_path / "a", b"first")
    assert not create_exclusive(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("damage", ["deleted", "cut short", "another version", "of another scheme", "text"])
def test_damaged_files_are_as_if_never_written(tmp_path: Path, damage: str) -> None:
    """The batch begins anew and says so once, whatever its tasks; the next one begins as it should."""
    told: list[tuple[int, str]] = []
    kept = Snapshots(
        tmp_path, ef.scheme("d-choices"), WORKERS, 0, lambda batch, why: told.append((batch, why))
    )
    run_batch(kept, 0)
    kept.load_before(1)
    for path in tmp_path.glob("0*"):
        content = path.read_bytes()
        if damage == "deleted":
            path.unlink()
        elif damage == "cut short":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "another version":
            path.write_bytes(zlib.compress(b"evenflow\xff\x00" + zlib.decompress(content)[10:]))
        elif damage == "of another scheme":
            path.write_bytes(zlib.compress(ef.scheme("fill").router(WORKERS).to_bytes()))
        else:
            path.write_text("hello")
    run_batch(kept, 1)
    assert len(told) == 1
    assert told[0][0] == 1
    assert kept.load_before(2) is not None
    assert len(told) == 1


def test_files_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_BYTES", 120_000)
    kept = Snapshots(tmp_path, ef.scheme("fill"), WORKERS)
    for batch in range(3):
        run_batch(kept, batch, partitions=12)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * 120_000
    assert kept.load_before(3) is not None
