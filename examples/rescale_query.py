"""Rescale a running query: the sums per key move from four workers to six, without a restart.

python examples/rescale_query.py
"""

import tempfile
import pyarrow.compute as pc
from evenflow.spark import KeyedProcessor, read_state, stateful
from evenflow.spark.session import local_session

class Sums(KeyedProcessor):
    state = "n long, total long"
    def start(self, key): return {"n": 0, "total": 0}
    def process(self, key, state, rows):
        state = {"n": state["n"] + rows.num_rows, "total": state["total"] + pc.sum(rows["value"]).as_py()}
        return state, [{"key": key, "total": state["total"]}]

if __name__ == "__main__":
    spark = local_session("local[*]")  # yours: SparkSession.builder.getOrCreate()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2000).load()
    folder = tempfile.mkdtemp()
    rows = stream.selectExpr("cast(sqrt(value % 10000) as int) as key", "value")
    query = stateful(rows, "key", Sums(), "key int, total long", folder, workers=4).start(lambda df, batch: None)
    while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < 4):
        if query.lastProgress and query.lastProgress.batchId == 1: query.rescale(workers=6)
        query.awaitTermination(0.2)
    query.stop()
    print(*query.migrations(), read_state(spark, folder).count(), "keys", sep="\n")
    spark.stop()
