"""Terms of pod affinity: which pods they select, and what becomes of faulty ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from berth.api.affinity import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from berth.api.pod_affinity import NO_TERMS, TermKind, matches_all, matches_any, pod_affinity_terms
from berth.api.selectors import LabelSelector, SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Mapping

WEB = LabelSelector(match_labels={"app": "web"})
FAULTY = LabelSelector(match_labels={"app": "{{.bad-value.}}"})
TEAM = LabelSelector(match_labels={"team": "a"})
NOT_TEAM = LabelSelector(match_expressions=(SelectorRequirement(key="team", operator="NotIn", values=("a",)),))


def a_term(
    selector: LabelSelector | None = WEB,
    *,
    namespaces: tuple[str, ...] = (),
    namespace_selector: LabelSelector | None = None,
    key: str = "zone",
) -> PodAffinityTerm:
    return PodAffinityTerm(
        label_selector=selector, namespaces=namespaces, namespace_selector=namespace_selector, topology_key=key
    )


def an_affinity(*required: PodAffinityTerm, preferred: tuple[PodAffinityTerm, ...] = ()) -> PodAffinity:
    weighted = tuple(WeightedPodAffinityTerm(weight=7, pod_affinity_term=each) for each in preferred)
    return PodAffinity(
        required_during_scheduling_ignored_during_execution=required,
        preferred_during_scheduling_ignored_during_execution=weighted,
    )


# Term of a pod of "home"; namespace, labels and labels of the namespace of another pod; whether it is selected.
SELECTS: Mapping[str, tuple[PodAffinityTerm, str, dict[str, str], dict[str, str], bool]] = {
    "a term without namespaces selects in its own": (a_term(), "home", {"app": "web"}, {}, True),
    "a term without namespaces selects in no other": (a_term(), "away", {"app": "web"}, {"team": "a"}, False),
    "other labels are not selected": (a_term(), "home", {"app": "db"}, {}, False),
    "an absent selector selects nothing": (a_term(None), "home", {"app": "web"}, {}, False),
    "an empty selector selects everything": (a_term(LabelSelector()), "home", {}, {}, True),
    "named namespaces are selected": (a_term(namespaces=("away",)), "away", {"app": "web"}, {}, True),
    "with named ones the own is not": (a_term(namespaces=("away",)), "home", {"app": "web"}, {}, False),
    "a namespace is selected by its labels": (
        a_term(namespace_selector=TEAM), "away", {"app": "web"}, {"team": "a"}, True,
    ),
    "with a selector of namespaces the own is not": (
        a_term(namespace_selector=TEAM), "home", {"app": "web"}, {}, False,
    ),
    "names and labels of namespaces add up": (
        a_term(namespaces=("x",), namespace_selector=TEAM), "x", {"app": "web"}, {}, True,
    ),
    "an empty selector of namespaces selects all": (
        a_term(namespace_selector=LabelSelector()), "away", {"app": "web"}, {}, True,
    ),
    "a negative selector of namespaces selects those without the label": (
        a_term(namespace_selector=NOT_TEAM), "away", {"app": "web"}, {"other": "b"}, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("term", "namespace", "labels", "its_labels", "want"), SELECTS.values(), ids=SELECTS.keys())
def test_a_term_selects_pods(
    term: PodAffinityTerm, namespace: str, labels: dict[str, str], its_labels: dict[str, str], want: bool
) -> None:
    [compiled] = pod_affinity_terms(Affinity(pod_affinity=an_affinity(term)), "home").required
    assert compiled.matches(namespace, labels, its_labels) is want


def test_each_list_is_compiled_and_all_are_carried() -> None:
    affinity = Affinity(
        pod_affinity=an_affinity(a_term(key="a"), preferred=(a_term(key="b"),)),
        pod_anti_affinity=an_affinity(a_term(key="c"), preferred=(a_term(key="d"),)),
    )
    terms = pod_affinity_terms(affinity, "home")
    assert [(each.kind, each.term.topology_key, each.weight) for each in terms.carried] == [
        (TermKind.REQUIRED_AFFINITY, "a", 1),
        (TermKind.REQUIRED_ANTI_AFFINITY, "c", 1),
        (TermKind.PREFERRED_AFFINITY, "b", 7),
        (TermKind.PREFERRED_ANTI_AFFINITY, "d", 7),
    ]
    assert [term.topology_key for term in (*terms.required, *terms.required_anti)] == ["a", "c"]
    assert [(weight, term.topology_key) for weight, term in (*terms.preferred, *terms.preferred_anti)] == [
        (7, "b"),
        (7, "d"),
    ]
    assert terms.faults == ()


def test_pods_without_pod_affinity_have_no_terms() -> None:
    assert pod_affinity_terms(None, "home") is NO_TERMS
    assert pod_affinity_terms(Affinity(), "home") is NO_TERMS


def test_equal_manifests_share_their_terms_and_other_namespaces_do_not() -> None:
    affinity = Affinity(pod_anti_affinity=an_affinity(a_term()))
    again = msgspec.json.decode(msgspec.json.encode(affinity), type=Affinity)
    terms = pod_affinity_terms(affinity, "home")
    assert pod_affinity_terms(again, "home") is terms
    assert pod_affinity_terms(again, "away").carried != terms.carried
    assert hash(terms.carried[0]) == hash(pod_affinity_terms(again, "home").carried[0])


@pytest.mark.parametrize("faulty", [a_term(FAULTY), a_term(namespace_selector=FAULTY)], ids=["labels", "namespaces"])
def test_a_faulty_term_empties_its_list_and_no_other(faulty: PodAffinityTerm) -> None:
    affinity = Affinity(
        pod_affinity=an_affinity(a_term(), faulty, preferred=(a_term(),)), pod_anti_affinity=an_affinity(a_term())
    )
    terms = pod_affinity_terms(affinity, "home")
    [(kind, fault)] = terms.faults
    assert kind.value == "requiredAffinityTerms"
    assert 'values[0][app]: Invalid value: "{{.bad-value.}}"' in str(fault)
    assert (terms.required, len(terms.required_anti), len(terms.preferred)) == ((), 1, 1)


def test_all_and_any_of_several_terms() -> None:
    terms = pod_affinity_terms(
        Affinity(pod_affinity=an_affinity(a_term(), a_term(LabelSelector(match_labels={"tier": "x"})))), "home"
    ).required
    web, both = {"app": "web"}, {"app": "web", "tier": "x"}
    assert [matches_all(terms, "home", labels) for labels in (web, both)] == [False, True]
    assert [matches_any(terms, "home", labels) for labels in ({}, web, both)] == [False, True, True]
    assert not matches_all((), "home", both)
    assert not matches_any((), "home", both)
