"""The sequential decision tree: one machine, one histogram per leaf, feature and class, point by point.

Written from the papers alone and slow on purpose; it shares no code with `evenflow.apps`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any


class SlowHistogram:
    """Algorithm 1 of Ben-Haim and Tom-Tov: a point becomes a bin, then the two closest bins are merged."""

    def __init__(self, bins: int):
        self.bins = bins
        self.list: list[tuple[float, float]] = []

    def add(self, value: float) -> None:
        at = bisect_left(self.list, (value, 0.0))
        if at < len(self.list) and self.list[at][0] == value:
            self.list[at] = (value, self.list[at][1] + 1)
            return
        insort(self.list, (value, 1.0))
        if len(self.list) > self.bins:
            gaps = [b[0] - a[0] for a, b in zip(self.list, self.list[1:], strict=False)]
            at = gaps.index(min(gaps))
            (p, m), (q, k) = self.list[at], self.list[at + 1]
            self.list[at : at + 2] = [((p * m + q * k) / (m + k), m + k)]

    def below(self, value: float) -> float:
        """Algorithm 3."""
        if not self.list or value < self.list[0][0]:
            return 0.0
        if value >= self.list[-1][0]:
            return sum(m for _, m in self.list)
        at = max(i for i, (p, _) in enumerate(self.list) if p <= value)
        (p, m), (q, k) = self.list[at], self.list[at + 1]
        part = (value - p) / (q - p)
        here = m + (k - m) * part
        return sum(c for _, c in self.list[:at]) + m / 2 + (m + here) / 2 * part


def gini(counts: list[float]) -> float:
    total = sum(counts)
    return 1 - sum((c / total) ** 2 for c in counts) if total else 0.0


class SlowTree:
    """Nodes as dicts; after every period of rows the leaves with enough of them are split."""

    def __init__(self, bins: int, rows: int, gain: float, depth: int):
        self.bins, self.rows, self.gain, self.depth = bins, rows, gain, depth
        self.root = self.leaf(0, {})

    def leaf(self, depth: int, counts: dict[str, float]) -> dict[str, Any]:
        return {"depth": depth, "counts": counts, "seen": 0, "histograms": {}, "split": None}

    def find(self, point: list[float]) -> dict[str, Any]:
        node = self.root
        while node["split"] is not None:
            feature, threshold, left, right = node["split"]
            node = left if point[feature] <= threshold else right
        return node

    def learn(self, points: list[list[float]], labels: list[str]) -> None:
        """One period."""
        touched = {}
        for point, label in zip(points, labels, strict=True):
            node = self.find(point)
            touched[id(node)] = node
            node["seen"] += 1
            for feature, value in enumerate(point):
                key = (feature, label)
                if key not in node["histograms"]:
                    node["histograms"][key] = SlowHistogram(self.bins)
                node["histograms"][key].add(value)
        for node in touched.values():
            self.split(node)

    def split(self, node: dict[str, Any]) -> None:
        histograms = node["histograms"]
        classes = sorted({label for _, label in histograms})
        features = sorted({feature for feature, _ in histograms})
        best = (-1.0, 0, 0.0, [0.0], [0.0])
        for feature in features:
            mine = [histograms.get((feature, c), SlowHistogram(self.bins)) for c in classes]
            totals = [sum(m for _, m in one.list) for one in mine]
            centres = sorted(p for one in mine for p, _ in one.list)
            low, high = centres[0], centres[-1]
            for threshold in [low + (high - low) * step / 64 for step in range(1, 64)]:
                left = [one.below(threshold) for one in mine]
                right = [t - v for t, v in zip(totals, left, strict=True)]
                after = (sum(left) * gini(left) + sum(right) * gini(right)) / sum(totals)
                if gini(totals) - after > best[0]:
                    best = (gini(totals) - after, feature, threshold, left, right)
        gain, feature, threshold, left, right = best
        node["counts"] = {c: a + b for c, a, b in zip(classes, left, right, strict=True)}
        if node["seen"] >= self.rows and gain >= self.gain and node["depth"] < self.depth:
            children = [
                self.leaf(node["depth"] + 1, dict(zip(classes, part, strict=True))) for part in (left, right)
            ]
            node["split"] = (feature, threshold, *children)

    def predict(self, point: list[float]) -> str:
        counts = self.find(point)["counts"]
        return max(counts, key=lambda c: (counts[c], c))
