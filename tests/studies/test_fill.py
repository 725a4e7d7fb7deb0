"""The ablation's fill is the real one, and the page is written around what stands in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evenflow as ef
from benchmarks import fill as bench
from benchmarks.fill_variants import Variant, route


@pytest.mark.parametrize(("z", "keys", "n"), [(0.0, 300, 7), (1.0, 2000, 20), (2.5, 50, 10)])
@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_the_variant_with_every_rule_decides_as_the_router(
    z: float, keys: int, n: int, epsilon: float
) -> None:
    rng = np.random.default_rng(int(10 * z) + n)
    weights = np.arange(1, keys + 1) ** -z
    ids = rng.choice(keys, 30_000, p=weights / weights.sum()).astype(np.int32)
    hashes = rng.integers(0, 2**64, keys, dtype=np.uint64)
    router = ef.scheme("fill", epsilon=epsilon).router(n, seed=4)
    expected = router.route(hashes[ids])
    got = route(Variant(epsilon=epsilon), ids, hashes, n, seed=4)
    assert got.tolist() == expected.tolist()


def test_small_run_gives_every_table_and_keeps_the_text(tmp_path: Path) -> None:
    rows = [
        *bench.frontier(["zipf:z=1.2,keys=500,messages=20000,seed=1"], [5]),
        *bench.elasticity(20_000),
        *bench.capacities(60_000),
        *bench.ablation([], 5_000),
    ]
    mine = next(row for row in rows if row["part"] == "frontier" and row["scheme"] == "fill")
    assert mine["ok"]
    assert mine["max_over_mean"] <= 1.03
    page = tmp_path / "fill.md"
    page.write_text(f"# fill\n\nWords of ours.\n\n{bench.MARK}\n\nan old table\n", encoding="utf-8")
    bench.write_page(rows, page)
    text = page.read_text(encoding="utf-8")
    assert "Words of ours." in text
    assert "an old table" not in text
    assert "moved / ideal" in text
    assert (tmp_path / "figures" / "fill-frontier.png").stat().st_size > 5_000


def test_a_folder_without_streams_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ef.EvenflowError, match="no Parquet file"):
        bench.run(quick=True, data=str(tmp_path))
