"""What a streaming query counts and logs for people only, as settings of the Spark session.

They are read when an operator is built; set them with ``spark.conf.set`` or ``--conf``.
"""

from __future__ import annotations

from typing import Any

from evenflow.errors import EvenflowError

KEY_VALUES = (
    "spark.evenflow.logKeyValues"  # values of hot keys, which are the user's data, beside their hashes
)
COMPARED = "spark.evenflow.compareWithHashing"  # count what hashing would have done in one of so many batches
_COMPARED_DEFAULT = 8  # a few percent of the CPU time of a bare `balance` (benchmarks/watching.py)


def logs_values(spark: Any) -> bool:
    """Return whether the values of hot keys are logged; they are by default."""
    value = str(spark.conf.get(KEY_VALUES, "true")).strip().lower()
    if value not in ("true", "false"):
        raise EvenflowError(f"{KEY_VALUES} is {value!r}; set it to true or false.")
    return value == "true"


def compared_batches(spark: Any) -> int:
    """Return in one of how many batches the rows are also counted as hashing would place them; 0 for none."""
    value = str(spark.conf.get(COMPARED, str(_COMPARED_DEFAULT))).strip()
    if not value.isdecimal() or len(value) > 9:
        raise EvenflowError(
            f"{COMPARED} is {value!r}; set it to 1 to compare every batch, to N for about one in N, to 0 for "
            "none."
        )
    return int(value)
