"""What is trending: the most frequent keys of every 30 days of a real stream, read as a stream.

EVENFLOW_DATA=folder python examples/trending.py
"""

import os

from pyspark.sql import SparkSession

from evenflow.spark.pipeline import run_app

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    hashtags = os.path.join(os.environ["EVENFLOW_DATA"], "congress_hashtags.parquet")
    seen = run_app(spark, "top-k:window=30 days,time=ts", hashtags, key=["key"], workers=8, top=5)
    for start, most in seen.view["windows"].items():
        print(start[:10], "  ".join(f"{one['key']} {one['rows']:,}" for one in most))
    spark.stop()
