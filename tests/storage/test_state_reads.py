"""What a worker reads of large state files in an object store."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from evenflow.spark.state.files import WHOLE_BYTES, Cache, StateReader, write_state
from evenflow.storage import open_storage
from spark.test_state_files import rows
from storage.s3_server import S3Server, ranges_read


def test_a_worker_reads_the_parts_that_it_needs(moto: S3Server) -> None:
    """Of a file of several megabytes, its footer and the row groups of the keys, each by its range."""
    storage = open_storage(moto.bucket() / "state")
    hashes = np.sort(np.random.default_rng(1).integers(-(2**62), 2**62, 250_000))
    entries: list[tuple[int, int, int | None]] = [
        (hashed, number, number) for number, hashed in enumerate(hashes.tolist())
    ]
    written = write_state(storage, rows(0, entries), 0, 0, 0)
    assert written.bytes > 2 * WHOLE_BYTES
    moto.requests.clear()
    reader = StateReader(storage, [written], ["k"], Cache())
    with ranges_read(moto) as lengths:
        found = reader.find(hashes[:3], [pa.array([0, 1, 2])]).states(["v"])
    assert found == [(0,), (1,), (2,)]
    assert [method for method, _ in moto.requests] == ["GET"] * len(lengths)
    assert 0 < sum(lengths) < written.bytes / 4, (lengths, written.bytes)
