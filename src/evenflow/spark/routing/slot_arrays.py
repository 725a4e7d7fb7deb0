"""The arrays by which Spark finds a hot key: `evenflow.plan.table`'s perfect hash, laid out for its SQL.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from evenflow.blob import Array
    from evenflow.kernels import UInt64Array
    from evenflow.plan.table import PlanTable, Slots

SLOTS = {"slots": "bigint", "listed": "bigint", "listed_answers": "bigint"}


def slot_arrays(keys: UInt64Array, slots: Slots | PlanTable, answers: Array) -> dict[str, Array]:
    """Return what the look-up of a hot key's entry in ``answers`` reads."""
    hashes = np.append(keys.view(np.int64), 0)[slots.slots]
    held = np.append(answers, -1)[slots.slots]  # -1 in free slots, which would otherwise match a hash of 0
    arrays: dict[str, Array] = {
        "slots": np.stack([hashes, held, slots.shifts.astype(np.int64)], axis=1).ravel()
    }
    if slots.unslotted.size:
        arrays["listed"] = keys.view(np.int64)[slots.unslotted]
        arrays["listed_answers"] = answers[slots.unslotted].astype(np.int64)
    return arrays
