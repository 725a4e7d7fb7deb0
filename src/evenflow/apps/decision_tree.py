"""Streaming parallel decision tree (Ben-Haim and Tom-Tov, JMLR 2010; `heterogeneous` 8.1).

Workers keep one histogram per leaf, feature and class; an aggregator merges them and splits leaves; the new
tree is sent back to the workers. Here a message is one value of a row, keyed by (leaf, feature). Under
shuffle grouping every worker has all histograms, W x D x C x L in total, and all W are merged for a split; a
scheme that keeps a key on few workers stores and merges fewer. The aggregation period is a micro-batch, or
one pass over all rows. The numbers of stored and merged histograms are reported.

The tree is fixed during a batch: it is read from the view's file, which is written at the end of each batch.
Merging histograms is approximate, so the order of arrival may shift a threshold slightly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenflow.apps.base import VIEW_FILE, App, AppSetup, View, column, register, rotated
from evenflow.apps.histograms import EMPTY, Histogram, histogram, merged
from evenflow.apps.tree import Split, Tree, best_split
from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array
from evenflow.spark.grouped.aggregator import Aggregator
from evenflow.spec import check

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from evenflow.report.tables import Table

UNEQUAL = "features have different lengths; every row must have the same number of features."
EXAM = 2000
_PARTS = 10_000
Bins = dict[str, list[float]]


class Leaf(NamedTuple):
    """Histograms of one feature in one leaf, by class, and the number of histograms sent to be merged."""

    classes: dict[str, Bins]
    sent: int


class LeafHistograms(Aggregator):
    """Merged histograms of ``value`` by ``label``; the result is the best split."""

    buffer = "classes map<string,struct<centres:array<double>,counts:array<double>>>, sent long"

    def __init__(self, bins: int):
        self.bins = bins

    def zero(self) -> Leaf:
        """Start without histograms."""
        return Leaf({}, 0)

    def reduce(self, state: Leaf, rows: Any) -> Leaf:
        """Add values to the histograms of their classes."""
        values = rows["value"].to_numpy().astype(np.float64)
        labels = np.array(rows["label"].to_pylist(), object)
        classes = dict(state.classes)
        for label in sorted(set(labels.tolist())):
            fresh = histogram(values[labels == label], self.bins)
            classes[label] = _packed(merged([_histogram(classes.get(label)), fresh], self.bins))
        return Leaf(classes, len(classes))

    def merge(self, a: Leaf, b: Leaf) -> Leaf:
        """Merge the histograms of each class."""
        classes = {
            label: _packed(merged([_histogram(part.classes.get(label)) for part in (a, b)], self.bins))
            for label in sorted({*a.classes, *b.classes})
        }
        return Leaf(classes, a.sent + b.sent)

    def finish(self, state: Leaf) -> dict[str, Any]:
        """Return the best split."""
        split = best_split({label: _histogram(bins) for label, bins in state.classes.items()}, self.bins)
        return {**split._asdict(), "sent": state.sent}


def _histogram(bins: Bins | None) -> Histogram:
    return EMPTY if bins is None else Histogram(np.array(bins["centres"]), np.array(bins["counts"]))


def _packed(of: Histogram) -> Bins:
    return {"centres": of.centres.tolist(), "counts": of.counts.tolist()}


@register
@dataclass(frozen=True)
class DecisionTree(App):
    """Grow a tree; ``features`` is an array column, or several numeric columns as a+b+c."""

    label: str = "label"
    features: str = "features"
    bins: int = 64  # per histogram
    depth: int = 6
    rows_per_split: int = 500  # that a leaf needs
    gain: float = 0.002  # minimum decrease in impurity
    holdout: float = 0.1

    name = "decision-tree"
    summary = "streaming parallel decision tree from merged histograms, evaluated on held-out rows"
    source = "points:messages=20000,classes=3,dimensions=8"
    keys = ()
    schema = "gain double, threshold double, left map<string,double>, right map<string,double>, sent long"
    writes_rows = False

    def __post_init__(self) -> None:
        check("bins", self.bins, self.bins >= 2, "it must be at least 2")
        check("depth", self.depth, 1 <= self.depth <= 30, "it must be from 1 to 30")
        check("rows_per_split", self.rows_per_split, self.rows_per_split >= 1, "it must be at least 1")
        check("holdout", self.holdout, 0 <= self.holdout < 1, "it must be a share from 0 to below 1")

    def aggregator(self) -> Aggregator:
        """Build histograms."""
        return LeafHistograms(self.bins)

    def points(self, frame: DataFrame) -> DataFrame:
        """Return label, features, and whether a row is held out."""
        from pyspark.sql import functions as F

        label = column(frame, self, "label").cast("string")
        named = frame.select(label.alias("label"), self._features(frame).alias("features"))
        draw = F.pmod(F.xxhash64("label", "features"), F.lit(_PARTS))
        held = (draw < int(self.holdout * _PARTS)).alias("held")
        return named.where("label is not null and features is not null").select("label", "features", held)

    def names(self, frame: DataFrame) -> list[str]:
        """Return the feature columns; an array column is one name."""
        return [self.features] if self.features in frame.columns else self.features.split("+")

    def _features(self, frame: DataFrame) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql import types as T

        from evenflow.spark.routing.key_columns import quoted

        names = self.names(frame)
        missing = [name for name in names if name not in frame.columns]
        if missing:
            numbers = [name for name in frame.columns if name != self.label][:3]
            raise EvenflowError(
                f"decision-tree needs numeric features, but there is no column {missing[0]!r}; name them, "
                f"as in --app decision-tree:features={'+'.join(numbers)}."
            )
        if len(names) == 1 and isinstance(frame.schema[names[0]].dataType, T.ArrayType):
            return F.col(quoted(names[0])).cast("array<double>")
        return F.array(*(F.col(quoted(name)).try_cast("double") for name in names))

    def rows(self, frame: DataFrame, setup: AppSetup) -> tuple[DataFrame, Sequence[str | Column]]:
        """Return one row per value, with the current leaf of its point."""
        from pyspark.sql import functions as F

        leaf = leaf_of(F.col("features"), setup.folder / VIEW_FILE)
        learned = self.points(frame).where("not held").select("label", "features", leaf.alias("leaf"))
        named = F.transform("features", lambda value, at: F.struct(at.alias("feature"), value.alias("value")))
        return rotated(learned, named).select("leaf", "label", F.inline("rotated")), ["leaf", "feature"]

    def exam(self, table: DataFrame | None, key: list[str]) -> tuple[list[str], Float64Array] | None:
        """Return the held-out rows."""
        if table is None or self.holdout == 0:
            return None
        held = self.points(table).where("held").limit(EXAM).collect()
        if not held:
            return None
        lists = [[np.nan if value is None else value for value in row["features"]] for row in held]
        if len({len(values) for values in lists}) > 1:
            raise EvenflowError(UNEQUAL)
        return [row["label"] for row in held], np.array(lists, np.float64)

    def fold(self, view: View, changed: DataFrame, setup: AppSetup) -> View:
        """Split the leaves with enough rows, and evaluate on the held-out rows."""
        tree = Tree.from_json(view["tree"]) if "tree" in view else Tree()
        leaves = len(tree.leaves)
        found: dict[int, dict[int, Split]] = {}
        sent: dict[str, int] = {}
        for row in changed.collect():
            split = Split(row["gain"], row["threshold"], dict(row["left"]), dict(row["right"]))
            found.setdefault(row["leaf"], {})[row["feature"]] = split
            sent[str(row["leaf"])] = sent.get(str(row["leaf"]), 0) + row["sent"]
        done = tree.grow(found, self.rows_per_split, self.gain, self.depth)
        before = {} if setup.at_once else view.get("sent", {})
        classes = max((len(split.left) for splits in found.values() for split in splits.values()), default=0)
        dimensions = max((max(splits) + 1 for splits in found.values()), default=0)
        return {
            "tree": tree.to_json(),
            "grew": len(done),
            "sent": {**before, **sent},
            "held": [*view.get("held", []), sum(sent[leaf] - before.get(leaf, 0) for leaf in sent)],
            "shuffled": [*view.get("shuffled", []), setup.workers * dimensions * classes * leaves],
            "merges": [*view.get("merges", []), *(sent[str(leaf)] for leaf in done)],
            "accuracy": [*view.get("accuracy", []), _accuracy(tree, setup.exam)],
            "asked": len(setup.exam[0]) if setup.exam else 0,
            "features": dimensions,
        }

    def needs_another_pass(self, view: View) -> bool:
        """Read all rows again while the tree grows; the last pass counts the classes of its leaves."""
        return bool(view["grew"])

    def tables(self, view: View, top: int) -> list[Table]:
        """Show the tree and the cost of growing it."""
        from evenflow.report.tables import Table

        tree = Tree.from_json(view["tree"])
        several = self.features.split("+")
        names = several if len(several) > 1 else [f"{self.features}[{n}]" for n in range(view["features"])]
        lines = tree.lines(names)
        note = f"{len(lines) - 4 * top:,} more lines; --json has the tree." if len(lines) > 4 * top else ""
        splits = len(view["merges"])
        cost = [
            ("histograms stored, maximum", max(view["held"])),
            ("out of workers x features x classes x leaves", max(view["shuffled"])),
            ("splits", splits),
            ("histograms merged per split", sum(view["merges"]) / splits if splits else None),
        ]
        return [
            Table(f"Tree with {len(tree.leaves)} leaves", ("test", "class"), lines[: 4 * top], note),
            Table("Cost", ("", "number"), cost, _note(view)),
        ]


def leaf_of(features: Column, file: Path) -> Column:
    """Return the leaf of every row in the tree stored in ``file``; leaf 0 if there is no tree yet."""
    import pyarrow as pa

    from evenflow.spark.versions.arrow import arrow_function

    def leaves(lists: pa.Array) -> pa.Array:
        return pa.array(_tree_in(file).leaf_of(_matrix(lists)))

    return arrow_function(leaves, "long", pa.list_(pa.float64()))(features)


def _tree_in(file: Path) -> Tree:
    try:
        view = json.loads(file.read_text())["view"]
    except FileNotFoundError:
        return Tree()
    return Tree.from_json(view["tree"])


def _matrix(lists: Any) -> Float64Array:
    """Return arrays of equal length as the rows of a matrix; null becomes NaN."""
    if not len(lists):
        return np.zeros((0, 0))
    values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    lengths = np.diff(lists.offsets.to_numpy())
    if (lengths != lengths[0]).any():
        raise EvenflowError(UNEQUAL)
    return values.reshape(len(lists), -1)


def _accuracy(tree: Tree, exam: tuple[list[str], Float64Array] | None) -> float | None:
    if exam is None:
        return None
    labels, features = exam
    return sum(a == b for a, b in zip(tree.predict(features), labels, strict=True)) / len(labels)


def _note(view: View) -> str:
    if view["accuracy"][-1] is None:
        return "No rows were held out, so the accuracy is unknown."
    return f"Accuracy on {view['asked']:,} held-out rows: {view['accuracy'][-1]:.1%}."
