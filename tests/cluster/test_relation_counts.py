"""Counts of labels and of carried terms are those of the pods that are there, whatever came before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_cluster, a_node, a_pod

from berth.api.affinity import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from berth.api.pod_affinity import TermKind
from berth.api.selectors import LabelSelector, Selector, SelectorRequirement, compile_label_selector
from berth.cluster import carried_terms, podcounts
from berth.cluster.cache import CacheError, Cluster
from berth.cluster.podcounts import PodSelection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.api.pod import Pod

LONG_AGO = "2020-01-01T00:00:00Z"


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


def where(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(SelectorRequirement(key=key, operator=operator, values=values),))


SELECTORS: tuple[Selector, ...] = tuple(
    compile_label_selector(each)
    for each in (
        None,
        LabelSelector(),
        labelled(app="web"),
        labelled(app="web", tier="x"),
        where("app", "In", "web", "db"),
        where("app", "NotIn", "web"),
        where("tier", "Exists"),
        where("tier", "DoesNotExist"),
    )
)
NAMESPACES = (None, frozenset[str](), frozenset({"a"}), frozenset({"a", "b", "nowhere"}))
SELECTIONS = tuple(
    PodSelection(names, selector, terminating)
    for names in NAMESPACES
    for selector in SELECTORS
    for terminating in (False, True)
)


def a_term(selector: LabelSelector, key: str = "zone", namespace_selector: LabelSelector | None = None) -> PodAffinity:
    term = PodAffinityTerm(label_selector=selector, topology_key=key, namespace_selector=namespace_selector)
    return PodAffinity(
        required_during_scheduling_ignored_during_execution=(term, term) if key == "rack" else (term,),
        preferred_during_scheduling_ignored_during_execution=(
            WeightedPodAffinityTerm(weight=5 if key == "zone" else 9, pod_affinity_term=term),
        ),
    )


AFFINITIES = (
    None,
    Affinity(pod_affinity=a_term(labelled(app="web"))),
    Affinity(pod_anti_affinity=a_term(labelled(app="web"))),
    Affinity(pod_affinity=a_term(labelled(app="web"), "rack"), pod_anti_affinity=a_term(where("tier", "Exists"))),
    Affinity(pod_anti_affinity=a_term(LabelSelector(), "zone", labelled(team="a"))),
)
LABELS: tuple[dict[str, str], ...] = ({}, {"app": "web"}, {"app": "web", "tier": "x"}, {"app": "db", "tier": "y"})


def a_version(number: int, namespace: str, labels: int, affinity: int, *, terminating: bool, on: str) -> Pod:
    return a_pod(
        f"p{number}",
        namespace=namespace,
        labels=LABELS[labels],
        on=on,
        metadata={"deletion_timestamp": LONG_AGO if terminating else None},
        spec={"affinity": AFFINITIES[affinity]},
    )


def pods_of(cluster: Cluster) -> list[tuple[int, Pod]]:
    table = cluster.table
    return [
        (row, info.pod) for row in range(len(table.live)) if row < len(table._pods) for info in table.pods(row).values()
    ]


def counted(cluster: Cluster, selection: PodSelection) -> list[int]:
    """What the column of *selection* should hold, by going through all pods."""
    counts = [0] * len(cluster.table.live)
    for row, pod in pods_of(cluster):
        metadata = pod.metadata
        terminating = metadata.deletion_timestamp is not None
        counts[row] += (
            (selection.namespaces is None or metadata.namespace in selection.namespaces)
            and selection.selector.matches(metadata.labels)
            and (selection.terminating or not terminating)
        )
    return counts


def carried(
    cluster: Cluster, pod: Pod, its_labels: dict[str, str], weight: int | None
) -> dict[str, list[tuple[int, int]]]:
    """Topology key -> (terms, what they add) of each row, by going through all pods; anti-affinity if no *weight*."""
    sums: dict[str, list[tuple[int, int]]] = {}
    for row, other in pods_of(cluster):
        for each in cluster.info(other).affinity_terms.carried:
            adds = {
                TermKind.REQUIRED_ANTI_AFFINITY: 1 if weight is None else None,
                TermKind.REQUIRED_AFFINITY: weight or None,
                TermKind.PREFERRED_AFFINITY: None if weight is None else each.weight,
                TermKind.PREFERRED_ANTI_AFFINITY: None if weight is None else -each.weight,
            }[each.kind]
            if adds is None or not each.term.matches(pod.metadata.namespace, pod.metadata.labels, its_labels):
                continue
            by_row = sums.setdefault(each.term.topology_key, [(0, 0)] * len(cluster.table.live))
            by_row[row] = by_row[row][0] + 1, by_row[row][1] + adds
    return sums


def asked(
    cluster: Cluster, pod: Pod, its_labels: dict[str, str], weight: int | None
) -> dict[str, list[tuple[int, int]]]:
    terms, info = cluster.table.carried_terms, cluster.info(pod)
    found = terms.repelling(info, its_labels) if weight is None else terms.attracting(info, its_labels, weight)
    pairs = {
        key: list(zip(sums.many.counts.tolist(), sums.weighted.counts.tolist(), strict=True))
        for key, sums in found.items()
    }
    return {key: by_row for key, by_row in pairs.items() if any(many for many, _ in by_row)}


class Step(NamedTuple):
    """Something that happens, or a question."""

    what: str
    number: int
    namespace: str
    labels: int
    affinity: int
    terminating: bool
    node: str


steps = st.builds(
    Step,
    st.sampled_from(
        ["pod", "pod", "pod", "no pod", "what if", "node", "no node", "column", "column", "terms", "terms"]
    ),
    st.integers(0, 4),
    st.sampled_from(["a", "b"]),
    st.integers(0, len(LABELS) - 1),
    st.integers(0, len(AFFINITIES) - 1),
    st.booleans(),
    st.sampled_from(["n1", "n2", "n3"]),
)


class Story:
    """A cluster, and what has been asked about it."""

    def __init__(self) -> None:
        self.cluster = a_cluster()
        self.there: dict[int, Pod] = {}

    def take(self, step: Step) -> None:
        match step.what:
            case "pod":
                self._set(step)
            case "no pod":
                if step.number in self.there:
                    self.cluster.remove_pod(self.there.pop(step.number))
            case "what if":
                self._what_if(step)
            case "node":
                self.cluster.set_node(a_node(step.node))
            case "no node":
                if self.cluster.table.row_of(step.node) is not None:
                    self.cluster.remove_node(step.node)
            case "column":
                selection = SELECTIONS[(step.number * 97 + step.labels * 13 + step.affinity) % len(SELECTIONS)]
                assert self.cluster.table.pod_counts.column(selection).counts.tolist() == counted(
                    self.cluster, selection
                )
            case _:
                self._ask_for_terms(step)

    def _set(self, step: Step) -> None:
        before = self.there.get(step.number)
        pod = a_version(
            step.number,
            step.namespace if before is None else before.metadata.namespace,
            step.labels,
            step.affinity,
            terminating=step.terminating,
            on=step.node,
        )
        self.there[step.number] = pod
        if before is None:
            self.cluster.add_pod(pod)
        elif before.uid == pod.uid:
            self.cluster.update_pod(pod)

    def _what_if(self, step: Step) -> None:
        """A pod is taken away for the sake of a question, and given back."""
        pod = self.there.get(step.number)
        if pod is None:
            return
        table, info = self.cluster.table, self.cluster.info(pod)
        with table.restored():
            table.remove_pod(info.uid, pod.spec.node_name)
            self._ask_for_terms(step)
            table.add_pod(info, pod.spec.node_name)

    def _ask_for_terms(self, step: Step) -> None:
        pod = a_version(99, step.namespace, step.labels, 0, terminating=False, on="")
        its_labels = {"team": "a"} if step.terminating else {}
        for weight in (None, 0, 3):
            assert asked(self.cluster, pod, its_labels, weight) == carried(self.cluster, pod, its_labels, weight)


@given(story=st.lists(steps, max_size=40), few=st.booleans())
@settings(max_examples=150, deadline=None)
def test_counts_are_those_of_the_pods_that_are_there(story: list[Step], few: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if few:  # so that columns are dropped and made again all the time
            patch.setattr(podcounts, "_COLUMNS", 2)
            patch.setattr(carried_terms, "_AUDIENCES", 2)
        told = Story()
        for step in story:
            told.take(step)
            told.cluster.validate()
        for selection in SELECTIONS:
            column = told.cluster.table.pod_counts.column(selection)
            assert column.counts.tolist() == counted(told.cluster, selection)
            assert column.total == sum(counted(told.cluster, selection))


def test_columns_grow_with_the_table_and_rows_are_used_again() -> None:
    cluster = a_cluster(pods=[a_pod("first", on="n0", labels={"app": "web"}, spec={"affinity": AFFINITIES[2]})])
    selection = PodSelection(None, SELECTORS[2], terminating=True)
    column = cluster.table.pod_counts.column(selection)
    waiting = a_pod(labels={"app": "web"})
    repelling = cluster.table.carried_terms.repelling(cluster.info(waiting), {})
    cluster.remove_pod(a_pod("first", on="n0"))
    for i in range(200):
        cluster.add_pod(a_pod(f"p{i}", on=f"m{i}", labels={"app": "web"}, spec={"affinity": AFFINITIES[2]}))
    assert len(column.counts) == len(cluster.table.live) >= 200
    assert column.counts.sum() == column.total == 200
    assert column.counts.max() == repelling["zone"].many.counts.max() == 1
    assert repelling["zone"].many.total == 200
    cluster.validate()


@pytest.mark.parametrize(
    ("after", "want"),
    [
        (a_pod("p", on="n1", labels={"app": "db"}), 0),
        (a_pod("p", on="n1", labels={"app": "web"}, metadata={"deletion_timestamp": LONG_AGO}), 0),
        (a_pod("p", on="n1", labels={"app": "web", "more": "1"}), 1),
        (a_pod("p", on="n1", labels={"app": "web"}, status={"phase": "Running"}), 1),
    ],
    ids=["another label", "on its way out", "one more label", "running now"],
)
def test_what_changes_on_a_pod_in_place_is_noticed(after: Pod, want: int) -> None:
    cluster = a_cluster([a_node("n1")], [a_pod("p", on="n1", labels={"app": "web"})])
    column = cluster.table.pod_counts.column(PodSelection(frozenset({"default"}), SELECTORS[2], terminating=False))
    assert column.total == 1
    cluster.update_pod(after)
    assert column.total == want
    cluster.validate()


def test_a_placement_is_counted_when_it_is_assumed_and_once_when_it_is_confirmed() -> None:
    cluster = a_cluster([a_node("n1")])
    column = cluster.table.pod_counts.column(PodSelection(None, SELECTORS[2], terminating=False))
    pod = a_pod(labels={"app": "web"})
    cluster.assume(cluster.info(pod).on("n1"), "n1")
    assert column.total == 1
    cluster.add_pod(a_pod(labels={"app": "web"}, on="n1"))
    assert column.total == 1


def off_by_one(cluster: Cluster) -> None:
    cluster.table.pod_counts.column(PodSelection(None, SELECTORS[2], terminating=False)).counts[0] += 1


def off_in_terms(cluster: Cluster) -> None:
    cluster.table.carried_terms.repelling(cluster.info(a_pod(labels={"app": "web"})), {})["zone"].many.counts[0] += 1


def forgotten(cluster: Cluster) -> None:
    [info] = cluster.table.pods(0).values()
    cluster.table.pod_counts.remove(0, info)


def forgotten_terms(cluster: Cluster) -> None:
    [info] = cluster.table.pods(0).values()
    cluster.table.carried_terms.remove(0, info.affinity_terms.carried)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (off_by_one, "counts 1 pods, there are 1"),
        (off_in_terms, "sums of terms that select pods labelled"),
        (forgotten, "are counted on {}, but are on {0: 1}"),
        (forgotten_terms, "is counted on {}, but is carried on {0: 1}"),
    ],
    ids=["a column", "the sums of terms", "a pod", "the terms of a pod"],
)
def test_validate_notices_relation_counts_that_are_off(spoil: object, text: str) -> None:
    assert callable(spoil)
    pod = a_pod("p", on="n1", labels={"app": "web"}, spec={"affinity": AFFINITIES[2]})
    cluster = a_cluster([a_node("n1")], [pod])
    spoil(cluster)
    with pytest.raises(CacheError) as caught:
        cluster.validate()
    assert text in str(caught.value)


def test_a_pod_that_is_not_there_cannot_be_taken_away() -> None:
    cluster = a_cluster([a_node("n1"), a_node("n2")], [a_pod("p", on="n1", labels={"app": "web"})])
    for row, pod in ((1, a_pod("p", labels={"app": "web"})), (0, a_pod("p", labels={"app": "db"}))):
        with pytest.raises(KeyError):
            cluster.table.pod_counts.remove(row, cluster.info(pod))
    cluster.validate()


def test_pods_with_labels_of_their_own_are_found_by_what_they_share() -> None:
    names: Iterable[int] = range(50)
    pods = [a_pod(f"p{i}", on=f"n{i % 5}", labels={"app": "web", "pod-name": f"p{i}"}) for i in names]
    cluster = a_cluster([a_node(f"n{i}") for i in range(5)], pods)
    column = cluster.table.pod_counts.column(PodSelection(frozenset({"default"}), SELECTORS[2], terminating=False))
    assert np.array_equal(column.counts[:5], [10] * 5)
