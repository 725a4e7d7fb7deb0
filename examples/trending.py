"""What is trending: the most frequent words of every decade of State of the Union addresses, as a stream.

python examples/trending.py
"""

from pathlib import Path

from pyspark.sql import SparkSession

from evenflow.spark.pipeline import run_app

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    words = str(Path(__file__).parent / "data" / "sotu_words.parquet")
    seen = run_app(spark, "top-k:window=3650 days,time=ts", words, key=["key"], workers=8, top=8)
    for start, most in seen.view["windows"].items():
        print(start[:10], "  ".join(f"{one['key']} {one['rows']:,}" for one in most))
    spark.stop()
