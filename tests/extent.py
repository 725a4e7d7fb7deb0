"""How much is tested: a selection in ``make test``, everything in ``make faults`` (EVENFLOW_FAULTS=all)."""

from __future__ import annotations

import os
from typing import Any

import pytest

ALL = os.environ.get("EVENFLOW_FAULTS") == "all"
INTERPRETED = {  # compiling queries over a few hundred rows to classes costs more than it saves
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
in_make_faults = pytest.mark.skipif(not ALL, reason="takes long; make faults runs it")


def long(*values: Any, id: str | None = None) -> Any:
    """Return a case of a test that takes long, so that only ``make faults`` runs it."""
    return pytest.param(*values, id=id, marks=[pytest.mark.faults, in_make_faults])
