"""Balance a batch with one line, and compare the loads with those of repartition.

python examples/balance_batch.py
"""

from pathlib import Path

from evenflow.spark import balance, loads
from evenflow.spark.session import local_session

if __name__ == "__main__":
    spark = local_session("local[*]")  # yours: SparkSession.builder.getOrCreate()
    words = spark.read.parquet(str(Path(__file__).parent / "data" / "sotu_words.parquet"))
    plain = words.repartition(32, "key")
    even = words.transform(balance("key", workers=32))
    print("repartition:", loads(plain, "key", workers=32).summary())
    print("balance:    ", loads(even, "key", workers=32).summary())
    spark.stop()
