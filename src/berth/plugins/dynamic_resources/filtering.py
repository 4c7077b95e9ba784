"""Which nodes can use the claims of a pod, and what those of its claims that have nothing yet would get there.

Nodes are told apart by what they offer of the pod's extended resources, since that decides what the special claim asks
for; then it is judged where all that is asked for can be had.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``Filter``.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from berth.api.dra import ResourceClaim
from berth.cluster.columns import Mask, Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.interface import Rejections
from berth.framework.status import PluginError, Status, unresolvable
from berth.plugins.dynamic_resources.allocator import INVALID_POOLS, Allocator
from berth.plugins.dynamic_resources.attempt import Attempt, Finding
from berth.plugins.dynamic_resources.extended import Special, special_of, with_requests
from berth.plugins.dynamic_resources.readiness import State, is_too_late, readiness
from berth.plugins.dynamic_resources.standings import AT_FAULT, FITS, Standings
from berth.plugins.dynamic_resources.standings import CANNOT_ALLOCATE as NOT_FOUND
from berth.plugins.node_selection import selector_mask

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
NOT_AVAILABLE: Final = "resourceclaim not available on the node"
CANNOT_FIT: Final = "cannot fit resource"
LEFT_OVER: Final = "cannot schedule extended resource claim"

_MOST: Final = int(np.iinfo(np.int16).max)


class Reasons:
    """The reasons met so far, numbered from 1 on."""

    def __init__(self) -> None:
        self._statuses: list[Status] = []
        self._numbers: dict[str, int] = {}

    def number_of(self, text: str) -> int:
        """The number of a reason.

        Raises:
            PluginError: there are more reasons than numbers.
        """
        number = self._numbers.get(text)
        if number is None:
            if len(self._statuses) >= _MOST:
                raise PluginError(f"more than {_MOST} different reasons against nodes")
            self._statuses.append(unresolvable(text))
            number = self._numbers[text] = len(self._statuses)
        return number

    def status(self, number: int) -> Status:
        """The answer behind a number."""
        return self._statuses[number - 1]


class Limits(NamedTuple):
    """How long things may take.

    Attributes:
        search_s: looking for devices on one node; None for as long as it takes.
        ready_s: making devices ready, once they are given; None where nothing has to be made ready.
        stopwatch: measures the search.
        clock: seconds since 1970.
    """

    search_s: float | None
    ready_s: float | None
    stopwatch: Callable[[], float]
    clock: Callable[[], float]


class _Group(NamedTuple):
    """Nodes on which devices meet the same of the pod's extended resources; spots are places in the rows."""

    spots: Rows
    resources: tuple[str, ...]


