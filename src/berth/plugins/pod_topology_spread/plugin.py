"""PodTopologySpread: pods that a constraint selects are spread evenly over the domains of a topology.

Points: PreFilter (sits out for pods without hard constraints), Filter, PreScore (sits out without soft ones), Score
(normalized).  Rejects a node whose domain would exceed the emptiest one by too much as unschedulable, since evictions
may help, and one that lacks the topology's label as unresolvable.  Woken by matching pods that come, go or change their
labels, by nodes that come, go or change labels or taints, and by changes of the pod's own labels and tolerations.

Arguments: ``defaulting_type`` and ``default_constraints``, for pods without constraints of their own: ``System`` for
the built-in ones, which are soft, or ``List`` for those given, of which no two have the same topology and action, and
none has a selector.  The selector is deduced from the services and the owner of the pod.

Depends on other pods, so that it is asked anew in every cycle; what it asks is kept up to date as counts
(`berth.cluster.podcounts`).

Source: k8s pkg/scheduler/framework/plugins/podtopologyspread/plugin.go; KEP-895, KEP-1258, KEP-3022, KEP-3094 and
KEP-3243.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

from berth.api.selectors import SelectorError
from berth.cluster.columns import Rows
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey
from berth.framework.events import Registration
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope, Scores
from berth.framework.plugin_args import PodTopologySpreadArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, unresolvable, unschedulable
from berth.framework.what_if import Guests
from berth.plugins.pod_topology_spread.board import SpreadBoard
from berth.plugins.pod_topology_spread.constraints import HARD, SOFT, Constraint, Constraints
from berth.plugins.pod_topology_spread.domains import DomainFinder
from berth.plugins.pod_topology_spread.filtering import MISSING_LABEL, UNEVEN, HardState, hard_state, judge_rows
from berth.plugins.pod_topology_spread.hints import SpreadHints
from berth.plugins.pod_topology_spread.scoring import SoftState, raw_scores, soft_state, turned_round
from berth.plugins.pod_topology_spread.selectors import LOOKED_UP, controller_of

REASON: Final = "node(s) didn't match pod topology spread constraints"
REASON_MISSING_LABEL: Final = f"{REASON} (missing required label)"

_HARD: Final = StateKey[HardState]("PreFilterPodTopologySpread")
_SOFT: Final = StateKey[SoftState]("PreScorePodTopologySpread")
_SITS_OUT: Final = PreFilterResult(SKIP)
_GOES_ON: Final = PreFilterResult()


class PodTopologySpread:
    """Looks at the pods of one namespace by their labels, and at the labels and taints of nodes."""

    name = "PodTopologySpread"
    scope = Scope.CLUSTER

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        self._table = handle.cluster.table
        self._constraints = Constraints(args, handle)
        operators = handle.gates.enabled("TaintTolerationComparisonOperators")
        self._finder = DomainFinder(self._table, comparison_operators=operators)
        self._hints = SpreadHints(self._constraints, handle.behaviours)
        self._rejections = {UNEVEN: unschedulable(REASON), MISSING_LABEL: unresolvable(REASON_MISSING_LABEL)}

    def kinds(self) -> Sequence[Kind[Any]]:
        """Services and the owners of pods, where there are default constraints."""
        return LOOKED_UP if self._constraints.any_default else ()

    def events_to_register(self) -> Sequence[Registration]:
        """Pods and nodes."""
        return self._hints.registrations()

    def sign(self, pod: PodInfo) -> Hashable:
        """The namespace, the labels, the constraints or else the owner, and what the pod says about nodes."""
        spec = pod.pod.spec
        own = spec.topology_spread_constraints
        if own:
            return pod.label_set, own, pod.required_node_affinity, spec.tolerations
        if not self._constraints.any_default:
            return ()
        owner = controller_of(pod.pod)
        named = None if owner is None else (owner.api_version, owner.kind, owner.name)
        return pod.label_set, named, pod.required_node_affinity, spec.tolerations

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Skip without hard constraints; else adds up the matching pods.

        Raises:
            PluginError: a selector of the pod cannot be parsed.
        """
        constraints = self._of(pod, HARD, "get constraints from pod: obtaining pod's hard topology spread constraints")
        if not constraints:
            return _SITS_OUT
        state.write(_HARD, hard_state(self._table, self._finder, pod, constraints))
        return _GOES_ON

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """*other* counts on the node of *row*."""
        state.read(_HARD).move(pod, other, row, 1, self._table)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """*other* does not count on the node of *row*."""
        state.read(_HARD).move(pod, other, row, -1, self._table)
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """Rejects nodes by the first constraint that they break.

        Raises:
            StateNotFoundError: PreFilter was not run.
        """
        return judge_rows(state.read(_HARD), pod, rows, self._table)

    def board(self, state: CycleState, pod: PodInfo, guests: Guests) -> SpreadBoard:
        """Hard constraints on many nodes while pods come and go.

        Raises:
            StateNotFoundError: PreFilter was not run.
        """
        return SpreadBoard(self._table, guests, state.read(_HARD), pod)

    def rejection(self, code: int) -> Status:
        """Too many pods in the domain, or no domain."""
        return self._rejections[code]

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        """Skip without soft constraints; else adds up the matching pods.

        Raises:
            PluginError: a selector of the pod cannot be parsed.
        """
        what = "calculating preScoreState: obtaining pod's soft topology spread constraints"
        constraints = self._of(pod, SOFT, what)
        if not constraints or not len(self._table):
            return SKIP
        need_all = bool(pod.pod.spec.topology_spread_constraints) or not self._constraints.system_defaulted
        state.write(_SOFT, soft_state(self._table, self._finder, pod, constraints, rows, need_all=need_all))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """How many pods there are around each node, weighted.

        Raises:
            StateNotFoundError: PreScore was not run.
        """
        del pod
        return raw_scores(state.read(_SOFT), rows, self._table)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """100 for the nodes with the fewest pods around, if there are none; 0 for nodes that lack a label."""
        del pod
        return turned_round(state.read(_SOFT), scores)

    def _of(self, pod: PodInfo, action: str, what: str) -> tuple[Constraint, ...]:
        try:
            return self._constraints.of(pod.pod, action)
        except SelectorError as error:
            raise PluginError(f"{what}: {error}") from error
