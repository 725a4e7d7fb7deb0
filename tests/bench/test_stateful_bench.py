"""`evenflow bench stateful`: targets are judged, Spark's state agrees."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.bench import stateful, stateful_storage
from evenflow.errors import EvenflowError
from evenflow.storage import open_storage
from extent import in_make_faults
from storage.s3_server import S3Server


def test_targets_are_judged() -> None:
    rows: list[dict[str, Any]] = [
        {"part": "cost", "keys": 10, "ratio": 1.0},
        {"part": "cost", "keys": 100, "ratio": 1.7},
        {"part": "slow", "what": "explicit", "of_key_grouping": 1.9},
        {"part": "storage", "where": "folder", "requests": 0, "ratio_without_trips": 1.0},
        {"part": "storage", "where": "s3", "requests": 11, "ratio_without_trips": 1.6},
    ]
    lines = {line[0]: line[1:] for line in stateful.targets(rows).rows}
    assert lines["batch time with 10 x the state"] == (1.7, "at most 2", "ok")
    assert lines["slow workers, measured, explicit, relative to key grouping"][2] == "missed"
    [of_store] = [line for name, line in lines.items() if "object store" in str(name)]
    assert of_store == (1.6, "at most 1.5", "missed")
    assert len(lines) == 3


def test_what_is_not_there_cannot_be_measured() -> None:
    with pytest.raises(EvenflowError, match=r"--only is 'stores'; choose among moved, .*, storage"):
        stateful.run(only=["stores"])
    with pytest.raises(EvenflowError, match=r"pass the URL of an object store as --storage"):
        stateful.run(only=["storage"])


@pytest.mark.spark
@in_make_faults
def test_state_in_a_store_is_compared_with_a_folder(spark: Any, moto: S3Server) -> None:
    place = moto.bucket() / "bench"
    folder, store = stateful_storage.stored(spark, place, quick=True)
    assert (folder["where"], store["where"]) == ("folder", "s3")
    assert (store["requests"], store["in_turn"]) == (11, 7)  # 3 and 2 per worker, of which two run at once
    assert store["ratio"] > store["ratio_without_trips"] > 0
    assert open_storage(place).is_empty()


@pytest.mark.spark
def test_a_running_query_moves_what_its_functions_say(spark: Any) -> None:
    from evenflow.bench import stateful_work
    from evenflow.bench.results import part_tables

    [row] = stateful_work.moved(spark, quick=True, sizes=(2,))
    assert row["keys"] == row["expected_keys"]
    assert row["relative_migration"] == pytest.approx(row["expected"], rel=0.35)
    assert len(part_tables([row], stateful_work.COLUMNS)[0].rows) == 1
