"""The plain twins of the plugins about relations between pods: spreading and pod affinity, by going through all pods.

They are written from the rules, not from the plugins, and share with them only what tests/api covers: selectors, node
affinity and tolerations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

from msgspec.structs import replace

from berth.api.pod import TopologySpreadConstraint
from berth.api.selectors import LabelSelector, compile_label_selector
from berth.api.tolerations import tolerates
from berth.cluster.pods import PodInfo
from berth.framework.status import SUCCESS, Status, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from berth.api.affinity import PodAffinityTerm
    from berth.api.node import Node
    from berth.api.pod import Pod

HOSTNAME = "kubernetes.io/hostname"
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway"
    ),
)


@dataclass(frozen=True)
class Place:
    """A node and the pods on it."""

    node: Node
    pods: tuple[Pod, ...]

    @property
    def labels(self) -> dict[str, str]:
        return self.node.metadata.labels


@dataclass(frozen=True)
class Everything:
    """What there is: places by the names of their nodes, labels of namespaces, selectors of services by namespace."""

    places: dict[str, Place]
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    services: tuple[tuple[str, dict[str, str]], ...] = ()


# -- spreading ---------------------------------------------------------------------------------------------------------


def constraints_of(pod: Pod, action: str) -> list[TopologySpreadConstraint]:
    return [each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == action]


def counts_as(constraint: TopologySpreadConstraint, pod: Pod, labels: Mapping[str, str]) -> bool:
    """Whether the constraint of *pod* selects something with *labels*."""
    alike = {key: pod.metadata.labels[key] for key in constraint.match_label_keys if key in pod.metadata.labels}
    selected = compile_label_selector(constraint.label_selector).matches(labels)
    return selected and all(labels.get(key) == value for key, value in alike.items())


def selects_all(constraint: TopologySpreadConstraint, pod: Pod) -> bool:
    """Whether nothing is asked of the pods to count, which then are not counted."""
    alike = any(key in pod.metadata.labels for key in constraint.match_label_keys)
    return compile_label_selector(constraint.label_selector).empty and not alike


def is_included(constraint: TopologySpreadConstraint, pod: Pod, node: Node) -> bool:
    if constraint.node_affinity_policy != "Ignore" and not PodInfo(pod).required_node_affinity.matches(node):
        return False
    hard = [taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
    tolerated = all(any(tolerates(t, taint) for t in pod.spec.tolerations) for taint in hard)
    return constraint.node_taints_policy != "Honor" or tolerated


def count(constraint: TopologySpreadConstraint, pod: Pod, others: Iterable[Pod]) -> int:
    if selects_all(constraint, pod):
        return 0
    return len(
        [
            other
            for other in others
            if other.metadata.namespace == pod.metadata.namespace
            and other.metadata.deletion_timestamp is None
            and counts_as(constraint, pod, other.metadata.labels)
        ]
    )


def spread_filter(pod: Pod, everything: Everything, name: str) -> Status:
    constraints = constraints_of(pod, "DoNotSchedule")
    labels = everything.places[name].labels
    for constraint in constraints:
        key = constraint.topology_key
        if key not in labels:
            return unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
        domains: dict[str, int] = {}
        for place in everything.places.values():
            eligible = all(each.topology_key in place.labels for each in constraints)
            if eligible and is_included(constraint, pod, place.node):
                value = place.labels[key]
                domains[value] = domains.get(value, 0) + count(constraint, pod, place.pods)
        least = 0 if len(domains) < (constraint.min_domains or 1) else min(domains.values())
        itself = 1 if counts_as(constraint, pod, pod.metadata.labels) else 0
        if domains.get(labels[key], 0) + itself - least > constraint.max_skew:
            return unschedulable("node(s) didn't match pod topology spread constraints")
    return SUCCESS


def default_constraints(pod: Pod, everything: Everything) -> list[TopologySpreadConstraint]:
    """The built-in constraints with what the pod's services select; none without services."""
    wanted: dict[str, str] = {}
    for namespace, selector in everything.services:
        if namespace == pod.metadata.namespace and selector.items() <= pod.metadata.labels.items():
            wanted |= selector
    return [replace(each, label_selector=LabelSelector(match_labels=wanted)) for each in SYSTEM_DEFAULTS if wanted]


