"""A decision as data: which worker gets which key, made before the rows are seen."""

from evenflow.plan.plan import Plan, bucket_of, make_plan

__all__ = ["Plan", "bucket_of", "make_plan"]
