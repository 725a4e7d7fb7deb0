"""What plans have in common: hot keys with homes, and the expected load of each worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenflow.kernels import Float64Array, Int32Array, UInt64Array


class Homes:
    """Measures of a plan, from its fields."""

    workers: int
    keys: UInt64Array
    homes: Int32Array
    expected: Float64Array

    @property
    def max_over_mean(self) -> float:
        """The highest expected load, relative to the mean."""
        return round(float(self.expected.max()) * self.workers, 9)

    @property
    def splits(self) -> int:
        """Number of homes in addition to the first one of each hot key."""
        return int(self.homes.size - self.keys.size)
