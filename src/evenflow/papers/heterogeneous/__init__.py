"""`heterogeneous`: Nasir et al., "Load Balancing for Skewed Streams on Heterogeneous Cluster".

Fig. 4-14, Table 1 and 2. Fig. 1-3 are drawings. Captions 6, 7 and 9 are printed alike; by the text Fig. 6 is
CG by allocation, Fig. 7 the spreads over time of equal workers, Fig. 9 the schemes compared. "CH" is
consistent hashing with bounded loads. Fig. 13-14 were a Storm cluster, here the queueing model.

Not specified by the paper, and chosen here:

* Normalised imbalance = max / mean load - 1. Fig. 4-6, 9 and 10 count loads: without queues no worker sends a
  signal, and CG's virtual workers stay where they start. "CG, queues" is the same with queues at 80 percent
  of the capacity, where workers signal and virtual workers move.
* Spreads (Fig. 7, 8, 11, 12) are max - min over the workers: of the queue, of the mean latency and of the
  share of time spent working, the latter two since the mark before. One source, 10,817 messages per second.
* Fig. 12: "100 virtual workers" may be 10 or 100 for each of ten workers; both are run.
* Fig. 13-14: the sources' rate, such that 24 equal workers run at 80 percent at the longest delay, 1 ms (6
  assumes a cluster that is not overloaded); the figures also show 1.25 ms, which saturates them. Slots of 100
  messages per worker move virtual workers by chance near 80 percent, so ten times longer ones are shown too.
* Fig. 4's epsilon: Table 1's, which belongs to the same experiment.
* WP has 22 M messages, its stand-in 1.8 M: beside it stands WP-made, with WP's messages per key and hottest
  key (at paper scale its messages too); a shorter stream changes its capacities after the same share (6/22
  and 12/22).
"""

from __future__ import annotations

from evenflow.papers.experiment import Experiment
from evenflow.papers.heterogeneous import applications, loads, queues, seeds

_ORDER = (
    *("fig4", "table1", "fig5", "fig6", "fig7", "fig8", "fig9", "fig10", "fig11", "fig12", "fig13", "fig14"),
    *("table2", "bound", "tree", "hitters", "seeds"),
)
EXPERIMENTS: list[Experiment] = sorted(
    [*loads.EXPERIMENTS, *queues.EXPERIMENTS, *applications.EXPERIMENTS, *seeds.EXPERIMENTS],
    key=lambda experiment: _ORDER.index(experiment.figure),
)
