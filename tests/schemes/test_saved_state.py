"""A saved router is its differences from a new one: small while it is young, and exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import evenflow as ef
from evenflow.blob import read_blob, write_blob
from evenflow.schemes.saved_state import changed, changes

VALUES = st.one_of(st.just(0.0), st.floats(width=64))


@given(arrays(np.float64, st.integers(0, 40), elements=VALUES), st.data())
def test_changes_restore_every_array(now: Any, data: st.DataObject) -> None:
    same_shape = arrays(np.float64, now.shape, elements=VALUES)
    other_shape = arrays(np.float64, st.integers(0, 40), elements=VALUES)
    before = data.draw(st.one_of(same_shape, other_shape))
    found = changed({"a": before}, changes({"a": now, "b": now}, {"a": before}))
    assert found.keys() == {"a", "b"}
    for name in found:
        np.testing.assert_array_equal(found[name], now)
        assert found[name].dtype == now.dtype


def test_new_arrays_stay_as_they_are() -> None:
    new = {"a": np.zeros(10)}
    found = changed(new, changes({"a": np.eye(1, 10).ravel()}, new))
    found["a"][:] = 7
    assert not new["a"].any()


@pytest.mark.parametrize("name", ["fill", "explicit", "dynamic-key", "d-choices"])
def test_a_young_router_is_small(name: str) -> None:
    router = ef.scheme(name).router(workers=12)
    router.route(np.arange(100, dtype=np.uint64))
    assert len(router.to_bytes()) < router.nbytes / 10


@pytest.mark.parametrize("at", [-1, 10**9])
def test_positions_beyond_an_array_are_refused(at: int) -> None:
    router = ef.scheme("d-choices").router(workers=4)
    router.route(np.zeros(10, np.uint64))
    header, saved = read_blob("router", router.to_bytes())
    name = next(name for name, values in saved.items() if name.startswith("changed: ") and values.size)
    with pytest.raises(ef.EvenflowError, match="does not fit"):
        ef.Router.from_bytes(write_blob("router", header, saved | {name: np.full_like(saved[name], at)}))
