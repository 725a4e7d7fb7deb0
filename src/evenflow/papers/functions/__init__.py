"""`functions`: Gedik, "Partitioning Functions for Stateful Data Parallelism in Stream Processing" (VLDB J.).

Fig. 1 (the worked example) and 3-14, the thresholds of 3.1 and 4.1.3, and the cost of a lookup. Fig. 2 is a
drawing. Beside them: Fig. 1 by running the algorithms, and what Table 1's ranges of alpha and N do, removing
channels included. The paper's streams are Zipf laws, so no stand-ins are needed.

Not specified by the paper, and chosen here:

* Functions grow from one worker on, one worker at a time, five runs with keys and hashes of their own (5.1).
  Migration is that of the last step. Frequencies are exact but for Fig. 9-11, which are about the counters.
* "uniform" is a hash modulo N. Our ``key`` splits the hash range into N parts instead: equally balanced, and
  a new worker moves half of all state instead of nearly all (Fig. 6 shows both).
* L_c has no second factor f, as in Fig. 1's numbers. The layouts of Fig. 1 are ours: some that have the
  printed balances and costs.
* Sizes are means over half a window, since counters shrink when a bucket closes.
* Times are CPU seconds on this machine. The paper used another, so rules compare within a figure.
"""

from __future__ import annotations

from evenflow.papers.experiment import Experiment
from evenflow.papers.functions import construction, example, migration, ranges

EXPERIMENTS: list[Experiment] = [
    *example.EXPERIMENTS,
    *migration.EXPERIMENTS,
    *construction.EXPERIMENTS,
    *ranges.EXPERIMENTS,
]
