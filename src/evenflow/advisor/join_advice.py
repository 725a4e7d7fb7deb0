"""Advice on a join: how uneven it is, what `evenflow.spark.join` would make of it, and what else would do.

The rules, in order:

1. a side that the join may broadcast is small: broadcast it;
2. no key is hot, or splitting hot keys gains less than 10%: leave the join as it is;
3. all hot keys are on a side that adaptive execution may split: tune it;
4. otherwise: ``evenflow.spark.join``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.advisor.advice import SAMPLE, open_data
from evenflow.advisor.profile import share_text
from evenflow.advisor.recommend import GAIN, plain_label
from evenflow.errors import EvenflowError
from evenflow.kernels import BoolArray
from evenflow.plan import JoinPlan, bucket_of, make_join_plan
from evenflow.plan.counted import HOT_DIVISOR, Counted
from evenflow.plan.join_build import KINDS, NO_PRODUCT
from evenflow.schemes import scheme
from evenflow.streams import FileStream
from evenflow.streams.sample import Sample, take_sample

BROADCAST = 10 * 1024**2  # bytes: Spark broadcasts smaller sides by itself
MAY_BROADCAST = 10 * BROADCAST  # bytes of files that still fit into an executor
ROW_BYTES = 100  # assumed where no file says how large rows are
MIN_SAMPLED = 16  # rows of a hot key in a sample; fewer may be chance
BROADCASTS = {"right": ("inner", "left", "left_semi", "left_anti"), "left": ("inner", "right")}
ADAPTIVE_SPLITS = {"left": ("inner", "left", "left_semi", "left_anti"), "right": ("inner", "right")}
KEEPS_NULLS = {"left": ("left", "full", "left_anti"), "right": ("right", "full")}
_NULL = np.array([42], np.uint64)  # its hash
BOTH_HOT = 20  # rows of a key on the side with fewer of them, from which its joined rows are most of its load


@dataclass(frozen=True)
class JoinSide:
    """One side of a join: its rows, keys, bytes and hottest key."""

    name: str
    rows: int
    keys: int
    bytes: int
    hottest: str
    share: float


@dataclass(frozen=True)
class JoinAdvice:
    """How uneven a join is, and what to do about it.

    Attributes
    ----------
    workers, how, key
        Number of partitions, kind of the join, key columns.
    left, right
        The sides.
    plain
        Load of the fullest partition of Spark's own join, relative to the mean.
    plan
        The plan that ``evenflow.spark.join`` would make.
    choice
        ``plain``, ``broadcast``, ``adaptive`` or ``join``.
    reason, code, notes
        Why, the lines to paste, and what else to know.
    """

    workers: int
    how: str
    key: tuple[str, ...]
    left: JoinSide
    right: JoinSide
    plain: float
    plan: JoinPlan
    choice: str
    reason: str
    code: str
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain data for JSON."""
        return {
            "workers": self.workers,
            "how": self.how,
            "key": list(self.key),
            "left": vars(self.left),
            "right": vars(self.right),
            "plain": {"max_over_mean": self.plain},
            "join": {
                "max_over_mean": self.plan.max_over_mean,
                "hot_keys": int(self.plan.keys.size),
                "split_keys": self.plan.splits,
                "copied_rows": self.plan.copied_rows,
            },
            "recommendation": {
                "choice": self.choice,
                "reason": self.reason,
                "code": self.code,
                "notes": list(self.notes),
            },
        }


