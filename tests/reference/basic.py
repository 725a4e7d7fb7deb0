"""`choices` II-B: key, shuffle and partial key grouping."""

from __future__ import annotations

from reference.base import Reference, reference_for


@reference_for("key")
class KeyReference(Reference):
    def choose(self, key: int, time: float) -> int:
        return self.candidate(key, 0)


@reference_for("shuffle")
class ShuffleReference(Reference):
    def choose(self, key: int, time: float) -> int:
        return (self.offset + sum(self.loads)) % self.n


@reference_for("partial-key")
class PartialKeyReference(Reference):
    def choose(self, key: int, time: float) -> int:
        return self.least_loaded(self.candidates(key, 2 if self.n > 1 else 1, self.scheme.distinct))
