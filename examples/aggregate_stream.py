"""Aggregate a stream: mean and longest reading per sensor, with hot sensors split across workers.

python examples/aggregate_stream.py
"""

import pyarrow.compute as pc
from evenflow.spark import Aggregator, aggregate
from evenflow.spark.session import local_session

class Readings(Aggregator):
    buffer = "n long, total double, longest long"
    merges = {"n": "sum", "total": "sum", "longest": "max"}  # how Spark merges partial results
    def zero(self): return 0, 0.0, 0
    def reduce(self, state, rows):
        n, total, longest = state
        return n + rows.num_rows, total + pc.sum(rows["x"]).as_py(), max(longest, pc.max(rows["t"]).as_py())
    def finish(self, state): return {"mean": state[1] / state[0], "longest": state[2]}

if __name__ == "__main__":
    spark = local_session("local[*]")  # yours: SparkSession.builder.getOrCreate()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5000).load()
    rows = stream.selectExpr("if(value % 3 = 0, 0, value % 1000) as sensor", "value % 7 / 7 as x", "value as t")
    result = aggregate(rows, "sensor", Readings(), "mean double, longest long", workers=4)
    query = result.writeStream.outputMode("update").format("memory").queryName("readings").start()
    while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < 2):
        query.awaitTermination(0.2)
    query.stop()
    spark.table("readings").orderBy("longest", ascending=False).show(5)
    spark.stop()
