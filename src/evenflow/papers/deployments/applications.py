"""Naive Bayes, decision tree and heavy hitters (`heterogeneous` 8): throughput, accuracy and memory.

An app runs on all its rows with each scheme's online routers, as `evenflow run --at-once` does: how right
it is in the end, and how much state the workers hold. Its rows, with the keys that they have in the end,
are then the messages of streams (:mod:`.streamed`), one for each scheme, which give throughput and
latency.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import evenflow as ef
from evenflow.apps import parse_app
from evenflow.apps.base import VIEW_FILE, App, AppSetup, View
from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.papers.deployments.lanes import active_session
from evenflow.papers.deployments.streamed import Subject, deployed
from evenflow.papers.experiment import Row
from evenflow.runner.pipeline import Job, run
from evenflow.runner.sources import Input, open_input


def application(
    app: str, source: str, workers: int, sources: int, service: float, interval: float,
    subjects: list[Subject], messages: int, master: str | None = None,
) -> list[Row]:  # fmt: skip
    """Run an app, given as text, with every subject; rows as `streamed` returns them, and what the app has.

    ``held`` is the state of all workers: counters, histograms, or counters of summaries. ``right`` is the
    share of held-out rows that are classified right; of heavy hitters, ``error`` is how far a count may be
    off, relative to the rows of the hottest key. Streams have the first ``messages`` of the app's rows.
    """
    spark = active_session()
    parsed = parse_app(app)
    rows = open_input(spark, source, [], keys=parsed.keys)
    assert rows.table is not None, "it is generated"
    rows = replace(rows, table=rows.table.coalesce(sources))  # not one for each slot of all workers
    views = {
        label: run(Job(rows, parsed, workers, ef.scheme(name, **parameters), "online", at_once=True),
                   lambda seen: None).view
        for label, name, parameters in subjects
    }  # fmt: skip
    taken = _messages(parsed, rows, views[subjects[0][0]], workers, messages)
    found = deployed(taken, Cluster(workers, sources, service), interval, subjects)
    return [row | {"app": parsed.name, **_answer(views[row["label"]], row)} for row in found]


def _messages(app: App, rows: Input, view: View, workers: int, most: int) -> Messages:
    """Return the first of an app's rows by their keys, which may depend on what the app has learned."""
    with tempfile.TemporaryDirectory(prefix="evenflow-app-") as folder:
        kept = {"view": {name: view[name] for name in ("tree",) if name in view}}
        (Path(folder) / VIEW_FILE).write_text(json.dumps(kept))
        setup = AppSetup(rows.key, workers, ef.scheme("key"), "online", Path(folder))
        assert rows.table is not None
        frame, by = app.rows(rows.table, setup)
        hashes = frame.select(*by).limit(most).selectExpr("xxhash64(*) as hash").toArrow()["hash"].to_numpy()
    return Messages(np.unique(hashes, return_inverse=True)[1].astype(np.int32))


def _answer(view: View, row: Row) -> dict[str, Any]:
    """Return what an app holds and how right it is; naive Bayes holds a counter per key and worker."""
    if "tree" in view:
        return {"held": max(view["held"]), "right": view["accuracy"][-1]}
    if "words" in view:
        return {"held": row["pairs"], "right": view["accuracy"][-1]} if "pairs" in row else {}
    bound = [line["mean_bound"] * line["keys"] for line in view["errors"]]
    keys = sum(line["keys"] for line in view["errors"])
    hottest = max(top["at_least"] for top in view["top"])
    return {"held": view["counters"], "error": sum(bound) / keys / hottest}
