"""Looking at only some of the nodes where evictions might help, for those who ask for that.

Without the two arguments every node is looked at, which costs little when all are judged together.  With them, the
nodes are gone through from a place that differs from pod to pod, until there are as many candidates as asked for, one
of which breaks no budget.

Source: k8s pkg/scheduler/framework/preemption/preemption.go, ``DryRunPreemption``.
"""

from typing import Final

from berth.cluster.columns import Amounts
from berth.framework.plugin_args import DefaultPreemptionArgs
from berth.framework.what_if import Indices

_DEFAULTS: Final = DefaultPreemptionArgs()


class CandidateSampling:
    """How many candidates are enough.

    Args:
        args: the arguments; those that are the default ask for all.

    Attributes:
        looks_at_all: whether all of them are looked at.
    """

    def __init__(self, args: DefaultPreemptionArgs | None) -> None:
        self._args = args or _DEFAULTS
        self.looks_at_all = self._args == _DEFAULTS

    def cut(self, candidates: Indices, violations: Amounts, order: Indices, offset: int) -> list[int]:
        """Those of *candidates* that are found before the search ends: those that break no budget first.

        Args:
            candidates: the places where evictions help.
            violations: by place, how many budgets are broken.
            order: all places, in the order of the nodes.
            offset: where in this order to begin.
        """
        enough = self.enough(len(order))
        among = set(candidates.tolist())
        harmless: list[int] = []
        harmful: list[int] = []
        for place in (*order[offset:].tolist(), *order[:offset].tolist()):
            if place not in among:
                continue
            found = harmful if violations[place] else harmless
            if len(found) < enough:
                found.append(place)
            if harmless and len(harmless) + len(harmful) >= enough:
                break
        return [*harmless, *harmful]

    def enough(self, many: int) -> int:
        """How many candidates are enough among *many* nodes."""
        share = many * self._args.min_candidate_nodes_percentage // 100
        return min(many, max(share, self._args.min_candidate_nodes_absolute))
