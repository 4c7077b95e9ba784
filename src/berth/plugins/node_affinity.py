"""NodeAffinity: a pod goes only to nodes that its selectors match, and by preference to those that it would like.

Points: PreFilter (sits out for pods without selectors; narrows to the nodes that terms name), Filter, PreScore (sits
out without preferences), Score (normalized).  Rejects as unresolvable.  Woken by nodes that the pod's selectors have
come to match.

Arguments: ``added_affinity``, which holds for every pod besides its own; None for nothing.  All its terms are valid.

A faulty required term of the pod matches nothing; a faulty preferred term breaks the attempt off.

Source: k8s pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from berth.api.affinity import NodeAffinity as NodeAffinitySpec
from berth.api.affinity import NodeSelector, NodeSelectorTerm
from berth.api.node import Node
from berth.api.node_affinity import (
    NAME_FIELD,
    CompiledNodeSelector,
    PreferredTerm,
    RequiredNodeAffinity,
    compile_node_selector,
    compile_preferred,
)
from berth.api.pod import Pod
from berth.api.selectors import IN, SelectorError
from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.events import Action, ClusterEvent, Hint, HintError, Registration, Resource
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope, Scores
from berth.framework.plugin_args import NodeAffinityArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, unresolvable
from berth.plugins.hints import before_and_after
from berth.plugins.node_selection import required_mask, selector_mask, term_mask
from berth.plugins.normalize import scale

REASON_POD: Final = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED: Final = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT: Final = "pod affinity terms conflict"

_BY_POD: Final = 1
_ENFORCED: Final = 2
_PREFERRED: Final = StateKey[tuple[PreferredTerm, ...]]("PreScoreNodeAffinity")


class NodeAffinity:
    """Looks at the labels and names of nodes."""

    name = "NodeAffinity"
    scope = Scope.ROW
    ignores_pods: Final = True

    def __init__(self, args: NodeAffinityArgs | None, handle: Handle) -> None:
        """Build the plugin.

        Raises:
            ValueError: a term of the added affinity cannot be parsed.
        """
        added = (args.added_affinity if args else None) or NodeAffinitySpec()
        self._table = handle.cluster.table
        self._added_required = _compile_added(added)
        self._added_preferred = compile_preferred(added.preferred_during_scheduling_ignored_during_execution or ())
        self._rejections = {_BY_POD: unresolvable(REASON_POD), _ENFORCED: unresolvable(REASON_ENFORCED)}

    def events_to_register(self) -> Sequence[Registration]:
        """Nodes that come or change their labels."""
        event = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (Registration(event, self._hint_for_node, by_spec=True),)

    def sign(self, pod: PodInfo) -> Hashable:
        """The node selector and the node affinity."""
        selector = pod.pod.spec.node_selector
        return None if selector is None else tuple(sorted(selector.items())), _node_affinity(pod.pod)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Skip if nothing restricts the pod; else the nodes that its terms name, if each names some."""
        del state
        required = _required(pod.pod)
        if required is None:
            unrestricted = self._added_required is None and pod.pod.spec.node_selector is None
            return PreFilterResult(SKIP) if unrestricted else PreFilterResult()
        names = _named_nodes(required)
        if names is not None and not names:
            return PreFilterResult(unresolvable(REASON_CONFLICT))
        return PreFilterResult(node_names=names)

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """2 where the added affinity does not match, else 1 where the pod's own selectors do not."""
        del state
        rejected = (~required_mask(self._table, pod.required_node_affinity, rows)).astype(np.int16)
        if self._added_required is not None:
            rejected[~selector_mask(self._table, self._added_required, rows)] = _ENFORCED
        return rejected

    def rejection(self, code: int) -> Status:
        """One answer for the pod's selectors, one for the added affinity."""
        return self._rejections[code]

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        """Skip if there are no preferences.

        Raises:
            PluginError: a preferred term of the pod cannot be parsed.
        """
        del rows
        affinity = _node_affinity(pod.pod)
        own = affinity.preferred_during_scheduling_ignored_during_execution if affinity else None
        if own is None and not self._added_preferred:
            return SKIP
        state.write(_PREFERRED, self._preferred(pod.pod))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """The sum of the weights of the preferences that match.

        Raises:
            PluginError: a preferred term of the pod cannot be parsed.
        """
        try:
            preferred = state.read(_PREFERRED)
        except StateNotFoundError:
            preferred = self._preferred(pod.pod)
        total = np.zeros(len(rows), dtype=np.int64)
        for each in preferred:
            total += each.weight * term_mask(self._table, each.term, rows)
        return total

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """100 for the highest sum."""
        del state, pod
        return scale(scores)

    def _preferred(self, pod: Pod) -> tuple[PreferredTerm, ...]:
        affinity = _node_affinity(pod)
        own = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
        try:
            return self._added_preferred + compile_preferred(own)
        except SelectorError as error:
            raise PluginError(str(error)) from error

    def _hint_for_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        before, after = before_and_after(Node, old, new)
        if self._added_required is not None and not self._added_required.matches(after):
            return Hint.SKIP
        required = pod.required_node_affinity
        if not _matches(required, after):
            return Hint.SKIP
        return Hint.QUEUE if before is None or not _matches(required, before) else Hint.SKIP


def _node_affinity(pod: Pod) -> NodeAffinitySpec | None:
    affinity = pod.spec.affinity
    return affinity.node_affinity if affinity else None


def _required(pod: Pod) -> NodeSelector | None:
    affinity = _node_affinity(pod)
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _compile_added(added: NodeAffinitySpec) -> CompiledNodeSelector | None:
    required = added.required_during_scheduling_ignored_during_execution
    if required is None:
        return None
    selector = compile_node_selector(required)
    if selector.faults:
        raise selector.faults[0]
    return selector


def _named_nodes(required: NodeSelector) -> frozenset[str] | None:
    """The nodes that the terms name; None if there are no terms, or one of them names none."""
    names: set[str] = set()
    for term in required.node_selector_terms:
        of_term = _names_of_term(term)
        if of_term is None:
            return None
        names |= of_term
    return frozenset(names) if required.node_selector_terms else None


def _names_of_term(term: NodeSelectorTerm) -> set[str] | None:
    lists = [set(f.values) for f in term.match_fields if f.key == NAME_FIELD and f.operator == IN]
    return set.intersection(*lists) if lists else None


def _matches(required: RequiredNodeAffinity, node: Node) -> bool:
    """Whether *node* matches.

    Raises:
        HintError: no term matches, and one cannot be parsed.
    """
    if required.matches(node):
        return True
    selector = required.selector
    labels_match = all(node.metadata.labels.get(key) == value for key, value in required.labels)
    if labels_match and selector is not None and selector.faults:
        raise HintError("; ".join(map(str, selector.faults)))
    return False
