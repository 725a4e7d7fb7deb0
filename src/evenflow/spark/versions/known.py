"""The version of a session, and what it lacks. Keep imports light: Python workers import this module."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyspark

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST = (4, 0)
HAS_REPARTITION_BY_ID = (4, 1)
HAS_TOP_K = (4, 1)
HAS_ARROW_UDF = (4, 1)
HAS_TRANSFORM_WITH_STATE = (4, 1)
HAS_STOPPING_SOURCES = (4, 2)
HAS_CHECKSUMS = (4, 2)
CHECKSUM = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)


def parsed(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version.

    >>> parsed("4.10.0-SNAPSHOT")
    (4, 10)
    """
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def spelled(version: tuple[int, int]) -> str:
    """Return a version as text, such as 4.2."""
    return "{}.{}".format(*version)


CLIENT = parsed(pyspark.__version__)


def version_of(spark: SparkSession) -> tuple[int, int]:
    """Return the version whose features a session has: the older one of PySpark's and the server's."""
    return min(CLIENT, parsed(spark.version))


def lacking(version: tuple[int, int]) -> list[str]:
    """Return what is refused on a version, in sentences that name the one that has it.

    >>> lacking((4, 1)), lacking((4, 2))
    (["mode='online' needs Spark 4.2 or newer"], [])
    """
    return [f"mode='online' needs Spark {spelled(HAS_CHECKSUMS)} or newer"] if version < HAS_CHECKSUMS else []


def require_online(spark: SparkSession) -> None:
    """Refuse online routing if Spark could not detect that a retried task lost or duplicated rows."""
    if version_of(spark) < HAS_CHECKSUMS:
        raise EvenflowError(
            f"mode is 'online' on Spark {spark.version}; it needs Spark {spelled(HAS_CHECKSUMS)} or newer, "
            "which detects when a retried task routes differently. Use mode='planned'."
        )
    for setting in CHECKSUM:
        if str(spark.conf.get(setting)).lower() != "true":
            raise EvenflowError(
                f"mode is 'online' but {setting} is off, so Spark cannot detect when a retried task routes "
                "differently. Set it to true, or use mode='planned'."
            )