def advise_join(
    left: Any,
    right: Any,
    key: str | Sequence[str] | None = None,
    *,
    workers: int,
    how: str = "inner",
    sample: int | None = SAMPLE,
    seed: int = 0,
) -> JoinAdvice:
    """Predict a join of skewed data and recommend how to compute it.

    Parameters
    ----------
    left, right
        Frames, files or streams, as `advise` takes them.
    key
        Columns that both sides have and are joined on.
    workers
        Number of partitions.
    how
        inner, left, right, full, left_semi or left_anti.
    sample
        Maximum number of rows to read of each side; None reads all of them.
    seed
        Seed for sampling Spark frames.

    Returns
    -------
    JoinAdvice
        The prediction and the recommendation.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> visits = pa.table({"user": np.where(np.arange(9000) % 3 == 0, 0, np.arange(9000) % 900)})
    >>> users = pa.table({"user": np.arange(900)})
    >>> advice = advise_join(visits, users, "user", workers=8, how="full")
    >>> advice.choice, round(advice.plain, 1), round(advice.plan.max_over_mean, 1)
    ('join', 3.2, 1.0)
    """
    if how not in KINDS:
        raise EvenflowError(f"how is {how!r}; choose one of {', '.join(KINDS)}.")
    workers = scheme("key").router(workers, seed).workers  # rejects an invalid number of workers
    samples, sides, unmatched = [], [], 0.0
    columns: tuple[str, ...] = ("key",)
    for data, name in ((left, "left"), (right, "right")):
        stream, total = open_data(data, key, None, sample, seed)
        taken = take_sample(stream, sample)
        taken.total = total or taken.total or taken.messages
        samples.append(taken)
        keeps = how in KEEPS_NULLS[name]
        sides.append(_side(taken, name, keeps))
        unmatched += _null_rows(taken) if keeps else 0.0
        columns = stream.key if isinstance(stream, FileStream) else columns
    counts = _counted(samples, workers)
    if how in NO_PRODUCT:  # only whether the right has a key matters
        keys, distinct = counts[1].keys, counts[1].distinct or 0.0
        counts[1] = Counted(keys, np.ones(keys.size), distinct, None, distinct)
    plan = make_join_plan(workers, counts[0], counts[1], how)
    plain = _plain_load(plan, how, unmatched)
    chosen = _chosen(plan, plain, sides, how, unmatched)
    reason = _reason(chosen, plan, plain, sides, how)
    code, notes = _code(chosen, columns, workers, how, sides)
    return JoinAdvice(workers, how, columns, sides[0], sides[1], plain, plan, chosen, reason, code, notes)


def _side(sample: Sample, name: str, keeps_nulls: bool) -> JoinSide:
    counts = np.bincount(sample.ids, minlength=sample.keys_upper_bound())
    top = int((counts if keeps_nulls else np.where(_has_null(sample), 0, counts)).argmax())
    rows = int(sample.total or sample.messages)
    size = rows * ROW_BYTES
    sizes = [file.size() for file in sample.stream.files] if isinstance(sample.stream, FileStream) else [None]
    if None not in sizes:
        size = sum(found or 0 for found in sizes)
    share = float(counts[top] / sample.messages)
    return JoinSide(name, rows, int((counts > 0).sum()), size, sample.label(top), share)


def _has_null(sample: Sample) -> BoolArray:
    """Return for every key, by id, whether a part of it is null, so that it matches nothing."""
    stream = sample.stream
    return stream.has_null() if isinstance(stream, FileStream) else np.zeros(sample.hashes.size, bool)


def _null_rows(sample: Sample) -> float:
    return float(_has_null(sample)[sample.ids].mean()) * float(sample.total or sample.messages)


def _counted(samples: list[Sample], workers: int) -> list[Counted]:
    """Return the rows, on both sides, of every key that is frequent on one of them."""
    rows: list[dict[int, float]] = []
    frequent: set[int] = set()
    for sample in samples:
        counts = np.bincount(sample.ids, minlength=sample.hashes.size)
        counts[_has_null(sample)] = 0
        least = MIN_SAMPLED if sample.how else 1
        listed = np.argsort(-counts, kind="stable")[: max(1000, HOT_DIVISOR * workers)]
        frequent.update(sample.hashes[listed[counts[listed] >= least]].tolist())
        scale = (sample.total or sample.messages) / sample.messages
        rows.append(dict(zip(sample.hashes.tolist(), (counts * scale).tolist(), strict=True)))
    found = []
    for sample, own in zip(samples, rows, strict=True):
        keys = [key for key in sorted(frequent) if own.get(key, 0.0) > 0]
        listed_rows = np.array([own[key] for key in keys], np.float64)
        total = float(sample.total or sample.messages) - _null_rows(sample)
        distinct = float(sum(rows > 0 for rows in own.values()))
        found.append(Counted(np.array(keys, np.uint64), listed_rows, total, None, distinct))
    return found


def _plain_load(plan: JoinPlan, how: str, unmatched: float) -> float:
    """Return the fullest worker's load, relative to the mean, if every key has one worker.

    So has null, with ``unmatched`` rows.
    """
    joined = plan.left_rows if how in NO_PRODUCT else plan.left_rows * plan.right_rows
    loads = plan.left_rows + plan.right_rows + joined
    weight = float(plan.weights.sum())
    rest = float(loads.sum() / weight - loads.sum()) if weight else sum(plan.totals)
    carried = np.full(plan.workers, max(0.0, rest) / plan.workers)
    np.add.at(carried, bucket_of(plan.keys, plan.workers), loads)
    carried[bucket_of(_NULL, plan.workers)] += 2 * unmatched
    return float(carried.max() / max(1e-300, carried.mean()))


