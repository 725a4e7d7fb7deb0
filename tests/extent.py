"""How much is tested: a selection in ``make test``, everything in ``make faults`` (EVENFLOW_FAULTS=all)."""

from __future__ import annotations

import os

import pytest

ALL = os.environ.get("EVENFLOW_FAULTS") == "all"
in_make_faults = pytest.mark.skipif(not ALL, reason="takes long; make faults runs it")
