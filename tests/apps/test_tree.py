"""The decision tree from histograms: against the sequential one, and what workers hold under each scheme."""

from __future__ import annotations

import numpy as np
import pytest

import evenflow as ef
from apps.reference_tree import SlowTree
from evenflow.apps.decision_tree import DecisionTree, LeafHistograms
from evenflow.apps.generated import Points
from evenflow.apps.histograms import Histogram, histogram, merged
from evenflow.apps.tree import Node, Split, Tree, best_split
from evenflow.keys import hash_keys

BINS, ROWS, GAIN, DEPTH = 64, 300, 0.002, 5


def points(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rows = Points(messages=count, classes=3, dimensions=4, spread=1.2, seed=seed).make(np.arange(count))
    features = rows.field("features").flatten().to_numpy().reshape(count, -1)
    return features, np.array(rows.field("label").to_pylist())


def grow_in_parts(features: np.ndarray, labels: np.ndarray, workers: np.ndarray, periods: int) -> Tree:
    """Grow as Spark does: each worker has histograms of its values, merged at the end of each period."""
    tree = Tree()
    state: dict[tuple[int, int, str], Histogram] = {}
    for period in np.array_split(np.arange(len(labels)), periods):
        leaves = tree.leaf_of(features[period])
        found: dict[int, dict[int, Split]] = {}
        for leaf in np.unique(leaves):
            for feature in range(features.shape[1]):
                classes: dict[str, Histogram] = {}
                for label in np.unique(labels):
                    mine = period[(leaves == leaf) & (labels[period] == label)]
                    at = workers[mine, feature]
                    parts = [histogram(features[mine[at == w], feature], BINS) for w in np.unique(at)]
                    key = (int(leaf), feature, str(label))
                    before = [state[key]] if key in state else []
                    classes[str(label)] = state[key] = merged([*before, *parts], BINS)
                found.setdefault(int(leaf), {})[feature] = best_split(classes, BINS)
        tree.grow(found, ROWS, GAIN, DEPTH)
    return tree


def test_accuracy_is_that_of_the_sequential_tree() -> None:
    """Within one point, with eight workers that histograms are merged from."""
    features, labels = points(9000)
    train, test = slice(0, 6000), slice(6000, None)
    workers = np.random.default_rng(3).integers(0, 8, features.shape)
    tree = grow_in_parts(features[train], labels[train], workers[train], periods=6)
    slow = SlowTree(BINS, ROWS, GAIN, DEPTH)
    for period in np.array_split(np.arange(6000), 6):
        slow.learn(features[period].tolist(), labels[period].tolist())
    ours = np.mean(np.array(tree.predict(features[test])) == labels[test])
    theirs = np.mean(
        [
            slow.predict(point) == label
            for point, label in zip(features[test].tolist(), labels[test], strict=True)
        ]
    )
    assert theirs > 0.75  # of three classes, the most frequent has 44 percent
    assert abs(ours - theirs) <= 0.01


def test_a_perfect_cut_is_found() -> None:
    rng = np.random.default_rng(0)
    low, high = rng.uniform(0, 1, 500), rng.uniform(2, 3, 500)
    split = best_split({"a": histogram(low, 32), "b": histogram(high, 32)}, 32)
    assert 1 <= split.threshold <= 2
    assert split.gain == pytest.approx(0.5, abs=0.01)
    assert split.rows == pytest.approx(1000)
    same = best_split({"a": histogram(np.ones(9), 8), "b": histogram(np.ones(9), 8)}, 8)
    assert same.gain == 0
    assert best_split({}, 8).rows == 0


def test_leaves_and_json() -> None:
    tree = Tree(
        [Node(0, feature=1, threshold=0.5, left=1, right=2), Node(1, {"a": 2.0}), Node(1, {"b": 1.0})]
    )
    features = np.array([[9.0, 0.5], [9.0, 0.6], [0.0, np.nan]])
    assert tree.leaf_of(features).tolist() == [1, 2, 2]
    assert tree.predict(features) == ["a", "b", "b"]
    again = Tree.from_json(tree.to_json())
    assert again.leaves == [1, 2]
    assert again.predict(features) == ["a", "b", "b"]
    assert Tree().leaf_of(np.zeros((3, 2))).tolist() == [0, 0, 0]
    assert Tree().predict(np.zeros((1, 2))) == [""]


def test_a_leaf_waits_and_depth_ends() -> None:
    split = Split(0.4, 1.0, {"a": 50.0}, {"b": 50.0})
    for rows, gain, depth in ((101, 0.1, 3), (10, 0.5, 3), (10, 0.1, 0)):
        tree = Tree()
        assert tree.grow({0: {0: split}}, rows, gain, depth) == []
        assert tree.nodes[0].counts == {"a": 50.0, "b": 50.0}
    tree = Tree()
    assert tree.grow({0: {0: split, 1: split._replace(gain=0.3)}}, 100, 0.1, 3) == [0]
    assert (tree.nodes[0].feature, tree.leaves) == (0, [1, 2])


def test_merging_states_is_merging_histograms() -> None:
    import pyarrow as pa

    using = LeafHistograms(8)
    rng = np.random.default_rng(5)
    tables = [pa.table({"value": rng.normal(size=50), "label": ["a", "b"] * 25}) for _ in range(3)]
    states = [using.reduce(using.zero(), table) for table in tables]
    whole = using.merge(using.merge(states[0], states[1]), states[2])
    assert whole.sent == 6  # three workers sent one histogram of each class
    assert sum(whole.classes["a"]["counts"]) == 75
    assert using.merge(using.zero(), states[0]).classes == states[0].classes
    result = using.finish(whole)
    assert result["sent"] == 6
    assert sum(result["left"].values()) + sum(result["right"].values()) == pytest.approx(150)


@pytest.mark.parametrize(
    ("scheme", "most"), [("shuffle", 1.0), ("consistent", 0.75), ("fill", 0.25), ("key", 0.125)]
)
def test_histograms_held(scheme: str, most: float) -> None:
    """Of W x D x C x L, shuffling holds all; the fewer homes a key has, the fewer histograms there are.

    Eight workers, eight leaves of unequal size, 32 features: a message is a value, keyed by (leaf, feature).
    """
    rng = np.random.default_rng(2)
    leaves = rng.choice(8, 4000, p=np.array([8, 4, 2, 2, 1, 1, 1, 1]) / 20)
    keys = (leaves[:, None] * 32 + np.arange(32)).ravel()
    router = ef.scheme(scheme).router(workers=8, seed=1)
    if scheme == "shuffle":  # of whole points, as in the paper
        worker = np.repeat(router.route(hash_keys(leaves)), 32)
    else:
        worker = router.route(hash_keys(keys))
    held = np.unique(keys * 8 + worker).size / (8 * 8 * 32)
    assert held <= most
    if scheme == "shuffle":
        assert held == 1
    loads = np.bincount(worker, minlength=8)
    if scheme != "key":
        assert loads.max() / loads.mean() < 1.05


def test_bad_parameters() -> None:
    for wrong, sentence in (
        ({"bins": 1}, "bins is 1"),
        ({"depth": 0}, "depth"),
        ({"holdout": 1.0}, "holdout"),
    ):
        with pytest.raises(ef.EvenflowError, match=sentence):
            DecisionTree(**wrong)
