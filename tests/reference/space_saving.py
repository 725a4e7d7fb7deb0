"""SpaceSaving (Metwally et al.) by searching all counters for the lowest one."""

from __future__ import annotations


class SlowSpaceSaving:
    """Counters as [count, error, message at which the counter came to this count], by key."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.total = 0
        self.counters: dict[int, list[int]] = {}

    def count(self, key: int) -> int:
        """Count one message of ``key`` and return its counter."""
        self.total += 1
        error = 0
        if key in self.counters:
            count, error, _ = self.counters[key]
        elif len(self.counters) < self.capacity:
            count = 0
        else:
            victim = min(self.counters, key=lambda other: (self.counters[other][0], self.counters[other][2]))
            count = error = self.counters.pop(victim)[0]
        self.counters[key] = [count + 1, error, self.total]
        return count + 1

    def head(self, theta: float) -> list[tuple[int, int]]:
        """Return (count, key) of every key with at least a share of ``theta``, most frequent first."""
        high = [(count, key) for key, (count, _, _) in self.counters.items() if count >= theta * self.total]
        return sorted(high, key=lambda pair: (-pair[0], pair[1]))
