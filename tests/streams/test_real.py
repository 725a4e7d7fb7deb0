"""The real streams hold what their manifest says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import evenflow as ef
from evenflow.streams import open_stream

FILES = (
    "congress_words",
    "congress_hashtags",
    "stocknet_cashtags",
    "online_retail_stock",
    "online_retail_country",
    "scarab_recs",
    "sotu_words",
)


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_a_real_stream_holds_what_its_manifest_says(name: str, real_streams: Path) -> None:
    manifest = (real_streams / "MANIFEST.md").read_text().split(f"## {name}.parquet")[1].split("\n## ")[0]
    found = re.search(r"Messages ([\d,]+); keys ([\d,]+) \(([\d,]+) seen once\)", manifest)
    assert found
    messages, keys, once = (int(number.replace(",", "")) for number in found.groups())
    top = re.search(r"Top 10: (.+)", manifest)
    assert top
    stream = open_stream(
        f"{real_streams / name}.parquet#key" + ("" if "no timestamps" in manifest else "@ts")
    )
    counts = np.zeros(keys, np.int64)
    first = last = None
    for chunk in stream.chunks():
        counts += np.bincount(chunk.ids, minlength=keys)
        if chunk.times is not None:
            first = chunk.times[0] if first is None else first
            last = chunk.times[-1]
    assert stream.messages == counts.sum() == messages
    assert stream.hashes.size == keys == np.unique(stream.hashes).size
    assert (counts > 0).all()
    assert (counts == 1).sum() == once
    hottest = np.argsort(-counts, kind="stable")[:10]
    assert ", ".join(f"{stream.label(int(id))} {counts[id]:,}" for id in hottest) == top[1]
    sample = np.arange(0, keys, max(1, keys // 500))
    assert np.array_equal(stream.hashes[sample], ef.hash_keys([stream.label(int(id)) for id in sample]))
    if last is not None:
        assert f"ts {first:.0f} .. {last:.0f}, non-decreasing: True" in manifest
        assert stream.late == 0  # type: ignore[attr-defined]
