"""`Attempt`: what DynamicResources works out and promises for one pod, from PreFilter to PreBind.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``stateData``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.dra import AllocationResult, ResourceClaim
from berth.api.node_affinity import CompiledNodeSelector
from berth.cluster.columns import Rows
from berth.plugins.dynamic_resources.extended import Backing, Special, is_unnamed
from berth.plugins.dynamic_resources.requests import Demand


@dataclass(slots=True)
class PodClaim:
    """A claim of the pod.

    Attributes:
        claim: as it was found; from when it was written, as it was written.
        reach: the nodes that can use what it was given; None if all can, or nothing was given yet.
        chosen: what Reserve promised to it; None for a claim that has what it needs.
        promised_uid: the uid under which it was promised; empty if it was not.
    """

    claim: ResourceClaim
    reach: CompiledNodeSelector | None = None
    chosen: AllocationResult | None = None
    promised_uid: str = ""

    @property
    def is_allocated(self) -> bool:
        """Whether it has its devices."""
        return self.claim.status.allocation is not None


class Finding(NamedTuple):
    """What was looked for on some nodes, and found there.

    Attributes:
        demand: of each claim that has nothing yet, in order; that of the special claim last.
        special: what the special claim asks for there; None if these nodes need none.
    """

    demand: Demand
    special: Special | None


class Findings:
    """Where something was found, and what it was."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._number: NDArray[np.int16] = np.zeros(0, dtype=np.int16)  # by row; 0 where nothing was found

    def note(self, rows: Rows, finding: Finding) -> None:
        """Something was found on *rows*."""
        self._make_room(rows)
        self._findings.append(finding)
        self._number[rows] = len(self._findings)

    def drop(self, rows: Rows) -> None:
        """What was found on *rows* is of no use."""
        self._make_room(rows)
        self._number[rows] = 0

    def on(self, row: int) -> Finding | None:
        """What was found on one row."""
        number = int(self._number[row]) if row < len(self._number) else 0
        return self._findings[number - 1] if number else None

    def among(self, rows: Rows) -> Iterator[tuple[Rows, Finding]]:
        """What was found on some of *rows*, and the places of these in *rows*."""
        self._make_room(rows)
        numbers = self._number[rows]
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            if number:
                yield np.flatnonzero(numbers == number), self._findings[number - 1]

    def _make_room(self, rows: Rows) -> None:
        wanted = int(rows.max(initial=-1)) + 1
        if len(self._number) < wanted:
            self._number = np.append(self._number, np.zeros(wanted - len(self._number), dtype=np.int16))


@dataclass(slots=True)
class Attempt:
    """One pod.

    Attributes:
        claims: those that the pod names, in order.
        special: the one that stands for its extended resources; None if no class is behind any of them.
        behind: the resources of the pod that a class is behind, and the class.
        scalars: all its resources that have a name of that kind.
        unavailable: places of the claims that could not be used on some node which had all else.
        found: what was found on nodes.
        asked: what the special claim asks for on the node that was chosen; None if it asks for nothing there.
    """

    claims: list[PodClaim] = field(default_factory=list)
    special: PodClaim | None = None
    behind: Backing = field(default_factory=dict)
    scalars: tuple[str, ...] = ()
    unavailable: set[int] = field(default_factory=set)
    found: Findings = field(default_factory=Findings)
    asked: Special | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the pod has no claim of any kind."""
        return not self.claims and self.special is None

    def wanting(self) -> list[PodClaim]:
        """The claims that the pod names and that have nothing yet."""
        return [each for each in self.claims if not each.is_allocated]

    def existing_special(self) -> ResourceClaim | None:
        """The special claim, if the API server has it."""
        return None if self.special is None or is_unnamed(self.special.claim) else self.special.claim
