"""What tests need of the Spark they run on; `make matrix` counts the reasons as refusals."""

from __future__ import annotations

import pytest

from evenflow.spark.versions.known import CLIENT, HAS_CHECKSUMS

HAS_ONLINE = CLIENT >= HAS_CHECKSUMS
needs_online = pytest.mark.skipif(not HAS_ONLINE, reason="refused: online mode needs Spark 4.2 or newer")
