"""A windowed join: work is quadratic in a key's rows, so equal numbers of rows are not equal work.

python examples/windowed_join.py
"""

from evenflow.spark.session import local_session

from evenflow.report.tables import Table, show
from evenflow.runner.pipeline import run_app

if __name__ == "__main__":
    spark = local_session("local[*]")
    run_app(spark, "windowed-join", "trades:messages=1000", at_once=True)  # warm up the workers
    rows = []
    for scheme in ("key", "explicit:resources=LQL", "fill"):
        seen = run_app(
            spark, "windowed-join:window=1 minute,value=price,band=0.05", "trades:messages=50000",
            scheme=scheme, at_once=True,
        )  # fmt: skip
        rows.append((scheme, seen.max_over_mean, seen.busy_over_mean, sum(seen.busy)))
    columns = ("scheme", "max/mean rows", "max/mean busy time", "busy seconds")
    show([Table("Rows and work of 8 workers", columns, rows)])
    spark.stop()
