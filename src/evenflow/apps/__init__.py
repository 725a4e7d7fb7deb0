"""The papers' applications, as Aggregators for `evenflow.spark.aggregate` and `evenflow run`."""
