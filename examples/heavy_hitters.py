"""Heavy hitters in bounded memory: the error of a key grows with the number of summaries containing it.

python examples/heavy_hitters.py
"""

from evenflow.spark.session import local_session

from evenflow.report.tables import Table, show
from evenflow.runner.pipeline import run_app

if __name__ == "__main__":
    spark = local_session("local[*]")
    rows = []
    for scheme in ("key", "partial-key", "fill", "shuffle"):
        seen = run_app(
            spark, "heavy-hitters:capacity=200,check=yes", "zipf:z=1.1,keys=1e4,messages=2e5",
            scheme=scheme, at_once=True,
        )  # fmt: skip
        for line in seen.view["errors"]:
            numbers = (line["summaries"], line["keys"], line["mean_bound"], line["mean_error"])
            rows.append((scheme, f"{seen.max_over_mean:.2f}", *numbers))
    columns = ("scheme", "max/mean rows", "summaries", "keys", "mean bound", "mean error")
    show([Table("SpaceSaving on 8 workers", columns, rows)])
    spark.stop()
