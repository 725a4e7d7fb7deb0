"""Two results, compared bit by bit, but for how long they took."""

from __future__ import annotations

import numpy as np

from evenflow.simulator import Result


def assert_same(one: Result, other: Result) -> None:
    mine, theirs = one.row(), other.row()
    for row in (mine, theirs):
        del row["messages_per_second"]
    assert str(mine) == str(theirs)  # as text, so that NaN is itself
    for name in ("over_time", "by_worker", "rescales", "periods"):
        left, right = getattr(one, name), getattr(other, name)
        assert list(left) == list(right)
        for column, values in left.items():
            assert np.array_equal(values, right[column], equal_nan=True), (name, column)
