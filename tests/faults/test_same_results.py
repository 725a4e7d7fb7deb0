"""`aggregate` equals plain Spark: every scheme, both modes, batch and streaming, no skew to one key only.

``make test`` draws a few of these; ``make faults`` (EVENFLOW_FAULTS=all) goes through every scheme and mode.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.spark import aggregate
from extent import ALL, in_make_faults
from spark.aggregators import SCHEMA, Declared, Profile, plain
from spark.stream_files import run_to_end, write_batches
from spark.tables import rows_of, tables

pytestmark = [pytest.mark.spark, pytest.mark.faults]

PAIRS = [(name, "online") for name in sorted(ef.list_schemes())] + [
    (name, "planned") for name, kind in sorted(ef.list_schemes().items()) if kind.plannable
]
# all of them one by one, or a few that are drawn
DRAWN = [st.just(pair) for pair in PAIRS] if ALL else [st.sampled_from(PAIRS)]
NAMES = [f"{scheme}, {mode}" for scheme, mode in PAIRS] if ALL else ["a few"]

Made = tuple[str, pa.Table]


@pytest.mark.parametrize("pairs", DRAWN, ids=NAMES)
def test_batch(spark: Any, pairs: st.SearchStrategy[tuple[str, str]]) -> None:
    @settings(max_examples=4 if ALL else 8)
    @given(pairs, tables(), st.integers(1, 5), st.sampled_from([Profile(), Declared()]), st.booleans())
    def check(pair: tuple[str, str], made: Made, workers: int, using: Any, shuffled: bool) -> None:
        df = spark.createDataFrame(made[1])
        given_rows = df.repartition(3) if shuffled else df
        seen: list[Any] = []
        found = aggregate(given_rows, "k", using, SCHEMA, workers, *pair, order="sort", on_placed=seen.append)
        assert rows_of(found.collect()) == rows_of(plain(df.groupBy("k")).collect())
        assert seen[0].mode == pair[1]

    check()


@in_make_faults
@pytest.mark.parametrize("pairs", DRAWN, ids=NAMES)
def test_streaming(rocks: Any, pairs: st.SearchStrategy[tuple[str, str]]) -> None:
    """The last update of every key is its batch result."""

    @settings(max_examples=1)
    @given(pairs, tables(60), st.integers(0, 60), st.sampled_from([Profile(), Declared()]))
    def check(pair: tuple[str, str], made: Made, cut: int, using: Any) -> None:
        table = made[1]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            write_batches(Path(scratch) / "in", [table.slice(0, cut), table.slice(cut)])
            schema = rocks.createDataFrame(table).schema
            stream = rocks.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{scratch}/in")
            frame = aggregate(stream, "k", using, SCHEMA, 3, *pair, control=f"{scratch}/control")
            updates = run_to_end(frame, "update", "updates", Path(scratch) / "checkpoint")
        last = {str(row["k"]): row for row in updates}
        whole = plain(rocks.createDataFrame(table).groupBy("k")).collect()
        assert rows_of(list(last.values())) == rows_of(whole)

    check()
