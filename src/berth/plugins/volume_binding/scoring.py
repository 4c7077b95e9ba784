"""How well the volumes of a pod use the storage of a node: a broken line from utilization to score.

Where a claim gets a volume that is there, what counts is how much of such volumes is asked for; else how much of the
reported room the new volumes take.  Each class counts the same.

Source: k8s pkg/scheduler/framework/plugins/volumebinding/scorer.go; KEP-4049.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.cluster.columns import Amounts, Rows
from berth.framework.interface import MAX_NODE_SCORE, Scores
from berth.framework.plugin_args import UtilizationShapePoint
from berth.plugins.noderesources.strategies import broken_line
from berth.plugins.volume_binding.search import Findings, Match, Provision

DEFAULT_SHAPE: Final = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


@dataclass(slots=True, eq=False)
class _Use:
    """How one class is used on each row.

    Attributes:
        requested: int64: bytes that are asked for.
        capacity: int64: bytes that there are.
        counts: bool: whether the class plays a part.
    """

    requested: Amounts
    capacity: Amounts
    counts: Amounts

    @classmethod
    def of(cls, rows: Rows) -> "_Use":
        """Nothing is used yet."""
        return cls(*(np.zeros(len(rows), dtype=np.int64) for _ in range(3)))


class UtilizationScorer:
    """Scores 0..100.

    Args:
        shape: the corners of the line, utilization in hundredths, scores 0..10.
    """

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        line = [broken_line(shape, utilization) for utilization in range(MAX_NODE_SCORE + 1)]
        self._line = np.array(line, dtype=np.int64)

    def scores(self, findings: Findings, rows: Rows) -> Scores:
        """int64, shape (len(rows),): the mean over classes, half rounded up; 0 where none counts."""
        static = _static_use(findings.matches, rows)
        dynamic = _dynamic_use(findings.provisions, rows)
        is_static = np.zeros(len(rows), dtype=np.bool_)
        for use in static.values():
            is_static |= use.counts > 0
        total, many = (np.zeros(len(rows), dtype=np.int64) for _ in range(2))
        for uses, counted in ((static, is_static), (dynamic, ~is_static)):
            for use in uses.values():
                here = counted & (use.counts > 0)
                total += np.where(here, self._score(use), 0)
                many += here
        scores: Scores = (2 * total + many) // np.maximum(2 * many, 1)
        return scores

    def _score(self, use: _Use) -> Scores:
        short = (use.capacity == 0) | (use.requested > use.capacity)
        shares = use.requested * MAX_NODE_SCORE // np.where(use.capacity == 0, 1, use.capacity)
        utilization = np.where(short, MAX_NODE_SCORE, np.clip(shares, 0, MAX_NODE_SCORE))
        scores: Scores = self._line[utilization]
        return scores


def _static_use(matches: Sequence[Match], rows: Rows) -> dict[str, _Use]:
    by_class: dict[str, _Use] = {}
    for match in matches:
        here = np.flatnonzero(match.chosen >= 0)
        if not len(here):
            continue
        use = by_class.setdefault(match.demand.claim.class_name, _Use.of(rows))
        offers = match.demand.offers.things
        sizes = [offers[i].size_bytes for i in match.chosen[here].tolist()]
        use.requested[here] += match.demand.size_bytes
        use.capacity[here] += np.array(sizes, dtype=np.int64)
        use.counts[here] = 1
    return by_class


def _dynamic_use(provisions: Sequence[Provision], rows: Rows) -> dict[str, _Use]:
    by_class: dict[str, _Use] = {}
    for provision in provisions:
        if provision.demand.rooms is None:
            continue
        here = np.flatnonzero(provision.asked & (provision.chosen >= 0))
        rooms = provision.demand.rooms.things
        sizes = [rooms[i].capacity_bytes for i in provision.chosen[here].tolist()]
        here = here[[size is not None for size in sizes]] if sizes else here
        if not len(here):
            continue
        use = by_class.setdefault(provision.demand.claim.class_name, _Use.of(rows))
        use.requested[here] += provision.demand.size_bytes
        use.capacity[here] = [size for size in sizes if size is not None]
        use.counts[here] = 1
    return by_class
