"""Hard spread constraints: a node is out where one more pod would make its domain exceed the emptiest by too much.

PreFilter adds the matching pods up by domain; Filter compares.  While a what-if is asked, AddPod and RemovePod change
the sums of that one cycle, each on arrays of its own, so that a cloned state goes its own way.

Source: k8s pkg/scheduler/framework/plugins/podtopologyspread/filtering.go.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.cluster.columns import Amounts, Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.interface import Rejections
from berth.plugins.pod_topology_spread.constraints import Constraint
from berth.plugins.pod_topology_spread.domains import ABSENT, DomainFinder, Domains, selection

UNEVEN: Final = 1
MISSING_LABEL: Final = 2

NO_DOMAIN: Final = 2**31 - 1


@dataclass(slots=True)
class HardState:
    """What PreFilter found.

    Attributes:
        constraints: the hard constraints of the pod.
        domains: for each, the nodes that count.
        sums: for each, int64: the matching pods by domain; never written to, but replaced.
    """

    constraints: tuple[Constraint, ...]
    domains: tuple[Domains, ...]
    sums: tuple[Amounts, ...]

    def move(self, pod: PodInfo, other: PodInfo, row: int, by: int, table: NodeTable) -> None:
        """Let *other* count *by* times more on the node of *row*."""
        mine, theirs = pod.pod.metadata, other.pod.metadata
        if mine.namespace != theirs.namespace:
            return
        self.sums = tuple(
            _moved(sums, int(table.label(constraint.topology_key).codes[row]), by)
            if domains.here[row] and constraint.selector.matches(theirs.labels)
            else sums
            for constraint, domains, sums in zip(self.constraints, self.domains, self.sums, strict=True)
        )


def _moved(sums: Amounts, code: int, by: int) -> Amounts:
    sums = sums.copy()
    sums[code] += by
    return sums


def hard_state(table: NodeTable, finder: DomainFinder, pod: PodInfo, constraints: tuple[Constraint, ...]) -> HardState:
    """Add up the pods that match each of *constraints*."""
    domains = finder.of(pod, constraints, need_all=True)
    sums = []
    for constraint, where in zip(constraints, domains, strict=True):
        chosen = selection(pod, constraint)
        column = None if chosen is None else table.pod_counts.column(chosen)
        sums.append(where.none() if column is None or not column.total else where.sums(column.counts))
    return HardState(constraints, domains, tuple(sums))


def judge_rows(state: HardState, pod: PodInfo, rows: Rows, table: NodeTable) -> Rejections:
    """int16, shape (len(rows),): `UNEVEN` or `MISSING_LABEL` by the first constraint that a node breaks, else 0."""
    found: Rejections | None = None
    for constraint, domains, sums in zip(state.constraints, state.domains, state.sums, strict=True):
        by_domain = _judge_domains(constraint, domains, sums, pod)
        codes = by_domain.take(table.label(constraint.topology_key).codes_of(rows))
        found = codes if found is None else np.where(found == 0, codes, found)
    return np.zeros(len(rows), dtype=np.int16) if found is None else found


def _judge_domains(constraint: Constraint, domains: Domains, sums: Amounts, pod: PodInfo) -> NDArray[np.int16]:
    """int16, shape (domains.size,)."""
    too_few = len(domains.present) < constraint.min_domains
    least = 0 if too_few else int(sums[domains.present].min(initial=NO_DOMAIN))
    itself = int(constraint.selector.matches(pod.pod.metadata.labels))
    most = constraint.max_skew + least - itself
    verdicts = (sums > most).astype(np.int16)  # UNEVEN is 1
    verdicts[ABSENT] = MISSING_LABEL
    return verdicts
