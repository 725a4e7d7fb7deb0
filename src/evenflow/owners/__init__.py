"""Which worker owns which key, and when that changes: the adaptivity loop of `functions` 4.5.

After every batch an :class:`Ownership` takes the measurements and returns a decision and, if it pays off, a
new :class:`~evenflow.plan.Plan`. It is plain data and deterministic: the same measurements give the same
plans, in this process or in another one that restored it from JSON.
"""

from evenflow.owners.measured import Decision, Measured
from evenflow.owners.ownership import Ownership
from evenflow.owners.sizing import AutoWorkers

__all__ = ["AutoWorkers", "Decision", "Measured", "Ownership"]
