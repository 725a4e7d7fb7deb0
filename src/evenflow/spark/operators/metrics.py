"""`metrics`: the balance of a query for Prometheus, in one's own job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.history.watch import Watched
from evenflow.spark.replanning.listener import CONTROLS, OBSERVATION_PREFIX
from evenflow.storage import locate

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from evenflow.metrics.collector import Metrics


def metrics(
    of: Any,
    *,
    name: str | None = None,
    registry: CollectorRegistry | None = None,
    per_worker: bool | None = None,
) -> Metrics:
    """Register the balance of a query as Prometheus metrics.

    Parameters
    ----------
    of : StreamingQuery, StatefulQuery, str or Path
        A query balanced by evenflow, or the control directory or state of one.
    name : str, optional
        Label of the query in the metrics. Default: the name of its control directory or state.
    registry : prometheus_client.CollectorRegistry, optional
        Where to register. Default: the registry that ``prometheus_client.start_http_server`` serves.
    per_worker : bool, optional
        Whether every worker has series of its own. Default: if there are at most 256 workers.

    Returns
    -------
    Metrics
        The registered collector; ``registry.unregister`` ends it.

    Examples
    --------
    >>> from prometheus_client import start_http_server  # doctest: +SKIP
    >>> metrics(query)  # doctest: +SKIP
    >>> start_http_server(9100)  # doctest: +SKIP
    """
    from evenflow.extras import require

    require("prometheus_client", "metrics", "evenflow.spark.metrics")
    from prometheus_client import REGISTRY

    from evenflow.metrics.collector import Metrics

    if isinstance(of, str | Path):
        found = Metrics([Watched(of, name)], per_worker)
    elif hasattr(of, "config"):  # a stateful query
        found = Metrics(lambda: _watched_state(of, name), per_worker)
    elif hasattr(of, "recentProgress"):
        found = Metrics(lambda: _watched(of, name), per_worker)
    else:
        raise EvenflowError(f"metrics cannot watch {of!r}; pass a query, or a control directory.")
    (registry or REGISTRY).register(found)
    return found


def _watched(query: Any, name: str | None) -> Sequence[Watched]:
    """Return the control directories of a query's operators, known from its first batch on."""
    observed = {name for progress in query.recentProgress for name in (progress.observedMetrics or {})}
    own = sorted(key for key in observed if key.startswith(OBSERVATION_PREFIX) and key in CONTROLS)
    controls = {CONTROLS[key].location: CONTROLS[key] for key in own}
    return [Watched(place, name) for place, control in controls.items() if control.exists()]


def _watched_state(query: Any, name: str | None) -> Sequence[Watched]:
    """Return the control directory of a stateful query, once it is there."""
    control = Control(query.config.control)
    return [Watched(control.location, name or locate(query.config.root).name)] if control.exists() else []
