"""The plan of a streaming query, in a file that every micro-batch reads anew.

A scalar subquery reads it once, so that the plan is frozen for the batch, and the generated code looks rows
up in its arrays (:func:`evenflow.spark.routing.plan_sql.with_current_worker`). Where the file is missing or
damaged there is no plan: every key goes to the home of its bucket, and the listener logs a fallback.

Spark reads a file in a folder by itself, which takes less time than a task in Python; only objects in a
store are read in such a task. Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.blob import FRAME
from evenflow.control.directory import PLANS, Control
from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from evenflow.plan import Plan

_HEADER = "header struct<crc: bigint, look_up: string, workers: int>"
_PLAIN = re.compile(r"/[\w /.=+@~-]*")  # a path in which Spark sees no pattern and no scheme
_READ = {"ignoreMissingFiles": "true", "ignoreCorruptFiles": "true"}


def plan_file(operator: str) -> str:
    """Return the path of an operator's plan, relative to the control directory."""
    return f"{PLANS}/{operator}.plan"


def write_plan(control: Control, operator: str, serial: int, plan: Plan) -> bool:
    """Write a plan, with the arrays that Spark looks rows up in; return whether that succeeded."""
    from evenflow.spark.routing.plan_sql import look_up_arrays

    arrays = {name: array.tolist() for name, array in look_up_arrays(plan.table).items()}
    look_up = {"serial": serial, "mask": plan.table.mask, **arrays}
    header = {"serial": serial, "plan": plan.to_json(), **readable(plan.workers, look_up)}
    return control.write(plan_file(operator), "plan", header, {})


def readable(workers: int, look_up: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a file's header by which `current_look_up` reads ``look_up`` again."""
    text = json.dumps(look_up, separators=(",", ":"))
    return {"workers": workers, "look_up": text, "crc": zlib.crc32(text.encode())}


def read_plan(control: Control, operator: str, workers: int) -> tuple[tuple[int, Plan] | None, str]:
    """Return the serial number and plan last written for an operator, or None and the reason."""
    from evenflow.plan import Plan

    found, why = control.read_with_reason(plan_file(operator), "plan")
    if found is None:
        return None, why
    header = found[0]
    try:
        if header["workers"] != workers:
            return None, f"the plan is for {header['workers']} workers, not {workers}"
        return (int(header["serial"]), Plan.from_json(header["plan"])), ""
    except (EvenflowError, KeyError, TypeError, ValueError) as error:
        return None, f"{plan_file(operator)} cannot be read: {error}"


def current_plan(spark: SparkSession, control: Control, operator: str, workers: int) -> Column:
    """Return the look-up table of the plan in a control directory, reread by every micro-batch, or null."""
    from evenflow.spark.routing.plan_sql import LOOK_UP

    return current_look_up(spark, control, plan_file(operator), workers, LOOK_UP)


def current_look_up(spark: SparkSession, control: Control, name: str, workers: int, fields: str) -> Column:
    """Return what a file in a control directory has to look up, reread by every micro-batch, or null.

    It is a struct of ``fields``, read in a scalar subquery: once for all places that a query has it in.
    """
    from pyspark.sql import functions as F

    place = control.location
    files = _in_folder(spark, f"{place}/{name}") or _in_python(spark, place, name)
    before, after = FRAME
    text = f"cast(substring(content, {before + 1}, length(content) - {before + after}) as string)"
    headers = files.select(F.from_json(F.expr(text), _HEADER)["header"].alias("header"))
    # Spark would parse the header once for each condition of a filter
    is_valid = f"header.workers = {workers} and crc32(header.look_up) = header.crc"
    return headers.select(F.from_json(F.expr(f"if({is_valid}, header.look_up, null)"), fields)).scalar()


def _in_folder(spark: SparkSession, path: str) -> DataFrame | None:
    """Return the content of a file, which Spark looks for now and reads anew in every micro-batch."""
    from pyspark.errors import AnalysisException

    if not _PLAIN.fullmatch(path):
        return None
    with contextlib.suppress(AnalysisException):
        found = spark.read.format("binaryFile").options(**_READ).load(f"file:{path}").select("content")
        return found if found.schema else None  # Spark Connect looks for the file when it is asked
    return None


def _in_python(spark: SparkSession, place: Any, name: str) -> DataFrame:
    """Return the content of a file, read in a Python task."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # one row
            with contextlib.suppress(OSError, EvenflowError):
                yield pa.RecordBatch.from_pydict({"content": [Control(place).storage.read(name)]})

    return spark.range(0, 1, 1, 1).mapInArrow(read, "content binary")
