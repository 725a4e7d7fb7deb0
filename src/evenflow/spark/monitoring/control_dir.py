"""The control directory (:mod:`evenflow.control`) on Spark: the names of operators' files in it.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenflow.control.directory import LOG, MAX_LOG_BYTES, Control, local_path, temporary_control_dir

if TYPE_CHECKING:
    from evenflow.schemes.base import Scheme

__all__ = ["LOG", "MAX_LOG_BYTES", "Control", "local_path", "operator_name", "temporary_control_dir"]


def operator_name(scheme: Scheme, workers: int, keys: Sequence[str]) -> str:
    """Return a name that separates the files of several operators, and of earlier versions of one."""
    identity = repr((str(scheme), workers, list(keys)))
    return f"{scheme.name}-{hashlib.blake2b(identity.encode(), digest_size=6).hexdigest()}"
