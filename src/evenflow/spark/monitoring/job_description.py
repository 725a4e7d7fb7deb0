"""A description for the jobs that evenflow runs at once, so that Spark's UI says what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PROPERTY = "spark.job.description"


@contextmanager
def job_description(spark: Any, text: str) -> Iterator[None]:
    """Describe the jobs that this thread starts; afterwards, the previous description is back.

    Spark Connect describes jobs itself; there the text becomes a tag of the operation.
    """
    if "connect" in type(spark).__module__:
        tag = text.replace(",", ";")  # Spark separates tags by commas
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    context = spark.sparkContext
    previous = context.getLocalProperty(_PROPERTY)
    context.setLocalProperty(_PROPERTY, text)
    try:
        yield
    finally:
        context.setLocalProperty(_PROPERTY, previous)
