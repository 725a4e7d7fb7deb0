"""Plans: which worker gets which key, decided before any row arrives.

Names are loaded on first use: Python workers import :mod:`evenflow.plan.table`, which must not load numba.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from evenflow.plan.build import make_plan
    from evenflow.plan.join_build import make_join_plan
    from evenflow.plan.join_plan import JoinPlan
    from evenflow.plan.plan import Plan
    from evenflow.plan.table import PlanTable, bucket_of

__all__ = ["JoinPlan", "Plan", "PlanTable", "bucket_of", "make_join_plan", "make_plan"]

if not TYPE_CHECKING:
    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "build": ["make_plan"],
            "join_build": ["make_join_plan"],
            "join_plan": ["JoinPlan"],
            "plan": ["Plan"],
            "table": ["PlanTable", "bucket_of"],
        },
    )