def _chosen(plan: JoinPlan, plain: float, sides: list[JoinSide], how: str, unmatched: float) -> str:
    if any(side.bytes <= MAY_BROADCAST and how in BROADCASTS[side.name] for side in sides):
        return "broadcast"
    if not (plan.splits or unmatched) or plain < GAIN * plan.max_over_mean:
        return "plain"
    return "join" if _why_not_adaptive(plan, how) else "adaptive"


def _why_not_adaptive(plan: JoinPlan, how: str) -> str:
    """Return why adaptive execution does not split the hot keys' partitions; empty if it does."""
    if how == "full":
        return "it splits neither side of a full outer join"
    divided = plan.left_pieces * plan.right_pieces > 1
    left, right = plan.left_rows[divided], plan.right_rows[divided]
    if how not in NO_PRODUCT and (np.minimum(left, right) > BOTH_HOT).any():
        return "a key is hot on both sides, and its joined rows, not its bytes, make the partition large"
    for name, hot in (("left", left > right), ("right", right > left)):
        if hot.any() and how not in ADAPTIVE_SPLITS[name]:
            return f"it does not split the {name} of a {how} join"
    return ""


def _reason(chosen: str, plan: JoinPlan, plain: float, sides: list[JoinSide], how: str) -> str:
    hottest = max(sides, key=lambda side: side.share)
    found = (
        f"The hottest key of the {hottest.name}, {plain_label(hottest.hottest, 40)}, has "
        f"{share_text(hottest.share)} of its rows. In Spark's own join the fullest of {plan.workers} "
        f"partitions would have {plain:.2f} times the mean load; evenflow's join reduces it to "
        f"{plan.max_over_mean:.2f} with {plan.copied_rows:,.0f} rows copied. "
    )
    if chosen == "broadcast":
        small = _smallest(sides, how)
        size = max(0.1, small.bytes / 1e6)
        return found + (
            f"But the {small.name} is small, about {size:,.1f} MB: broadcast, it is joined without a "
            "shuffle, and keys do not matter."
        )
    if chosen == "plain":
        return found + "That is not worth a change: leave the join as it is."
    if chosen == "adaptive":
        return found + (
            "Adaptive execution can split that partition too, once its thresholds suit your data, and costs "
            "nothing: try it first."
        )
    return found + f"Adaptive execution does not split this: {_why_not_adaptive(plan, how)}."


def _smallest(sides: list[JoinSide], how: str) -> JoinSide:
    return min((side for side in sides if how in BROADCASTS[side.name]), key=lambda side: side.bytes)


def _code(
    chosen: str, columns: tuple[str, ...], workers: int, how: str, sides: list[JoinSide]
) -> tuple[str, tuple[str, ...]]:
    """Return the lines to paste, and notes."""
    key = json.dumps(columns[0] if len(columns) == 1 else list(columns))
    kind = json.dumps(how)
    ours = (
        "from evenflow.spark import join\n\n"
        f"joined = join(left, right, on={key}, how={kind}, workers={workers})  # a hot key is then in "
        "several partitions"
    )
    plain = f"joined = left.join(right, {key}, {kind})"
    if chosen == "broadcast":
        small = _smallest(sides, how)
        if small.bytes <= BROADCAST:
            return plain, ("Spark broadcasts a side below 10 MB by itself; no setting is needed.",)
        wrapped = {"right": "left.join(broadcast(right)", "left": "broadcast(left).join(right"}[small.name]
        return (
            f"from pyspark.sql.functions import broadcast\n\njoined = {wrapped}, {key}, {kind})",
            (f"If the {small.name} does not fit into an executor's memory, use evenflow's join:\n{ours}",),
        )
    if chosen == "plain":
        return plain, ()
    if chosen == "adaptive":
        mean = max(1, round(sum(side.bytes for side in sides) / workers / 1024))
        settings = "\n".join(
            f'spark.conf.set("spark.sql.adaptive.{name}", "{size}KB")'
            for name, size in (
                ("skewJoin.skewedPartitionThresholdInBytes", 2 * mean),
                ("advisoryPartitionSizeInBytes", mean),
            )
        )
        return f"{settings}\n{plain}", (
            "Adaptive execution splits by input task, and not after an aggregate or a repartition, nor in a "
            f"chain of joins. There, use evenflow's join:\n{ours}",
        )
    return ours, ("Keep its plan to skip counting next time: on_placed=..., plan=...",)
