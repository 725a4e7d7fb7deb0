"""Trending keys: the most frequent keys per window of a stream with drifting hot keys.

python examples/trending.py                                         generated
python examples/trending.py congress_hashtags.parquet "30 days"     a file with the columns ts and key
"""

import sys

from evenflow.spark.session import local_session

from evenflow.runner.pipeline import run_app

if __name__ == "__main__":
    spark = local_session("local[*]")
    source, window = sys.argv[1:] or ("drift:messages=60000,keys=1e4,rate=100", "100 seconds")
    seen = run_app(spark, f"top-k:window={window}", source, workers=8, top=5, batch=20_000)
    for start, most in seen.view["windows"].items():
        print(start, "  ".join(f"{entry['key']} {entry['rows']:,}" for entry in most))
    spark.stop()
