"""Both sides of a join: joined as Spark does it, or on the workers of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.plan import JoinPlan
from evenflow.plan.join_build import NO_PRODUCT
from evenflow.plan.join_plan import SidePieces
from evenflow.spark.joining.copied import is_copied, matched_once, unmatched_once
from evenflow.spark.joining.hash_side import HINT, side_to_hash
from evenflow.spark.joining.on import JoinOn, all_of
from evenflow.spark.joining.side import SideNames, placed_side, with_copied_keys
from evenflow.spark.routing.key_columns import helper_name, quoted, with_keys

_TWO_PLANS = (
    "evenflow: the sides of a join read different plans in one micro-batch, since Spark did not reuse the "
    "subquery that reads it; set spark.sql.execution.reuseSubquery to true and start the query again."
)


class JoinSides:
    """The left and the right frame with their keys."""

    def __init__(self, left: DataFrame, right: DataFrame, on: JoinOn):
        self.frames = left, right
        self.on = on
        self.left, self.right = with_keys(left, on.left), with_keys(right, on.right)

    def plain(self, how: str) -> DataFrame:
        """Return Spark's own join."""
        return self._join(*self.frames, how)

    def on_cells(self, left: DataFrame, right: DataFrame, how: str, names: Sequence[SideNames]) -> DataFrame:
        """Return the join of placed sides, on the keys and on the join keys.

        If the sides tell their plans, rows of different ones must not match.
        """
        plans = [own.plan for own in names] if names[0].plan in left.columns else []
        return self._join(left, right, how, (names[0].key, names[1].key, *plans))

    def right_keys_once(self, how: str) -> JoinSides:
        """Return the sides with each key of the right once, if a row of the left needs no more to be kept."""
        if how not in NO_PRODUCT or self.on.residual is not None:
            return self
        left, (keyed, keys) = self.frames[0], self.right
        names = [key.frame_name for key in keys]
        once = keyed.select(*map(quoted, names)).distinct()
        if self.on.names is not None:
            renamed = once.toDF(*self.on.names)
            return JoinSides(left, renamed, self.on)
        ours = [F.col(quoted(key)) if isinstance(key, str) else key for key in self.on.left]
        equal = [own == F.col(quoted(name)) for own, name in zip(ours, names, strict=True)]
        return JoinSides(left, once, JoinOn(self.on.left, [*names], None, all_of(equal), None))

    def joined(self, plan: JoinPlan, how: str, order: str, seed: int, reasons: list[str]) -> DataFrame:
        """Return the join of both sides on the workers of the plan."""
        names = [SideNames.of(side, *self.frames) for side in ("left", "right")]
        keeps_left, keeps_right = keeps_unmatched(how)
        keeps_all = keeps_left or how == "left_semi", keeps_right
        left, right = (
            placed_side(
                frame, *keyed, plan, pieces, own, keeps_all=keeps, order=order, seed=seed, reasons=reasons,
                identified=self.on.residual is not None or how in NO_PRODUCT,
            )
            for frame, keyed, pieces, own, keeps in zip(
                self.frames, (self.left, self.right), (plan.left, plan.right), names, keeps_all, strict=True
            )
        )  # fmt: skip
        if how not in NO_PRODUCT:  # Spark would push the join below; its own exchange follows the right's
            left = left.repartition(plan.workers, F.col(quoted(names[0].key)))
        right = right.repartition(plan.workers, F.col(quoted(names[1].key)))
        copied = [own.copies in frame.columns for own, frame in zip(names, (left, right), strict=True)]
        if any(copied) and how not in NO_PRODUCT:
            left, right = (
                frame.withColumn(own.here, F.lit(True))
                for own, frame in zip(names, (left, right), strict=True)
            )
        hashed = side_to_hash(self.frames, plan, how)
        if hashed is not None:
            left, right = (left.hint(HINT), right) if hashed == 0 else (left, right.hint(HINT))
            side = ("left", "right")[hashed]
            reasons.append(f"hash tables of the {side} instead of sorting: one task could hold all of it")
        cells = names[0].key, names[1].key
        if not any(copied):
            return self._join(left, right, how, cells)
        helpers = {name for own in names for name in own.all()}
        if how in NO_PRODUCT:
            some, rest = left.where(is_copied(names[0])), left.where(~is_copied(names[0]))
            once = matched_once if how == "left_semi" else unmatched_once
            found = once(self._join(some, right, how, cells), names[0])
            return self._join(rest, right, how, cells).unionAll(found).drop(*helpers)
        result = self._join(left, right, how, cells)
        for number, own in enumerate(names):
            if copied[number]:
                is_alone = F.col(quoted(names[1 - number].here)).isNull()
                result = result.where(~(is_copied(own) & is_alone))
        result = result.drop(*helpers)
        for number in (0, 1):
            if copied[number]:
                if self.on.residual is None:
                    alone = self._keys_alone(plan, number)
                else:
                    rows, others = ((left, right), (right, left))[number]
                    unmatched = self._join(
                        rows.where(is_copied(names[number])), others, "left_anti", cells[:: 1 - 2 * number]
                    )
                    alone = unmatched_once(unmatched, names[number]).drop(*helpers)
                result = result.unionAll(self._beside_nulls(alone, number))
        return result

    def _keys_alone(self, plan: JoinPlan, number: int) -> DataFrame:
        """Return the rows of a side's copied keys that the other side has no row of.

        Without a residual condition a row matches if its key does, so the other side's keys suffice.
        """
        pieces: tuple[SidePieces, SidePieces] = (plan.left, plan.right)
        copies = pieces[number].copies
        sides = (self.left, self.right)
        rows = with_copied_keys(*sides[number], plan, copies)
        other, keys = sides[1 - number]
        names = [key.frame_name for key in keys]
        others = with_copied_keys(other, keys, plan, copies).select(*map(quoted, names))
        given = [helper_name([*rows.columns, *names], f"other_key_{i}") for i in range(len(keys))]
        equal = [
            F.col(quoted(own.frame_name)) == F.col(quoted(name))
            for own, name in zip(sides[number][1], given, strict=True)
        ]
        alone = rows.join(others.distinct().toDF(*given), all_of(equal), "left_anti")
        return alone.drop(*(key.frame_name for key in sides[number][1] if key.is_helper))

    def _beside_nulls(self, alone: DataFrame, number: int) -> DataFrame:
        """Return the rows of one side as the join returns rows without a match."""
        nothing = self.frames[1 - number].where(F.lit(False))
        sides = (alone, nothing) if number == 0 else (nothing, alone)
        return self._join(*sides, ("left", "right")[number], residual=False)

    def _join(
        self,
        left: DataFrame,
        right: DataFrame,
        how: str,
        cells: tuple[str, ...] = (),
        residual: bool = True,
    ) -> DataFrame:
        """Join two frames on the keys, on the join keys in the columns ``cells`` and on the rest.

        The result is without ``cells``. After the join keys they may have the plans of both sides.
        """
        names, rest = self.on.names, self.on.residual if residual else None
        if names is not None:
            if rest is None and not cells:
                return left.join(right, names, how)
            return _join_using(left, right, names, cells, rest, how)
        condition = self.on.condition
        assert condition is not None
        joined = left.join(right, _condition(condition, cells, rest), how)
        return joined.drop(*cells) if cells else joined