def spread_scores(pod: Pod, everything: Everything, names: Sequence[str]) -> list[int] | None:
    own = bool(pod.spec.topology_spread_constraints)
    constraints = constraints_of(pod, "ScheduleAnyway") if own else default_constraints(pod, everything)
    if not constraints:
        return None
    keys = [each.topology_key for each in constraints]
    needs_all = own
    ignored = [name for name in names if needs_all and any(key not in everything.places[name].labels for key in keys)]
    scored = [everything.places[name] for name in names if name not in ignored]
    raw = {name: 0.0 for name in names if name not in ignored}
    for constraint in constraints:
        key = constraint.topology_key
        domains = {place.labels.get(key, "") for place in scored}
        weight = math.log((len(scored) if key == HOSTNAME else len(domains)) + 2)
        sums = dict.fromkeys(domains, 0)
        for place in everything.places.values():
            eligible = not needs_all or all(each in place.labels for each in keys)
            if eligible and is_included(constraint, pod, place.node) and place.labels.get(key, "") in sums:
                sums[place.labels.get(key, "")] += count(constraint, pod, place.pods)
        for name in raw:
            place = everything.places[name]
            if key in place.labels:
                many = count(constraint, pod, place.pods) if key == HOSTNAME else sums[place.labels[key]]
                raw[name] += many * weight + (constraint.max_skew - 1)
    whole = {name: int(Decimal(number).to_integral_value(ROUND_HALF_UP)) for name, number in raw.items()}
    highest, lowest = max(whole.values(), default=0), min(whole.values(), default=0)
    turned = {name: 100 * (highest + lowest - score) // highest if highest else 100 for name, score in whole.items()}
    return [turned.get(name, 0) for name in names]


# -- pod affinity ------------------------------------------------------------------------------------------------------


def required(pod: Pod, *, anti: bool = False) -> Sequence[PodAffinityTerm]:
    affinity = pod.spec.affinity
    half = affinity and (affinity.pod_anti_affinity if anti else affinity.pod_affinity)
    return half.required_during_scheduling_ignored_during_execution if half else ()


def preferred(pod: Pod, *, anti: bool = False) -> Sequence[tuple[int, PodAffinityTerm]]:
    affinity = pod.spec.affinity
    half = affinity and (affinity.pod_anti_affinity if anti else affinity.pod_affinity)
    wishes = half.preferred_during_scheduling_ignored_during_execution if half else ()
    return [(wish.weight, wish.pod_affinity_term) for wish in wishes]


def has_in_its_namespaces(
    term: PodAffinityTerm, owner: Pod, other: Pod, everything: Everything, *, waiting: bool, negative_is_all: bool
) -> bool:
    namespace = other.metadata.namespace
    if not term.namespaces and term.namespace_selector is None:
        return namespace == owner.metadata.namespace
    if namespace in term.namespaces:
        return True
    selector = compile_label_selector(term.namespace_selector)
    if not waiting:
        return selector.matches(everything.namespaces.get(namespace, {}))
    if negative_is_all and selector.matches({}):
        return True
    exists = namespace in everything.namespaces
    return selector.empty or (exists and selector.matches(everything.namespaces[namespace]))


@dataclass(frozen=True)
class Affinities:
    """The rules of pod affinity for a waiting pod."""

    pod: Pod
    everything: Everything
    negative_is_all: bool = False
    required_weight: int = 1

    def wants(self, term: PodAffinityTerm, other: Pod) -> bool:
        """Whether a term of the waiting pod selects *other*."""
        return has_in_its_namespaces(
            term, self.pod, other, self.everything, waiting=True, negative_is_all=self.negative_is_all
        ) and compile_label_selector(term.label_selector).matches(other.metadata.labels)

    def is_meant(self, term: PodAffinityTerm, other: Pod) -> bool:
        """Whether a term of *other*, which runs, selects the waiting pod."""
        return has_in_its_namespaces(
            term, other, self.pod, self.everything, waiting=False, negative_is_all=False
        ) and compile_label_selector(term.label_selector).matches(self.pod.metadata.labels)

    def filter(self, name: str) -> Status:
        labels = self.everything.places[name].labels
        terms, anti_terms = required(self.pod), required(self.pod, anti=True)
        if not self._is_near(terms, labels):
            return unresolvable("node(s) didn't match pod affinity rules")
        for term in anti_terms:
            if any(self.wants(term, other) for other in self._sharing(labels, term.topology_key)):
                return unschedulable("node(s) didn't match pod anti-affinity rules")
        for place in self.everything.places.values():
            for other in place.pods:
                for term in required(other, anti=True):
                    key = term.topology_key
                    if self.is_meant(term, other) and key in labels and place.labels.get(key) == labels[key]:
                        return unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return SUCCESS

    def _is_near(self, terms: Sequence[PodAffinityTerm], labels: dict[str, str]) -> bool:
        if any(term.topology_key not in labels for term in terms):
            return False
        if all(
            any(self._is_wanted_by_all(terms, other) for other in self._sharing(labels, term.topology_key))
            for term in terms
        ):
            return True
        nobody = not any(
            self._is_wanted_by_all(terms, other)
            for place in self.everything.places.values()
            if any(term.topology_key in place.labels for term in terms)
            for other in place.pods
        )
        return nobody and self._is_wanted_by_all(terms, self.pod)

    def _is_wanted_by_all(self, terms: Sequence[PodAffinityTerm], other: Pod) -> bool:
        return all(self.wants(term, other) for term in terms)

    def _sharing(self, labels: dict[str, str], key: str) -> list[Pod]:
        """The pods in the domain of a node with these labels."""
        places = self.everything.places.values()
        return [pod for place in places if key in labels and place.labels.get(key) == labels[key] for pod in place.pods]

    def scores(self, names: Sequence[str], *, ignores_others: bool = False) -> list[int] | None:
        likes, dislikes = preferred(self.pod), preferred(self.pod, anti=True)
        if ignores_others and not likes and not dislikes:
            return None
        weights: dict[tuple[str, str], int] = {}
        for place in self.everything.places.values():
            for other in place.pods:
                for weight, term in self._weighted(other):
                    if term.topology_key in place.labels:
                        domain = term.topology_key, place.labels[term.topology_key]
                        weights[domain] = weights.get(domain, 0) + weight
        if not weights:
            return None
        raw = [
            sum(
                weight
                for (key, value), weight in weights.items()
                if self.everything.places[name].labels.get(key) == value
            )
            for name in names
        ]
        lowest, highest = min(raw, default=0), max(raw, default=0)
        return [int(100.0 * ((score - lowest) / (highest - lowest))) if highest > lowest else 0 for score in raw]

    def _weighted(self, other: Pod) -> list[tuple[int, PodAffinityTerm]]:
        """The terms that count because of *other*, with what each adds."""
        mine = [(weight, term) for weight, term in preferred(self.pod) if self.wants(term, other)]
        mine += [(-weight, term) for weight, term in preferred(self.pod, anti=True) if self.wants(term, other)]
        theirs = [(weight, term) for weight, term in preferred(other)]
        theirs += [(-weight, term) for weight, term in preferred(other, anti=True)]
        if self.required_weight:
            theirs += [(self.required_weight, term) for term in required(other)]
        return mine + [(weight, term) for weight, term in theirs if self.is_meant(term, other)]
