"""The options by which ``deltalake`` reaches a location, with the time limits of this room."""

from __future__ import annotations

import os

from evenflow.storage.location import Location
from evenflow.storage.object_store import CLIENT_DEFAULTS, MAX_RETRIES, RETRY_SECONDS


def delta_options(location: Location) -> dict[str, str] | None:
    """Return the storage options of a Delta table; None for a folder.

    >>> delta_options(Location("/data/state")) is None
    True
    >>> delta_options(Location("s3://bucket/state", {"timeout": "5s"}))["timeout"]
    '5s'
    """
    if location.is_local:
        return None
    limits = {**CLIENT_DEFAULTS, "max_retries": str(MAX_RETRIES), "retry_timeout": f"{RETRY_SECONDS}s"}
    if "AWS_ALLOW_HTTP" in os.environ:
        limits["aws_allow_http"] = os.environ["AWS_ALLOW_HTTP"]
    return {**limits, **{name.lower(): value for name, value in location.options.items()}}
