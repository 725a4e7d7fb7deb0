"""What of a router's state is saved: its differences from a new router's, where these are few.

Tables and counters have their full size from the beginning, so most of a young router is as it was made.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenflow.blob import Array
from evenflow.errors import EvenflowError

_AT = "changed: "  # before the name of an array: the positions of its changed values
_POSITION = np.int32


def changes(arrays: Mapping[str, Array], new: Mapping[str, Array]) -> dict[str, Array]:
    """Return what `changed` needs to make ``arrays`` of ``new`` ones.

    >>> found = changes({"loads": np.array([0, 3, 0, 0, 0, 0])}, {"loads": np.zeros(6, np.int64)})
    >>> {name: values.tolist() for name, values in found.items()}
    {'loads': [3], 'changed: loads': [1]}
    """
    found: dict[str, Array] = {}
    for name, values in arrays.items():
        before = new.get(name)
        found[name] = values
        if before is not None and before.shape == values.shape and before.dtype == values.dtype:
            at = np.flatnonzero(values != before).astype(_POSITION)
            if at.size * (at.itemsize + values.itemsize) < values.nbytes:
                found[name], found[_AT + name] = values.ravel()[at], at
    return found


def changed(new: Mapping[str, Array], found: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of which `changes` found these differences from ``new`` ones."""
    arrays = {name: values for name, values in found.items() if not name.startswith(_AT)}
    for name in arrays.keys() & new.keys():
        if (at := found.get(_AT + name)) is None:
            continue
        values = new[name].copy()
        if values.dtype != arrays[name].dtype or (at.size and not 0 <= at.min() <= at.max() < values.size):
            raise EvenflowError(
                f"the saved router's {name} does not fit a new one; read it with the evenflow version that "
                "wrote it."
            )
        values.ravel()[at] = arrays[name]
        arrays[name] = values
    return arrays
