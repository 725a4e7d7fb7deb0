"""Choose a scheme for a stream: profile the key skew, simulate every scheme on a sample, recommend one."""

from evenflow.advisor.advice import Advice, advise
from evenflow.advisor.compare import Outcome, compare, contenders
from evenflow.advisor.join_advice import JoinAdvice, advise_join
from evenflow.advisor.profile import Profile, profile
from evenflow.advisor.recommend import Recommendation, recommend

__all__ = [
    "Advice",
    "JoinAdvice",
    "Outcome",
    "Profile",
    "Recommendation",
    "advise",
    "advise_join",
    "compare",
    "contenders",
    "profile",
    "recommend",
]
