"""Naive Bayes with counters from a balanced job; predictions equal those of a single machine.

python examples/naive_bayes.py
"""

import numpy as np
import pyarrow as pa
from evenflow.spark.session import local_session
from pyspark.sql import functions as F

from evenflow.apps.counting import Count
from evenflow.apps.generated import Documents
from evenflow.apps.naive_bayes import Model
from evenflow.spark import aggregate

if __name__ == "__main__":
    spark = local_session("local[*]")
    made = Documents(messages=10_000).make(np.arange(10_000))
    texts = spark.createDataFrame(pa.Table.from_struct_array(made))
    whole = F.array(F.lit(None).cast("string"))  # a null word counts the text itself
    words = texts.select("label", F.explode(F.concat(whole, "words")).alias("word"))
    model = Model()
    counters = aggregate(words, ["label", "word"], Count(), "rows long", workers=8)
    model.learn((row["label"], row["word"], row["rows"]) for row in counters.toLocalIterator())
    unseen = Documents().make(np.arange(10_000, 11_000)).to_pylist()
    correct = sum(model.predict(text["words"]) == text["label"] for text in unseen)
    print(f"{correct} of {len(unseen)} new texts classified correctly")
    spark.stop()