class Judge:
    """Judges nodes.

    Args:
        table: the nodes.
        allocator: works out what is asked for.
        standings: knows where that can be had.
        limits: how long things may take.
    """

    def __init__(self, table: NodeTable, allocator: Allocator, standings: Standings, limits: Limits) -> None:
        self._table, self._allocator, self._standings, self._limits = table, allocator, standings, limits
        self.reasons = Reasons()

    def judge(self, attempt: Attempt, pod: PodInfo, rows: Rows) -> Rejections:
        """int16, shape (len(rows),): 0 or the number of a reason.  What was found is noted in *attempt*.

        Raises:
            PluginError: something is wrong with a claim or a class, or the search took too long.
        """
        codes: Rejections = np.zeros(len(rows), dtype=np.int16)
        lacking = self._lacking(attempt, rows)
        for group in self._groups(attempt, rows, codes):
            special = special_of(pod.pod, group.resources, attempt.behind) if group.resources else None
            if special is None and not attempt.claims:
                continue
            self._judge_group(attempt, special, rows, group.spots, codes)
        out = np.flatnonzero((codes == 0) & lacking.any(axis=0))
        if len(out):
            attempt.unavailable.update(np.flatnonzero(lacking[:, out].any(axis=1)).tolist())
            codes[out] = self.reasons.number_of(NOT_AVAILABLE)
            attempt.found.drop(rows[out])
        return codes

    # -- extended resources -------------------------------------------------------------------------------------------

    def _groups(self, attempt: Attempt, rows: Rows, codes: Rejections) -> Iterator[_Group]:
        """The rows by the resources that devices are to meet; those that cannot have all of them are marked."""
        if attempt.special is None:
            yield _Group(np.arange(len(rows)), ())
            return
        if attempt.special.claim.spec.devices.requests:
            codes[:] = self.reasons.number_of(LEFT_OVER)
            return
        marks = np.zeros(len(rows), dtype=np.int64)
        for place, resource in enumerate(attempt.behind):
            marks |= (self._offered(resource, rows) == 0).astype(np.int64) << place
        for resource in attempt.scalars:
            if resource not in attempt.behind:
                codes[~self._knows(resource, rows)] = self.reasons.number_of(CANNOT_FIT)
        for mark in np.unique(marks[codes == 0]).tolist():
            resources = tuple(name for place, name in enumerate(attempt.behind) if mark >> place & 1)
            yield _Group(np.flatnonzero((marks == mark) & (codes == 0)), resources)

    def _offered(self, resource: str, rows: Rows) -> Rows:
        index = self._table.resource_index(resource)
        return np.zeros(len(rows), dtype=np.int64) if index is None else self._table.allocatable[index][rows]

    def _knows(self, resource: str, rows: Rows) -> Mask:
        """bool, shape (len(rows),): where the node names the resource, be it with an amount of 0."""
        named = (resource in self._table.node(row).status.allocatable for row in rows.tolist())
        return np.fromiter(named, dtype=np.bool_, count=len(rows))

    # -- claims that have their devices -------------------------------------------------------------------------------

    def _lacking(self, attempt: Attempt, rows: Rows) -> Mask:
        """bool, shape (claims, len(rows)): where a claim that has its devices cannot be used."""
        lacking = np.zeros((len(attempt.claims), len(rows)), dtype=np.bool_)
        for place, each in enumerate(attempt.claims):
            if not each.is_allocated:
                continue
            if self._is_spoilt(each.claim):
                lacking[place] = True
            elif each.reach is not None:
                lacking[place] = ~selector_mask(self._table, each.reach, rows)
        return lacking

    def _is_spoilt(self, claim: ResourceClaim) -> bool:
        """Whether the devices of a claim could not be made ready, or not in time."""
        if self._limits.ready_s is None:
            return False
        state = readiness(claim).state
        if state is State.PENDING:
            return is_too_late(claim, self._limits.ready_s, self._limits.clock())
        return state is State.FAILED

    # -- claims that have nothing yet ---------------------------------------------------------------------------------

    def _judge_group(
        self, attempt: Attempt, special: Special | None, rows: Rows, spots: Rows, codes: Rejections
    ) -> None:
        wanting = [each.claim for each in attempt.wanting()]
        if special is not None and attempt.special is not None:
            wanting.append(with_requests(attempt.special.claim, special))
        if not wanting:
            return
        demand = self._allocator.demand(wanting)
        verdicts = self._standings.judge(demand, rows[spots], self._deadline)
        codes[spots[verdicts == NOT_FOUND]] = self.reasons.number_of(CANNOT_ALLOCATE)
        codes[spots[verdicts == AT_FAULT]] = self.reasons.number_of(INVALID_POOLS)
        attempt.found.note(rows[spots[verdicts == FITS]], Finding(demand, special))

    def _deadline(self) -> "_Deadline | None":
        """The time that one node may take."""
        search_s = self._limits.search_s
        return None if search_s is None else _Deadline(self._limits.stopwatch, search_s)


class _Deadline:
    """Whether the time for a search is up; it begins when this is first asked."""

    __slots__ = ("_end_s", "_now", "_span_s")

    def __init__(self, now: Callable[[], float], span_s: float) -> None:
        self._now, self._span_s = now, span_s
        self._end_s: float | None = None

    def __call__(self) -> bool:
        now_s = self._now()
        if self._end_s is None:
            self._end_s = now_s + self._span_s
        return now_s > self._end_s
