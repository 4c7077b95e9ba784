"""InterPodAffinity: a pod goes near pods that its terms select, or away from them, and respects what others ask of it.

Points: PreFilter (sits out if no required term concerns the pod), Filter, PreScore (sits out if no preferred one does),
Score (normalized).  Rejects a node without the pods that must be near as unresolvable, and one with pods that must not
be near as unschedulable, since it may become free by evictions.  Woken by pods that come, go or change their labels and
by nodes that come or change theirs, as far as the pod's required terms look at them, and by changes of the pod's own
labels.

Arguments: ``hard_pod_affinity_weight`` (0..100), what a required affinity term of a running pod adds to the score;
``ignore_preferred_terms_of_existing_pods``, whether pods without preferences of their own are not scored at all.

Depends on other pods, so that it is asked anew in every cycle; what it asks is kept up to date as counts
(`berth.cluster.podcounts`, `berth.cluster.carried_terms`).

Source: k8s pkg/scheduler/framework/plugins/interpodaffinity/plugin.go.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

from berth.api.pod_affinity import PodAffinityTerms
from berth.cluster.columns import Rows
from berth.cluster.kinds import NAMESPACE
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.events import Registration
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope, Scores
from berth.framework.plugin_args import InterPodAffinityArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, unresolvable, unschedulable
from berth.framework.what_if import Guests
from berth.plugins.inter_pod_affinity.board import AffinityBoard
from berth.plugins.inter_pod_affinity.filtering import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    RequiredState,
    judge_rows,
    required_state,
)
from berth.plugins.inter_pod_affinity.hints import AffinityHints
from berth.plugins.inter_pod_affinity.namespaces import Namespaces
from berth.plugins.inter_pod_affinity.overlooked import OverlookedEvents
from berth.plugins.inter_pod_affinity.scoring import PreferredState, preferred_state, raw_scores, stretched

REASON_AFFINITY: Final = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

_REQUIRED: Final = StateKey[RequiredState]("PreFilterInterPodAffinity")
_PREFERRED: Final = StateKey[PreferredState]("PreScoreInterPodAffinity")
_SITS_OUT: Final = PreFilterResult(SKIP)
_GOES_ON: Final = PreFilterResult()


class InterPodAffinity:
    """Looks at the labels and affinity terms of pods, the labels of their namespaces, and the labels of nodes."""

    name = "InterPodAffinity"
    scope = Scope.CLUSTER

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        args = args or InterPodAffinityArgs()
        self._required_weight = args.hard_pod_affinity_weight
        self._ignores_preferences_of_others = args.ignore_preferred_terms_of_existing_pods
        self._table = handle.cluster.table
        self._namespaces = Namespaces(
            handle.cluster.objects,
            negative_selects_all=handle.behaviours.negative_namespace_selector_matches_all,
        )
        self._hints = AffinityHints(handle.behaviours)
        self._overlooked = OverlookedEvents(self._table, self._namespaces)
        self._rejections = {
            AFFINITY: unresolvable(REASON_AFFINITY),
            ANTI_AFFINITY: unschedulable(REASON_ANTI_AFFINITY),
            EXISTING_ANTI_AFFINITY: unschedulable(REASON_EXISTING_ANTI_AFFINITY),
        }

    def kinds(self) -> Sequence[Kind[Any]]:
        """Namespaces, for their labels."""
        return (NAMESPACE,)

    def events_to_register(self) -> Sequence[Registration]:
        """Pods and nodes."""
        return self._hints.registrations()

    def further_events(self) -> Sequence[Registration]:
        """What the reference's hints overlook."""
        return self._overlooked.registrations()

    def sign(self, pod: PodInfo) -> Hashable:
        """The namespace, the labels and the terms."""
        affinity = pod.pod.spec.affinity
        terms = None if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
        return pod.label_set, terms

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Skip if no required term, of the pod or of others, concerns it; else adds up who matches."""
        terms = pod.affinity_terms
        if terms.faults:
            return PreFilterResult(unresolvable(f"parsing pod: {_fault_text(terms)}"))
        if not terms.carried and not self._table.carried_terms:
            return _SITS_OUT
        found = required_state(self._table, self._namespaces, pod)
        if found is None:
            return _SITS_OUT
        state.write(_REQUIRED, found)
        return _GOES_ON

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """*other* counts on the node of *row*."""
        self._read(state).move(pod, other, row, 1, self._table)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """*other* does not count on the node of *row*."""
        self._read(state).move(pod, other, row, -1, self._table)
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """Rejects nodes by affinity, then by the pod's anti-affinity, then by that of others.

        Raises:
            PluginError: PreFilter was not run.
        """
        return judge_rows(self._read(state), pod, rows, self._table)

    def board(self, state: CycleState, pod: PodInfo, guests: Guests) -> AffinityBoard:
        """Required terms on many nodes while pods come and go.

        Raises:
            PluginError: PreFilter was not run.
        """
        return AffinityBoard(self._table, guests, self._read(state), pod)

    def rejection(self, code: int) -> Status:
        """Which of the three rules is broken."""
        return self._rejections[code]

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        """Skip if no preferred term, of the pod or of others, concerns it; else adds the weights up.

        Raises:
            PluginError: a term of the pod cannot be parsed.
        """
        del rows
        terms = pod.affinity_terms
        if terms.faults:
            raise PluginError(f"failed to parse pod: {_fault_text(terms)}")
        if not (terms.preferred or terms.preferred_anti or self._counts_preferences_of_others()):
            return SKIP
        found = preferred_state(self._table, self._namespaces, pod, self._required_weight)
        if found is None:
            return SKIP
        state.write(_PREFERRED, found)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """The weights in the domains of each node.

        Raises:
            StateNotFoundError: PreScore was not run.
        """
        del pod
        return raw_scores(state.read(_PREFERRED), rows, self._table)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """0 for the lowest, 100 for the highest, and in proportion between them."""
        del state, pod
        return stretched(scores)

    def _counts_preferences_of_others(self) -> bool:
        return bool(self._table.carried_terms) and not self._ignores_preferences_of_others

    def _read(self, state: CycleState) -> RequiredState:
        try:
            return state.read(_REQUIRED)
        except StateNotFoundError as error:
            raise PluginError(f"error {error.args[0]}") from error


def _fault_text(terms: PodAffinityTerms) -> str:
    """The faults as one text, each different one once."""
    texts = list(dict.fromkeys(f"{kind.value}: {fault}" for kind, fault in terms.faults))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