def keeps_unmatched(how: str) -> tuple[bool, bool]:
    """Return for the left and for the right whether rows without a match, or without a key, are wanted."""
    return how in ("left", "full", "left_anti"), how in ("right", "full")


def _condition(keys: Column, cells: tuple[str, ...], rest: Column | None) -> Column:
    """Return the condition of a join; with ``cells``, these are all that Spark sorts and hashes by."""
    if cells:
        left, right, *plans = (F.col(quoted(name)) for name in cells)
        keys = F.coalesce(keys, F.lit(False))
        if plans:
            keys = keys & F.when(plans[0].eqNullSafe(plans[1]), True).otherwise(
                F.raise_error(F.lit(_TWO_PLANS)).cast("boolean")
            )
        keys = (left == right) & keys
    return keys if rest is None else keys & rest


def _join_using(
    left: DataFrame, right: DataFrame, using: list[str], cells: tuple[str, ...], rest: Column | None, how: str
) -> DataFrame:
    """Join on names, cells and a condition; the result has the named columns once, as a join on names has.

    Without a condition, columns are renamed to be told apart. With one, which refers to the columns as they
    are, they are packed into a column of their own.
    """
    frames, sides = (left, right), ("left", "right")
    taken = [*left.columns, *right.columns]
    packed, columns = [], []
    for frame, side in zip(frames, sides, strict=True):
        plain = [name for name in frame.columns if name not in cells]
        if rest is None:
            names = [
                name if name in cells else helper_name(taken, f"{side}_column_{i}")
                for i, name in enumerate(frame.columns)
            ]
            packed.append(frame.toDF(*names))
            found = zip(frame.columns, names, strict=True)
            columns.append([(name, F.col(helper)) for name, helper in found if name not in cells])
        else:
            row = helper_name(taken, f"{side}_row")
            packed.append(frame.select("*", F.struct(*map(quoted, plain)).alias(row)))
            columns.append([(name, F.col(row)[name]) for name in plain])
    ours, theirs = (dict(found) for found in columns)
    keys = all_of([ours[name] == theirs[name] for name in using])
    joined = packed[0].join(packed[1], _condition(keys, cells, rest), how)
    chosen = [
        {"right": theirs[name], "full": F.coalesce(ours[name], theirs[name])}.get(how, ours[name]).alias(name)
        for name in using
    ]
    kept = columns[:1] if how in NO_PRODUCT else columns
    chosen += [column.alias(name) for side in kept for name, column in side if name not in using]
    return joined.select(*chosen)
