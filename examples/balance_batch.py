"""Balance a batch: one line instead of repartition, and proof that it helped.

python examples/balance_batch.py
"""

from pathlib import Path

from pyspark.sql import SparkSession

from evenflow.spark import balance, loads

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    words = spark.read.parquet(str(Path(__file__).parent / "data" / "sotu_words.parquet"))
    plain = words.repartition(32, "key")
    even = words.transform(balance("key", workers=32))
    print("repartition:", loads(plain, "key", workers=32).summary())
    print("balance:    ", loads(even, "key", workers=32).summary())
    spark.stop()
