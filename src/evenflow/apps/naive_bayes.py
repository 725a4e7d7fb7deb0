"""Streaming naive Bayes (`heterogeneous` 3): one counter per feature value and class.

P(C | X) ~ P(C) x product of P(x | C), where P(x | C) = (n_xC + alpha) / (N_C + alpha V): the multinomial
model with Laplace smoothing (not specified by the paper). The counters are the keyed stream: a text of ten
words is ten messages, keyed by (word, class), plus one with a null word that counts the text itself. So this
is word count, with hot words spread over workers, and since counts are exact, predictions equal those of a
single machine. Unknown words are ignored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.apps.base import App, AppSetup, View, column, register, rotated
from evenflow.apps.counting import SCHEMA, Count
from evenflow.errors import EvenflowError
from evenflow.spark.grouped.aggregator import Aggregator
from evenflow.spec import check

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from evenflow.report.tables import Table

EXAM = 1000  # maximum number of held-out documents
_PARTS = 10_000
_TELLING = 6
WORDS = r"[^\p{L}\p{N}']+"  # word separators


@dataclass
class Model:
    """The counters and their predictions; ``words`` maps class -> word -> count.

    >>> model = Model(alpha=1.0)
    >>> model.learn([("spam", None, 2), ("ham", None, 3), ("spam", "cash", 4), ("ham", "tea", 5)])
    >>> model.predict(["cash", "never seen"]), model.predict(["tea"]), model.predict([])
    ('spam', 'ham', 'ham')
    """

    alpha: float = 1.0
    documents: dict[str, int] = field(default_factory=dict)
    words: dict[str, dict[str, int]] = field(default_factory=dict)

    def learn(self, counters: Iterable[tuple[str, str | None, int]]) -> None:
        """Update counters (class, word or None for documents, total count); idempotent."""
        for label, word, count in counters:
            if word is None:
                self.documents[label] = count
            else:
                self.words.setdefault(label, {})[word] = count
        self.__dict__.pop("_known", None)

    @property
    def vocabulary(self) -> set[str]:
        """All counted words."""
        if "_known" not in self.__dict__:
            self.__dict__["_known"] = set().union(*self.words.values())
        known: set[str] = self.__dict__["_known"]
        return known

    def predict(self, words: Iterable[str]) -> str | None:
        """Return the most likely class, ties by name; None before the first document."""
        return self.predict_all([words])[0]

    def predict_all(self, texts: Iterable[Iterable[str]]) -> list[str | None]:
        """Return the most likely class of every text."""
        known, total = self.vocabulary, sum(self.documents.values())
        classes = []
        for label in sorted(self.documents):
            counts = self.words.get(label, {})
            base = math.log(sum(counts.values()) + self.alpha * len(known)) if known else 0.0
            classes.append((label, math.log(self.documents[label] / total), counts, base))
        found: list[str | None] = []
        for text in texts:
            words = [word for word in text if word in known]
            scores = [
                (
                    math.fsum(
                        [prior, *(math.log(counts.get(word, 0) + self.alpha) - base for word in words)]
                    ),
                    c,
                )
                for c, prior, counts, base in classes
            ]
            found.append(max(scores, key=lambda scored: scored[0])[1] if scores else None)
        return found

    def telling(self, label: str, most: int) -> list[str]:
        """Return the most distinctive words of a class: frequent in it, rare in the others."""
        counts = self.words.get(label, {})
        inside = sum(counts.values())
        everywhere: Counter[str] = Counter()
        for other in self.words.values():
            everywhere.update(other)
        outside = sum(everywhere.values()) - inside

        def weight(word: str) -> float:
            here = (counts[word] + self.alpha) / (inside + self.alpha)
            there = (everywhere[word] - counts[word] + self.alpha) / (outside + self.alpha)
            return counts[word] * math.log(here / there)

        return sorted(counts, key=lambda word: (-weight(word), word))[:most]


@register
@dataclass(frozen=True)
class NaiveBayes(App):
    """Learn classes from words; ``features`` is a text or array column, or several columns as a+b+c."""

    label: str = "label"
    features: str = "words"
    alpha: float = 1.0
    holdout: float = 0.1  # share of the documents used for evaluation

    name = "naive-bayes"
    summary = "streaming naive Bayes: counters per feature and class, evaluated on held-out documents"
    source = "documents:messages=20000,classes=4"
    keys = ()
    schema = SCHEMA

    def __post_init__(self) -> None:
        check("alpha", self.alpha, self.alpha > 0, "it must be above 0")
        check("holdout", self.holdout, 0 <= self.holdout < 1, "it must be a share from 0 to below 1")

    def aggregator(self) -> Aggregator:
        """Count rows."""
        return Count()

    def documents(self, frame: DataFrame) -> DataFrame:
        """Return label, words, and whether a document is held out."""
        from pyspark.sql import functions as F

        label = column(frame, self, "label").cast("string")
        draw = F.pmod(F.xxhash64("label", "words"), F.lit(_PARTS))
        named = frame.select(label.alias("label"), self._words(frame).alias("words"))
        held = (draw < int(self.holdout * _PARTS)).alias("held")
        return named.where("label is not null and words is not null").select("label", "words", held)

    def _words(self, frame: DataFrame) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql import types as T

        from evenflow.spark.routing.key_columns import quoted

        if self.features not in frame.columns and "+" in self.features:
            names = self.features.split("+")
            missing = [name for name in names if name not in frame.columns]
            if missing:
                raise EvenflowError(
                    f"there is no column {missing[0]!r} for features; choose from {', '.join(frame.columns)}."
                )
            values = [F.coalesce(F.col(quoted(name)).cast("string"), F.lit("null")) for name in names]
            return F.array(*(F.concat(F.lit(f"{n}="), value) for n, value in zip(names, values, strict=True)))
        words = column(frame, self, "features")
        kind = frame.schema[self.features].dataType
        if isinstance(kind, T.ArrayType):
            return F.array_compact(words.cast("array<string>"))
        if isinstance(kind, T.StringType):
            return F.array_remove(F.split(F.lower(words), WORDS), "")
        raise EvenflowError(
            f"features is column {self.features!r} of type {kind.simpleString()}; use a text column, an "
            "array column, or several columns as a+b+c."
        )

    def rows(self, frame: DataFrame, setup: AppSetup) -> tuple[DataFrame, Sequence[str | Column]]:
        """Return one row per word, and one with a null word per document."""
        from pyspark.sql import functions as F

        whole = F.array(F.lit(None).cast("string"))
        learned = rotated(self.documents(frame).where("not held"), F.concat(whole, "words"))
        return learned.select(F.explode("rotated").alias("word"), "label"), ["word", "label"]

    def exam(self, table: DataFrame | None, key: list[str]) -> list[tuple[str, list[str]]]:
        """Return the held-out documents."""
        if table is None or self.holdout == 0:
            return []
        held = self.documents(table).where("held").limit(EXAM).collect()
        return [(row["label"], list(row["words"])) for row in held]

    def fold(self, view: View, changed: DataFrame, setup: AppSetup) -> View:
        """Update the counters, and evaluate on the held-out documents."""
        model = self.model(view)
        model.learn((row["label"], row["word"], row["rows"]) for row in changed.collect())
        right = None
        if setup.exam:
            answers = model.predict_all(words for _, words in setup.exam)
            right = sum(a == label for a, (label, _) in zip(answers, setup.exam, strict=True))
        history = [*view.get("accuracy", []), right / len(setup.exam) if right is not None else None]
        return {
            "documents": model.documents,
            "words": model.words,
            "accuracy": history,
            "asked": len(setup.exam or []),
            "most_frequent": _most_frequent(model.documents, setup.exam or []),
        }

    def model(self, view: View) -> Model:
        """Return the model of a view."""
        return Model(self.alpha, dict(view.get("documents", {})), dict(view.get("words", {})))

    def tables(self, view: View, top: int) -> list[Table]:
        """Show the classes, their most distinctive words, and the accuracy."""
        from evenflow.report.tables import Table

        model = self.model(view)
        rows = [
            (c, count, sum(model.words.get(c, {}).values()), ", ".join(model.telling(c, _TELLING)))
            for c, count in sorted(model.documents.items(), key=lambda item: (-item[1], item[0]))[:top]
        ]
        return [
            Table("Classes", ("class", "documents", "words", "most distinctive words"), rows, _note(view))
        ]

    def answer(self, view: View) -> View:
        """Return the view without the counters, which go to the sink."""
        model = self.model(view)
        classes = [
            {"class": label, "documents": count, "telling": model.telling(label, _TELLING)}
            for label, count in sorted(model.documents.items())
        ]
        rest = {name: view.get(name) for name in ("accuracy", "asked", "most_frequent")}
        return {"classes": classes, "vocabulary": len(model.vocabulary), **rest}


def _most_frequent(documents: dict[str, int], exam: Sequence[Any]) -> float | None:
    """Return the accuracy of always predicting the most frequent class."""
    if not exam or not documents:
        return None
    best = max(documents, key=lambda label: documents[label])
    return sum(label == best for label, _ in exam) / len(exam)


def _note(view: View) -> str:
    history = view.get("accuracy") or [None]
    if history[-1] is None:
        return "No documents were held out, so the accuracy is unknown."
    sentence = (
        f"Accuracy on {view['asked']:,} held-out documents: {history[-1]:.1%} "
        f"(always predicting the most frequent class: {view['most_frequent']:.1%})"
    )
    return sentence + (f"; after the first batch: {history[0]:.1%}." if len(history) > 1 else ".")
