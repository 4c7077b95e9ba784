"""Looking at only some of the nodes, where ``percentageOfNodesToScore`` asks for it.

Without that setting every node is scored.  With it, nodes are looked at in the reference's order, from where the last
cycle stopped, until enough of them fit.

Source: k8s pkg/scheduler/schedule_one.go, ``numFeasibleNodesToFind`` and ``findNodesThatPassFilters``.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.cluster.columns import Rows
from berth.scheduling.verdicts import FEASIBLE, UNTOUCHED, Verdicts

MIN_NODES_TO_FIND: Final = 100


def num_feasible_nodes_to_find(num_nodes: int, percentage: int) -> int:
    """How many nodes that fit are enough."""
    if num_nodes < MIN_NODES_TO_FIND or percentage >= MIN_NODES_TO_FIND:
        return num_nodes
    return max(MIN_NODES_TO_FIND, num_nodes * percentage // 100)


@dataclass(slots=True)
class Sampler:
    """Where the next cycle starts to look.

    Attributes:
        start: position in the order of nodes.
    """

    start: int = 0

    def cut(self, order: Rows, verdicts: Verdicts, wanted: int) -> Verdicts:
        """The verdicts with those of the rows beyond the *wanted* first that fit taken out.

        Args:
            order: all live rows in the order of looking.
            verdicts: int32, shape (capacity,): what looking would find.
            wanted: how many that fit are enough.
        """
        turned = np.roll(order, -(self.start % max(1, len(order))))
        fits = np.flatnonzero(verdicts[turned] == FEASIBLE)
        looked_at = len(turned) if len(fits) < wanted else int(fits[wanted - 1]) + 1
        self.start = (self.start + looked_at) % max(1, len(order))
        cut = verdicts.copy()
        cut[turned[looked_at:]] = UNTOUCHED
        return cut
