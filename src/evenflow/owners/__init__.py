"""Who owns which key, and when that changes: the adaptivity loop of `functions` 4.5, without an engine.

An :class:`Ownership` is told after every batch what was measured, and answers with a decision and, where that
gains, another :class:`~evenflow.plan.Plan`. It is plain data and pure: the same measurements give the same
plans, in this process or in another that read it from JSON.
"""

from evenflow.owners.measured import Decision, Measured
from evenflow.owners.ownership import Ownership
from evenflow.owners.sizing import AutoWorkers

__all__ = ["AutoWorkers", "Decision", "Measured", "Ownership"]
