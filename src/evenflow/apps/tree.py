"""A decision tree grown from histograms (Ben-Haim and Tom-Tov, JMLR 2010; `heterogeneous` 8.1).

Every leaf has one histogram per feature and class. The candidate splits of a feature are the points that
divide its values into equal parts (``uniform`` of all classes combined); the one with the largest decrease in
Gini impurity wins. A leaf is split by its best feature; its children start with the class counts estimated
from the histograms. This module is independent of Spark: histograms may come from one machine or be merged
from many.

Not specified by the paper: a leaf needs ``rows`` points, and a split must decrease the impurity by ``gain``.
Missing values (NaN) go to the right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from evenflow.apps.histograms import Histogram, below, merged, uniform
from evenflow.kernels import Float64Array, Int64Array

CANDIDATES = 32  # points tried per feature

Counts = dict[str, float]


class Split(NamedTuple):
    """The best split of a leaf by one feature: values up to ``threshold`` go left."""

    gain: float
    threshold: float
    left: Counts
    right: Counts

    @property
    def rows(self) -> float:
        """Number of points."""
        return sum(self.left.values()) + sum(self.right.values())


def best_split(classes: Mapping[str, Histogram], bins: int) -> Split:
    """Return the best split of one feature, from the histogram of each class; gain 0 if there is none.

    >>> split = best_split({"a": Histogram(np.array([0.0, 1]), np.array([5.0, 5])),
    ...                     "b": Histogram(np.array([3.0, 4]), np.array([5.0, 5]))}, 8)
    >>> 1 < split.threshold < 3, round(split.gain, 2)
    (True, 0.5)
    """
    labels = sorted(classes)
    totals = np.array([classes[label].total for label in labels])
    everything = dict(zip(labels, totals.tolist(), strict=True))
    points = uniform(merged(classes.values(), bins), CANDIDATES)
    if not points.size:
        return Split(0.0, np.inf, everything, dict.fromkeys(labels, 0.0))
    left = np.stack([below(classes[label], points) for label in labels])
    right = totals[:, None] - left
    total = totals.sum()
    after = (left.sum(0) * _impurity(left) + right.sum(0) * _impurity(right)) / total
    gains = _impurity(totals[:, None])[0] - after
    alike = np.flatnonzero(gains >= gains.max() - 1e-12)
    best = int(alike[alike.size // 2])  # the middle one of several equally good ones
    return Split(
        max(0.0, float(gains[best])),
        float(points[best]),
        dict(zip(labels, left[:, best].tolist(), strict=True)),
        dict(zip(labels, right[:, best].tolist(), strict=True)),
    )


def _impurity(counts: Float64Array) -> Float64Array:
    """Gini impurity of each column of class counts."""
    total = np.maximum(counts.sum(0), 1e-300)
    gini: Float64Array = 1.0 - ((counts / total) ** 2).sum(0)
    return gini


@dataclass
class Node:
    """A leaf, or a test of one feature with two children."""

    depth: int
    counts: Counts = field(default_factory=dict)
    feature: int = -1
    threshold: float = 0.0
    left: int = -1
    right: int = -1
    gain: float = 0.0


class Tree:
    """Nodes in order of creation; node 0 is the root, and node numbers never change."""

    def __init__(self, nodes: Iterable[Node] = ()):
        self.nodes = list(nodes) or [Node(0)]

    @property
    def leaves(self) -> list[int]:
        """Numbers of the leaves."""
        return [number for number, node in enumerate(self.nodes) if node.feature < 0]

    @property
    def depth(self) -> int:
        """Number of tests on the longest path to a leaf."""
        return max(node.depth for node in self.nodes)

    def leaf_of(self, features: Float64Array) -> Int64Array:
        """Return the leaf of every point (a row per point)."""
        tests = np.array([node.feature for node in self.nodes])
        thresholds = np.array([node.threshold for node in self.nodes])
        children = np.array([(node.right, node.left) for node in self.nodes])
        node = np.zeros(len(features), np.int64)
        for _ in range(self.depth):
            inner = np.flatnonzero(tests[node] >= 0)
            at = node[inner]
            goes_left = features[inner, tests[at]] <= thresholds[at]
            node[inner] = children[at, goes_left.astype(np.int64)]
        return node

    def predict(self, features: Float64Array) -> list[str]:
        """Return the predicted class of every point: the most frequent one in its leaf."""
        best = [max(node.counts, key=lambda c: (node.counts[c], c), default="") for node in self.nodes]
        return [best[leaf] for leaf in self.leaf_of(features)]

    def grow(
        self, found: Mapping[int, Mapping[int, Split]], rows: float, gain: float, depth: int
    ) -> list[int]:
        """Split leaves by their best feature; return the leaves that were split.

        Other leaves take the class counts of the points in them.
        """
        done = []
        for leaf, splits in sorted(found.items()):
            node = self.nodes[leaf]
            if node.feature >= 0 or not splits:
                continue
            feature = max(splits, key=lambda f: (splits[f].gain, -f))
            best = splits[feature]
            both = {**best.left, **best.right}
            node.counts = {c: best.left.get(c, 0.0) + best.right.get(c, 0.0) for c in both}
            if best.rows < rows or best.gain < gain or node.depth >= depth:
                continue
            node.feature, node.threshold, node.gain = feature, best.threshold, best.gain
            node.left, node.right = len(self.nodes), len(self.nodes) + 1
            self.nodes += [Node(node.depth + 1, best.left), Node(node.depth + 1, best.right)]
            done.append(leaf)
        return done

    def to_json(self) -> list[dict[str, Any]]:
        """Return the nodes as plain data."""
        return [vars(node) for node in self.nodes]

    @staticmethod
    def from_json(nodes: list[dict[str, Any]]) -> Tree:
        """Return a tree from ``to_json``."""
        return Tree(Node(**node) for node in nodes)

    def lines(self, names: list[str]) -> list[tuple[str, str]]:
        """Return the tree as lines of (test, class)."""
        shown: list[tuple[str, str]] = []

        def show(number: int, mark: str) -> None:
            node = self.nodes[number]
            indent = "  " * node.depth
            if node.feature < 0:
                total = sum(node.counts.values())
                best = max(node.counts, key=lambda c: node.counts[c], default="")
                share = f"{node.counts[best] / total:.0%} of {total:,.0f}" if total else "no rows"
                shown.append((f"{indent}{mark}", f"{best} ({share})"))
                return
            shown.append((f"{indent}{mark}{names[node.feature]} <= {node.threshold:.4g}?", ""))
            show(node.left, "yes: ")
            show(node.right, "no: ")

        show(0, "")
        return shown
