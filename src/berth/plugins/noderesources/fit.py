"""NodeResourcesFit: a pod goes only where what it asks for is still free, and by preference where the strategy says.

Points: PreFilter, Filter, PreScore, Score (not normalized).  Rejects with one reason per missing resource: unresolvable
if some request is larger than all that the node has, else unschedulable.  A resource that a device class stands for is
left to DynamicResources on nodes that have none of their own.  Woken by pods that go away or ask for less,
by nodes that come or offer more, and by device classes that stand for what the pod asks for (`fit_hints`).

Arguments: ``ignored_resources`` and ``ignored_resource_groups``, extended resources to overlook in the filter, by name
or by the group before the slash; both are valid label keys, and a group has no slash.  ``scoring_strategy``: a type of
`strategies`, resources with weights 1..100, and for RequestedToCapacityRatio, and only for it, a shape of at least one
point, with utilization rising within 0..100 and scores 0..10.

Source: k8s pkg/scheduler/framework/plugins/noderesources/fit.go.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from berth.api.quantity import QuantityError, wrapped
from berth.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended, is_scalar
from berth.cluster.columns import Rows
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.events import Registration
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope, Scores
from berth.framework.plugin_args import NodeResourcesFitArgs
from berth.framework.status import SUCCESS, PluginError, Status
from berth.framework.what_if import Guests
from berth.plugins.noderesources.backing import backed_resources, device_figures, watched
from berth.plugins.noderesources.fit_board import TOO_MANY_PODS, FitBoard
from berth.plugins.noderesources.fit_hints import FitHints
from berth.plugins.noderesources.scoring import FEW, Ask, ask_of, figures, node_figures, weighted
from berth.plugins.noderesources.shortages import NOTHING, Shortages
from berth.plugins.noderesources.strategies import make_strategy

_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)

Demands = tuple[tuple[str, int], ...]
"""Resource names and amounts above 0, in the order in which they are checked."""


class Wanted(NamedTuple):
    """What a pod asks for.

    Attributes:
        demands: what must be free on a node.
        backed: those resources that devices stand for where the node has none.
    """

    demands: Demands
    backed: frozenset[str] = frozenset()


_WANTED: Final = StateKey[Wanted]("PreFilterNodeResourcesFit")
_ASK: Final = StateKey[Ask]("PreScoreNodeResourcesFit")


def demands(requests: Mapping[str, int]) -> Demands:
    """What must be free on a node: CPU, memory, storage, then all others that are counted, by name."""
    native = [(name, requests[name]) for name in _NATIVE if requests.get(name, 0) > 0]
    if len(native) == len(requests):
        return tuple(native)
    others = [(name, many) for name, many in requests.items() if many > 0 and name not in _NATIVE and is_scalar(name)]
    return (*native, *sorted(others))


class NodeResourcesFit:
    """Compares what pods ask for with what nodes have left."""

    name = "NodeResourcesFit"
    scope = Scope.ROW

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        """Build the plugin.

        Raises:
            ValueError: the scoring strategy is unknown or incomplete.
        """
        args = args or NodeResourcesFitArgs()
        self._table = handle.cluster.table
        self._hints = FitHints(handle)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._strategy = make_strategy(args.scoring_strategy)
        self._scored = weighted(args.scoring_strategy.resources)
        self._shortages = Shortages()
        self._backed = backed_resources(handle)
        self._devices = device_figures(handle, (name for name, _ in self._scored))
        self._kinds = watched(handle, self._devices)

    def kinds(self) -> Sequence[Kind[Any]]:
        """The classes of devices, and all about devices if they are scored."""
        return self._kinds

    def events_to_register(self) -> Sequence[Registration]:
        """Pods, nodes and device classes that may make room."""
        return self._hints.registrations()

    def sign(self, pod: PodInfo) -> Hashable:
        """What the filter and the score count the pod as; a pod that devices stand behind is like no other.

        Raises:
            PluginError: an amount is no quantity.
        """
        try:
            if self._backed(pod.asked):
                return None
            return tuple(pod.asked.items()), tuple(pod.asked_for_score.items())
        except QuantityError as error:
            raise PluginError(f"requests of pod {pod.key}: {error}") from error

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Adds up the pod's requests.

        Raises:
            PluginError: an amount is no quantity.
        """
        try:
            wanted = demands(pod.asked)
        except QuantityError as error:
            raise PluginError(f"requests of pod {pod.key}: {error}") from error
        if self._ignored or self._ignored_groups:
            wanted = tuple((name, many) for name, many in wanted if not self._overlooked(name))
        state.write(_WANTED, Wanted(wanted, self._backed(pod.asked)))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """The number of the combination of what is missing on each node.

        Raises:
            PluginError: PreFilter was not run.
        """
        del pod
        wanted = _read(state)
        if len(rows) <= FEW:
            return np.fromiter((self._missing_on(row, wanted) for row in rows.tolist()), np.int16, len(rows))
        return self._missing(rows, wanted)

    def board(self, state: CycleState, pod: PodInfo, guests: Guests) -> FitBoard:
        """Resources of many nodes while pods come and go.

        Raises:
            PluginError: PreFilter was not run.
        """
        del pod
        wanted = _read(state)
        return FitBoard(self._table, guests, wanted.demands, wanted.backed, self._shortages)

    def rejection(self, code: int) -> Status:
        """One reason for each resource that is missing."""
        return self._shortages.status(code)

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        """Adds up the requests that score, in which every container counts; never sits out.

        Raises:
            PluginError: an amount is no quantity.
        """
        del rows
        state.write(_ASK, self._ask(pod))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """0..100 by the strategy.

        Raises:
            PluginError: an amount is no quantity.
        """
        try:
            ask = state.read(_ASK)
        except StateNotFoundError:
            ask = self._ask(pod)
        if len(rows) <= FEW:
            scores = (self._score_of_node(ask, row) for row in rows.tolist())
            return np.fromiter(scores, dtype=np.int64, count=len(rows))
        offered, taken = figures(self._table, ask, rows, non_zero=True, devices=self._devices)
        taken += ask.column
        return self._strategy.of_nodes(offered, taken, ask.weights)

    def _score_of_node(self, ask: Ask, row: int) -> int:
        offered, taken = node_figures(self._table, ask, row, non_zero=True, devices=self._devices)
        with_pod = [wrapped(take + more) for take, more in zip(taken, ask.amounts, strict=True)]
        return self._strategy.of_node(offered, with_pod, ask.weights)

    def _missing_on(self, row: int, wanted: Wanted) -> int:
        """What one node lacks, as a number."""
        table, shortages = self._table, self._shortages
        missing = NOTHING
        if table.pod_count.item(row) >= table.allowed_pods.item(row):
            missing = shortages.joined(missing, TOO_MANY_PODS, unresolvable=False)
        for name, many in wanted.demands:
            index = table.resource_index(name)
            offered, taken = (
                (0, 0) if index is None else (table.allocatable.item(index, row), table.requested.item(index, row))
            )
            if many > wrapped(offered - taken) and (offered > 0 or name not in wanted.backed):
                missing = shortages.joined(missing, f"Insufficient {name}", unresolvable=many > offered)
        return missing

    def _missing(self, rows: Rows, wanted: Wanted) -> Rejections:
        """int16, shape (len(rows),): what each node lacks, as numbers."""
        table, shortages = self._table, self._shortages
        missing = np.full(len(rows), NOTHING, dtype=np.int16)
        full = table.pod_count[rows] >= table.allowed_pods[rows]
        if np.count_nonzero(full):
            shortages.add(missing, full, np.zeros_like(full), TOO_MANY_PODS)
        for name, many in wanted.demands:
            index = table.resource_index(name)
            backed = name in wanted.backed
            if index is None:
                if backed:
                    continue
                everywhere = np.ones(len(rows), dtype=np.bool_)
                shortages.add(missing, everywhere, everywhere, f"Insufficient {name}")
                continue
            offered = table.allocatable[index][rows]
            short = many > offered - table.requested[index][rows]
            if backed:
                short &= offered > 0
            if np.count_nonzero(short):
                shortages.add(missing, short, many > offered, f"Insufficient {name}")
        return missing

    def _ask(self, pod: PodInfo) -> Ask:
        try:
            return ask_of(self._scored, pod.asked_for_score)
        except QuantityError as error:
            raise PluginError(f"requests of pod {pod.key}: {error}") from error

    def _overlooked(self, name: str) -> bool:
        return is_extended(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)


def _read(state: CycleState) -> Wanted:
    try:
        return state.read(_WANTED)
    except StateNotFoundError as error:
        raise PluginError(f'error reading "{_WANTED.name}" from cycleState: not found') from error
