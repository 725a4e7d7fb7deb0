"""Choose a scheme for a stream: profile the key skew, simulate every scheme on a sample, recommend one."""

from evenflow.advisor.advice import Advice, advise
from evenflow.advisor.compare import Outcome, compare, contenders
from evenflow.advisor.profile import Profile, profile
from evenflow.advisor.recommend import Recommendation, recommend

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
