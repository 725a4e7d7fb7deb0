"""Which scheme for this data? See how skewed the key is, try every scheme on a part of it, choose one."""

from evenflow.advise.advice import Advice, advise
from evenflow.advise.compare import Outcome, compare, contenders
from evenflow.advise.profile import Profile, profile
from evenflow.advise.recommend import Recommendation, recommend

__all__ = [
    "Advice",
    "Outcome",
    "Profile",
    "Recommendation",
    "advise",
    "compare",
    "contenders",
    "profile",
    "recommend",
]
