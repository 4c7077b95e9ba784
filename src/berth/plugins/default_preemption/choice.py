"""Which of the nodes where evictions help: the one where least is lost.

Source: k8s pkg/scheduler/framework/preemption/preemption.go, ``pickOneNodeForPreemption``.
"""

from typing import Final

import numpy as np

from berth.cluster.ranking import NOT_YET
from berth.framework.what_if import Indices
from berth.plugins.default_preemption.dry_run import DryRun

_SHIFT: Final = 2**31  # makes every victim count, also one of negative priority


def choose(found: DryRun, candidates: Indices) -> int:
    """The place to take, one of *candidates*; where nothing tells them apart, the first.

    In turn decide: the fewest broken budgets, the lowest priority of the most important victim, the smallest sum of
    priorities, the fewest victims, the latest start of the most important victims.
    """
    victims = np.flatnonzero(found.is_victim)
    places = found.guests.places[victims]
    priorities, starts = found.ranks.priorities[victims], found.ranks.starts[victims]
    size = len(found.ranks.rows)
    firsts = np.flatnonzero(np.diff(places, prepend=-1))  # the most important victim of each place
    at = places[firsts]
    highest, sums = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    earliest = np.full(size, NOT_YET, dtype=np.int64)
    highest[at] = priorities[firsts]
    sums[at] = np.add.reduceat(priorities + _SHIFT, firsts)
    earliest[at] = np.minimum.reduceat(np.where(priorities == highest[places], starts, NOT_YET), firsts)
    left = candidates
    for loss in (found.violations(), highest, sums, found.per_place(found.is_victim), -earliest):
        lost = loss[left]
        left = left[lost == lost.min()]
    return int(left[0])
