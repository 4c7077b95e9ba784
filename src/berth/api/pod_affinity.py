"""Terms of pod affinity, compiled: which pods, in which namespaces, within which topology.

Built once per distinct wire form, since the pods of a workload share theirs.  The node table counts who carries which
term, and the plugin InterPodAffinity asks which pods a term selects.

A list of terms in which one cannot be parsed is treated as in the reference: the pod that waits is rejected with the
fault, a pod that runs counts as having no terms of that list.

Source: k8s staging/src/k8s.io/kube-scheduler/framework/types.go, ``AffinityTerm`` and ``GetAffinityTerms``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

from berth.api.affinity import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from berth.api.selectors import Selector, SelectorError, compile_label_selector

_REMEMBERED: Final = 4096
_NO_LABELS: Final[Mapping[str, str]] = {}


class TermKind(Enum):
    """Which of the four lists a term is from; the values are what messages call them."""

    REQUIRED_AFFINITY = "requiredAffinityTerms"
    REQUIRED_ANTI_AFFINITY = "requiredAntiAffinityTerms"
    PREFERRED_AFFINITY = "preferredAffinityTerms"
    PREFERRED_ANTI_AFFINITY = "preferredAntiAffinityTerms"


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A compiled term.

    Attributes:
        namespaces: names of namespaces that are selected whatever their labels.
        namespace_selector: selects further namespaces by their labels.
        selector: selects pods by their labels.
        topology_key: the label of nodes whose value makes a domain.
    """

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod is selected.

        Args:
            namespace: the pod's namespace.
            labels: the pod's labels.
            namespace_labels: the labels of its namespace.
        """
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class CarriedTerm:
    """A term as a pod carries it; equal ones are counted together.

    Attributes:
        kind: the list that it is from.
        term: the term.
        weight: what it adds for each pod; 1 for required ones.
    """

    kind: TermKind
    term: AffinityTerm
    weight: int
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.kind, self.term, self.weight)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class PodAffinityTerms:
    """The terms of one pod, list by list.

    Attributes:
        required: required affinity.
        required_anti: required anti-affinity.
        preferred: preferred affinity, with weights.
        preferred_anti: preferred anti-affinity, with weights.
        carried: all of them, as they are counted.
        faults: what is wrong with lists that cannot be parsed.
    """

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[int, AffinityTerm], ...] = ()
    preferred_anti: tuple[tuple[int, AffinityTerm], ...] = ()
    carried: tuple[CarriedTerm, ...] = ()
    faults: tuple[tuple[TermKind, SelectorError], ...] = ()


NO_TERMS: Final = PodAffinityTerms()


def pod_affinity_terms(affinity: Affinity | None, namespace: str) -> PodAffinityTerms:
    """The compiled terms of a pod of *namespace*."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    return _compiled(affinity.pod_affinity or _NONE, affinity.pod_anti_affinity or _NONE, namespace)


def matches_all(terms: Iterable[AffinityTerm], namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a pod is selected by each of *terms*, of which there is at least one; labels of namespaces count as none.

    Source: k8s pkg/scheduler/framework/plugins/interpodaffinity/filtering.go, ``podMatchesAllAffinityTerms``.
    """
    terms = tuple(terms)
    return bool(terms) and all(term.matches(namespace, labels, _NO_LABELS) for term in terms)


def matches_any(terms: Iterable[AffinityTerm], namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a pod is selected by at least one of *terms*; labels of namespaces count as none."""
    return any(term.matches(namespace, labels, _NO_LABELS) for term in terms)


_NONE: Final = PodAffinity()


@lru_cache(maxsize=_REMEMBERED)
def _compiled(affinity: PodAffinity, anti_affinity: PodAffinity, namespace: str) -> PodAffinityTerms:
    terms: dict[TermKind, tuple[tuple[int, AffinityTerm], ...]] = dict.fromkeys(TermKind, ())
    faults = []
    for kind, wire in (
        (TermKind.REQUIRED_AFFINITY, _plain(affinity)),
        (TermKind.REQUIRED_ANTI_AFFINITY, _plain(anti_affinity)),
        (TermKind.PREFERRED_AFFINITY, affinity.preferred_during_scheduling_ignored_during_execution),
        (TermKind.PREFERRED_ANTI_AFFINITY, anti_affinity.preferred_during_scheduling_ignored_during_execution),
    ):
        try:
            terms[kind] = tuple(
                (each.weight, compile_affinity_term(each.pod_affinity_term, namespace)) for each in wire
            )
        except SelectorError as fault:
            faults.append((kind, fault))
    return PodAffinityTerms(
        required=tuple(term for _, term in terms[TermKind.REQUIRED_AFFINITY]),
        required_anti=tuple(term for _, term in terms[TermKind.REQUIRED_ANTI_AFFINITY]),
        preferred=terms[TermKind.PREFERRED_AFFINITY],
        preferred_anti=terms[TermKind.PREFERRED_ANTI_AFFINITY],
        carried=tuple(CarriedTerm(kind, term, weight) for kind in TermKind for weight, term in terms[kind]),
        faults=tuple(faults),
    )


def _plain(affinity: PodAffinity) -> tuple[WeightedPodAffinityTerm, ...]:
    terms = affinity.required_during_scheduling_ignored_during_execution
    return tuple(WeightedPodAffinityTerm(weight=1, pod_affinity_term=term) for term in terms)


def compile_affinity_term(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    """The compiled form of a term of a pod of *namespace*.

    Raises:
        SelectorError: one of its selectors cannot be parsed.

    Source: k8s staging/src/k8s.io/kube-scheduler/framework/types.go, ``newAffinityTerm``.
    """
    own_only = not term.namespaces and term.namespace_selector is None
    selector = compile_label_selector(term.label_selector)
    return AffinityTerm(
        namespaces=frozenset((namespace,) if own_only else term.namespaces),
        namespace_selector=compile_label_selector(term.namespace_selector),
        selector=selector,
        topology_key=term.topology_key,
    )
