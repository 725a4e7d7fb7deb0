"""The name of an operator in the control directory (:mod:`evenflow.control`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenflow.schemes.base import Scheme


def operator_name(scheme: Scheme, workers: int, keys: Sequence[str]) -> str:
    """Return a name that separates the files of several operators, and of earlier versions of one."""
    identity = repr((str(scheme), workers, list(keys)))
    return f"{scheme.name}-{hashlib.blake2b(identity.encode(), digest_size=6).hexdigest()}"
