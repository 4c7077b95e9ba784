"""Node selectors compiled: terms joined by *or*, conditions of a term joined by *and*.

Faulty terms are kept apart instead of raised, because the reference lets the other terms of a pod's required affinity
decide; whoever needs them all to be right asks for the faults.

Source: k8s component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from berth.api.affinity import NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm
from berth.api.node import Node
from berth.api.selectors import IN, NOT_IN, Requirement, SelectorError, SelectorRequirement, make_requirement

NAME_FIELD: Final = "metadata.name"
_REMEMBERED: Final = 4096  # the pods of a workload share their selectors


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on a field of the node; an unknown field reads as empty."""

    key: str
    operator: str
    value: str

    def matches(self, node_name: str) -> bool:
        """Whether the node of that name satisfies the condition."""
        actual = node_name if self.key == NAME_FIELD else ""
        return (actual == self.value) is (self.operator == IN)


@dataclass(frozen=True, slots=True)
class Term:
    """A compiled term; ``fault`` is set instead of conditions where the term cannot be parsed."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()
    fault: SelectorError | None = None

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node satisfies all conditions."""
        if self.fault is not None:
            return False
        if not all(requirement.matches(labels) for requirement in self.labels):
            return False
        return not node_name or all(requirement.matches(node_name) for requirement in self.fields)


@dataclass(frozen=True, slots=True)
class CompiledNodeSelector:
    """Terms joined by *or*; without terms it matches nothing."""

    terms: tuple[Term, ...]

    def matches(self, node: Node) -> bool:
        """Whether *node* satisfies at least one term."""
        return any(term.matches(node.metadata.name, node.metadata.labels) for term in self.terms)

    @property
    def faults(self) -> tuple[SelectorError, ...]:
        """What is wrong with the terms that cannot be parsed."""
        return tuple(term.fault for term in self.terms if term.fault is not None)


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A compiled term and what it adds to the score."""

    weight: int
    term: Term


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """``spec.nodeSelector`` and the required node affinity of a pod, taken together."""

    labels: tuple[tuple[str, str], ...]
    selector: CompiledNodeSelector | None

    def matches(self, node: Node) -> bool:
        """Whether the pod may run on *node* as far as its own selectors say."""
        own = node.metadata.labels
        if not all(own.get(key) == value for key, value in self.labels):
            return False
        return self.selector is None or self.selector.matches(node)


@lru_cache(maxsize=_REMEMBERED)
def compile_node_selector(selector: NodeSelector, path: str = "nodeSelectorTerms") -> CompiledNodeSelector:
    """The compiled form; empty terms are dropped, faulty ones kept with their fault."""
    terms = (
        compile_term(term, f"{path}[{i}]")
        for i, term in enumerate(selector.node_selector_terms)
        if not is_empty_term(term)
    )
    return CompiledNodeSelector(tuple(terms))


@lru_cache(maxsize=_REMEMBERED)
def compile_preferred(terms: tuple[PreferredSchedulingTerm, ...]) -> tuple[PreferredTerm, ...]:
    """The compiled terms; those without weight or conditions are dropped before they are looked at.

    Raises:
        SelectorError: a term cannot be parsed; the path starts with its index.
    """
    compiled = []
    for i, preferred in enumerate(terms):
        if preferred.weight == 0 or is_empty_term(preferred.preference):
            continue
        term = compile_term(preferred.preference, f"[{i}]")
        if term.fault is not None:
            raise term.fault
        compiled.append(PreferredTerm(preferred.weight, term))
    return tuple(compiled)


def is_empty_term(term: NodeSelectorTerm) -> bool:
    """Whether the term has no condition at all, and so matches nothing."""
    return not term.match_expressions and not term.match_fields


def compile_term(term: NodeSelectorTerm, path: str) -> Term:
    """The compiled form of one term; a fault is kept in it, with *path* in front."""
    try:
        labels = tuple(
            make_requirement(e.key, e.operator, e.values, f"{path}.matchExpressions[{i}]")
            for i, e in enumerate(term.match_expressions)
        )
        fields = tuple(_field_requirement(e, f"{path}.matchFields[{i}]") for i, e in enumerate(term.match_fields))
    except SelectorError as fault:
        return Term(fault=fault)
    return Term(labels, fields)


def _field_requirement(expression: SelectorRequirement, path: str) -> FieldRequirement:
    if expression.operator not in (IN, NOT_IN):
        raise SelectorError(f"{path}.operator", f'Unsupported value: "{expression.operator}"')
    if len(expression.values) != 1:
        raise SelectorError(f"{path}.values", "Required value: must have one element")
    return FieldRequirement(expression.key, expression.operator, expression.values[0])
