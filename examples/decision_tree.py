"""A decision tree grown from merged histograms: histograms stored and merged under three schemes.

python examples/decision_tree.py
"""

from evenflow.spark.session import local_session

from evenflow.report.tables import Table, show
from evenflow.runner.pipeline import run_app

if __name__ == "__main__":
    spark = local_session("local[*]")
    rows = []
    for scheme in ("shuffle", "consistent", "fill"):
        seen = run_app(
            spark, "decision-tree:depth=2", "points:messages=3000,dimensions=15", scheme=scheme, at_once=True
        ).view
        merges = sum(seen["merges"]) / len(seen["merges"])
        rows.append((scheme, f"{seen['accuracy'][-1]:.1%}", max(seen["held"]), max(seen["shuffled"]), merges))
    columns = ("scheme", "accuracy", "histograms stored", "W x D x C x L", "merged per split")
    show([Table("Streaming parallel decision tree", columns, rows)])
    spark.stop()
