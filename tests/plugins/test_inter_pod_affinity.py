"""InterPodAffinity: pods go near some pods, away from others, and respect what others ask of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from tests.builders import a_cluster, a_handle, a_node, a_pod, rows_of
from tests.plugins.judging import hinted, judged, pre_filtered, scored

from berth.api.affinity import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from berth.api.meta import ObjectMeta
from berth.api.selectors import LabelSelector, SelectorRequirement
from berth.api.workloads import Namespace
from berth.cluster.kinds import NAMESPACE
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, Hint, HintError, Resource
from berth.framework.plugin_args import InterPodAffinityArgs
from berth.framework.status import SKIP, SUCCESS, Code, PluginError, Status, unresolvable, unschedulable
from berth.plugins.inter_pod_affinity.filtering import AFFINITY, EXISTING_ANTI_AFFINITY
from berth.plugins.inter_pod_affinity.plugin import InterPodAffinity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster

OK = SUCCESS
FAR = unresolvable("node(s) didn't match pod affinity rules")
NEAR = unschedulable("node(s) didn't match pod anti-affinity rules")
REPELLED = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
REGION, ZONE, HOST = "region", "zone", "host"
WEB = {"app": "web"}


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


def where(*conditions: tuple[str, str, list[str]]) -> LabelSelector:
    return LabelSelector(
        match_expressions=tuple(SelectorRequirement(key=k, operator=o, values=tuple(v)) for k, o, v in conditions)
    )


FAULTY = labelled(service="{{.bad-value.}}")


def a_term(selector: LabelSelector | None = None, key: str = REGION, **namespaces: Any) -> PodAffinityTerm:
    """A term on pods labelled web, unless it says otherwise."""
    return PodAffinityTerm(label_selector=selector or labelled(app="web"), topology_key=key, **namespaces)


def half(*, required: Iterable[PodAffinityTerm] = (), liked: Iterable[tuple[int, PodAffinityTerm]] = ()) -> PodAffinity:
    return PodAffinity(
        required_during_scheduling_ignored_during_execution=tuple(required),
        preferred_during_scheduling_ignored_during_execution=tuple(
            WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term) for weight, term in liked
        ),
    )


def near(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_affinity=half(required=terms))


def apart(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_anti_affinity=half(required=terms))


def likes(*terms: PodAffinityTerm, weight: int = 5) -> Affinity:
    return Affinity(pod_affinity=half(liked=[(weight, term) for term in terms]))


def dislikes(*terms: PodAffinityTerm, weight: int = 5) -> Affinity:
    return Affinity(pod_anti_affinity=half(liked=[(weight, term) for term in terms]))


def a_waiting_pod(affinity: Affinity | None = None, labels: Mapping[str, str] | None = None, **other: Any) -> Pod:
    return a_pod("waiting", labels=labels, spec={"affinity": affinity}, **other)


def there(
    on: str, labels: Mapping[str, str] | None = None, affinity: Affinity | None = None, name: str = "", **other: Any
) -> Pod:
    return a_pod(
        name or f"there-{on}", on=on, labels=WEB if labels is None else labels, spec={"affinity": affinity}, **other
    )


PLACES = {
    "a": {REGION: "r1", ZONE: "z1", HOST: "a"},
    "b": {REGION: "r1", ZONE: "z2", HOST: "b"},
    "c": {REGION: "r2", ZONE: "z3", HOST: "c"},
}


def a_cluster_of(*pods: Pod, places: Mapping[str, dict[str, str]] = PLACES) -> Cluster:
    """Nodes a and b in one region, c in another; and three namespaces."""
    cluster = a_cluster([a_node(name, labels=labels) for name, labels in places.items()], pods)
    for name, labels in {"default": {}, "one": {"team": "1"}, "two": {"team": "2"}}.items():
        cluster.objects.put(NAMESPACE, Namespace(metadata=ObjectMeta(name=name, labels=labels)))
    return cluster


def affinity_in(cluster: Cluster, args: InterPodAffinityArgs | None = None, **options: Any) -> InterPodAffinity:
    return InterPodAffinity(args, a_handle(cluster, **options))


NO_REGION = {**PLACES, "c": {HOST: "c"}}
FILTERS: Mapping[str, tuple[Pod, Cluster, list[Status]]] = {
    "a region with the wanted pod": (a_waiting_pod(near(a_term())), a_cluster_of(there("a")), [OK, OK, FAR]),
    "a region without an unwanted value": (
        a_waiting_pod(near(a_term(where(("app", "NotIn", ["db"]))))), a_cluster_of(there("a")), [OK, OK, FAR],
    ),
    "all conditions of a term must hold": (
        a_waiting_pod(near(a_term(where(("app", "In", ["web"]), ("app", "NotIn", ["web", "x"]))))),
        a_cluster_of(there("a")), [FAR] * 3,
    ),
    "a named namespace": (
        a_waiting_pod(near(a_term(namespaces=("one",)))),
        a_cluster_of(there("a", namespace="one"), there("c", name="own")), [OK, OK, FAR],
    ),
    "a namespace selected by labels": (
        a_waiting_pod(near(a_term(namespace_selector=labelled(team="1")))),
        a_cluster_of(there("a", namespace="one"), there("c", namespace="two")), [OK, OK, FAR],
    ),
    "all namespaces, also one that is not known": (
        a_waiting_pod(near(a_term(namespace_selector=LabelSelector()))),
        a_cluster_of(there("a", namespace="unknown")), [OK, OK, FAR],
    ),
    "all terms must be met by the same pod": (
        a_waiting_pod(near(a_term(), a_term(labelled(tier="x"), ZONE))),
        a_cluster_of(there("a"), there("b", {"tier": "x"})), [FAR] * 3,
    ),
    "and in the domains of all terms": (
        a_waiting_pod(near(a_term(), a_term(labelled(tier="x"), ZONE))),
        a_cluster_of(there("a", {"app": "web", "tier": "x"})), [OK, FAR, FAR],
    ),
    "the first of a group may go anywhere with the label": (
        a_waiting_pod(near(a_term()), WEB), a_cluster_of(places=NO_REGION), [OK, OK, FAR],
    ),
    "the second may not": (a_waiting_pod(near(a_term()), WEB), a_cluster_of(there("a")), [OK, OK, FAR]),
    "one that does not want its own kind is no first": (a_waiting_pod(near(a_term())), a_cluster_of(), [FAR] * 3),
    "pods on nodes without the label do not count, so that one may be first": (
        a_waiting_pod(near(a_term()), WEB), a_cluster_of(there("c"), places=NO_REGION), [OK, OK, FAR],
    ),
    "terminating pods count": (
        a_waiting_pod(near(a_term())),
        a_cluster_of(there("a", metadata={"deletion_timestamp": "2020-01-01T00:00:00Z"})),
        [OK, OK, FAR],
    ),
    "a host without the unwanted pod": (
        a_waiting_pod(apart(a_term(key=HOST))), a_cluster_of(there("a")), [NEAR, OK, OK],
    ),
    "any of the unwanted pods": (
        a_waiting_pod(apart(a_term(), a_term(labelled(tier="x"), HOST))),
        a_cluster_of(there("a"), there("c", {"tier": "x"})),
        [NEAR, NEAR, NEAR],
    ),
    "unwanted pods do not count on nodes without the label": (
        a_waiting_pod(apart(a_term())), a_cluster_of(there("c"), places=NO_REGION), [OK, OK, OK],
    ),
    "another pod that does not want this one": (
        a_waiting_pod(labels=WEB), a_cluster_of(there("a", {}, apart(a_term()))), [REPELLED, REPELLED, OK],
    ),
    "another pod of another namespace that does not mean this one": (
        a_waiting_pod(labels=WEB), a_cluster_of(there("a", {}, apart(a_term()), namespace="one")), [OK] * 3,
    ),
    "another pod that does not want this namespace": (
        a_waiting_pod(labels=WEB, namespace="one"),
        a_cluster_of(there("a", {}, apart(a_term(namespace_selector=labelled(team="1"))))), [REPELLED, REPELLED, OK],
    ),
    "affinity is told before anti-affinity": (
        a_waiting_pod(
            Affinity(
                pod_affinity=half(required=[a_term(labelled(tier="x"))]),
                pod_anti_affinity=half(required=[a_term(key=ZONE)]),
            ),
            WEB,
        ),
        a_cluster_of(there("a", {"app": "web", "tier": "x"}), there("c", {}, apart(a_term()))), [NEAR, OK, FAR],
    ),
    "own anti-affinity is told before that of others": (
        a_waiting_pod(apart(a_term(key=HOST)), WEB), a_cluster_of(there("a", WEB, apart(a_term()))),
        [NEAR, REPELLED, OK],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "cluster", "want"), FILTERS.values(), ids=FILTERS.keys())
def test_required_terms_choose_nodes(pod: Pod, cluster: Cluster, want: list[Status]) -> None:
    assert judged(affinity_in(cluster), cluster, pod) == want


NEGATIVE = a_term(namespace_selector=where(("team", "NotIn", ["1"])))
MIXED = a_term(namespace_selector=where(("team", "Exists", []), ("team", "NotIn", ["1"])))


@pytest.mark.parametrize(
    ("minor", "term", "want"),
    [
        ("1.36", NEGATIVE, [OK, OK, OK]),
        ("1.37", NEGATIVE, [FAR, FAR, OK]),
        ("1.36", MIXED, [FAR, FAR, OK]),
        ("1.37", MIXED, [FAR, FAR, OK]),
    ],
)
def test_negative_selectors_of_namespaces_select_all_in_older_versions(
    minor: str, term: PodAffinityTerm, want: list[Status]
) -> None:
    cluster = a_cluster_of(there("a", namespace="one"), there("c", namespace="two"))
    assert judged(affinity_in(cluster, minor=minor), cluster, a_waiting_pod(near(term))) == want


def test_namespaces_are_looked_up_as_they_are_now() -> None:
    cluster = a_cluster_of(there("a", namespace="one"), there("c", namespace="two"))
    plugin, pod = affinity_in(cluster), a_waiting_pod(near(a_term(namespace_selector=labelled(team="1"))))
    assert judged(plugin, cluster, pod) == [OK, OK, FAR]
    for name, team in (("one", "2"), ("two", "1")):
        cluster.objects.put(NAMESPACE, Namespace(metadata=ObjectMeta(name=name, labels={"team": team})))
    assert judged(plugin, cluster, pod) == [FAR, FAR, OK]
    cluster.objects.remove(NAMESPACE, "two")
    assert judged(plugin, cluster, pod) == [FAR, FAR, FAR]


SITS_OUT: Mapping[str, tuple[Pod, Cluster]] = {
    "nobody has terms": (a_waiting_pod(), a_cluster_of(there("a"))),
    "another's terms do not mean the pod": (
        a_waiting_pod(labels=WEB), a_cluster_of(there("a", {}, apart(a_term(labelled(x="y"))))),
    ),
    "another's terms are on a node without the label": (
        a_waiting_pod(labels=WEB), a_cluster_of(there("c", {}, apart(a_term())), places=NO_REGION),
    ),
    "another only wants the pod near": (a_waiting_pod(labels=WEB), a_cluster_of(there("a", {}, near(a_term())))),
    "another's terms are faulty": (
        a_waiting_pod(labels=WEB), a_cluster_of(there("a", {}, apart(a_term(), a_term(FAULTY)))),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "cluster"), SITS_OUT.values(), ids=SITS_OUT.keys())
def test_the_filter_sits_out_where_no_required_term_concerns_the_pod(pod: Pod, cluster: Cluster) -> None:
    assert pre_filtered(affinity_in(cluster), cluster, pod) == (SKIP, None)


def test_faulty_terms_of_the_pod_reject_it_with_their_place() -> None:
    cluster = a_cluster_of()
    faulty = a_term(FAULTY)
    both = Affinity(pod_affinity=half(required=[faulty]), pod_anti_affinity=half(liked=[(1, faulty)]))
    one, _ = pre_filtered(affinity_in(cluster), cluster, a_waiting_pod(near(faulty)))
    two, _ = pre_filtered(affinity_in(cluster), cluster, a_waiting_pod(both))
    assert one.code is two.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert one.message.startswith("parsing pod: requiredAffinityTerms: ")
    assert 'values[0][service]: Invalid value: "{{.bad-value.}}": ' in one.message
    assert two.message.startswith("parsing pod: [requiredAffinityTerms: ")
    assert ", preferredAntiAffinityTerms: " in two.message
    plugin = affinity_in(cluster)
    with pytest.raises(PluginError, match=r'^failed to parse pod: required.*Invalid value: "{{.bad-value.}}"'):
        plugin.pre_score(CycleState(), cluster.info(a_waiting_pod(near(faulty))), rows_of(cluster))


def test_the_filter_needs_what_pre_filter_found() -> None:
    cluster = a_cluster_of()
    with pytest.raises(PluginError, match=r'^error reading "PreFilterInterPodAffinity" from cycleState'):
        affinity_in(cluster).filter(CycleState(), cluster.info(a_waiting_pod()), rows_of(cluster))


def test_a_what_if_leaves_the_state_that_was_cloned_alone() -> None:
    repelling, wanted = there("a", {}, apart(a_term())), there("c", {"tier": "x"})
    cluster = a_cluster_of(repelling, wanted)
    pod = a_waiting_pod(near(a_term(labelled(tier="x"))), {"app": "web", "tier": "x"})
    plugin, info, state, rows = affinity_in(cluster), cluster.info(pod), CycleState(), rows_of(cluster)
    assert plugin.pre_filter(state, info).status == SUCCESS
    before = plugin.filter(state, info, rows).tolist()
    assert before == [AFFINITY, AFFINITY, 0]
    twin = state.clone()
    row_a, row_c = (cluster.table.row_of(name) for name in "ac")
    assert row_a is not None
    assert row_c is not None
    plugin.remove_pod(twin, info, cluster.info(wanted), row_c)
    assert plugin.filter(twin, info, rows).tolist() == [EXISTING_ANTI_AFFINITY] * 2 + [0], (
        "the pod may be the first of its group now"
    )
    plugin.remove_pod(twin, info, cluster.info(repelling), row_a)
    assert plugin.filter(twin, info, rows).tolist() == [0, 0, 0]
    plugin.add_pod(twin, info, cluster.info(wanted), row_a)
    assert plugin.filter(twin, info, rows).tolist() == [0, 0, AFFINITY]
    plugin.add_pod(twin, info, cluster.info(there("c", {}, apart(a_term(key=HOST)))), row_c)
    assert plugin.filter(twin, info, rows).tolist() == [0, 0, AFFINITY]
    assert plugin.filter(state, info, rows).tolist() == before


# -- scores ------------------------------------------------------------------------------------------------------------

SCORES: Mapping[str, tuple[Pod, Cluster, list[int] | None]] = {
    "nobody has terms": (a_waiting_pod(), a_cluster_of(there("a")), None),
    "the region with the liked pod": (a_waiting_pod(likes(a_term())), a_cluster_of(there("a")), [100, 100, 0]),
    "the region with more of them": (
        a_waiting_pod(likes(a_term())), a_cluster_of(there("a"), there("c"), there("c", name="more")), [0, 0, 100],
    ),
    "one liked pod on each side": (a_waiting_pod(likes(a_term())), a_cluster_of(there("a"), there("c")), [0, 0, 0]),
    "the host without the disliked pod": (
        a_waiting_pod(dislikes(a_term(key=HOST))), a_cluster_of(there("a")), [0, 100, 100],
    ),
    "weights add up": (
        a_waiting_pod(
            Affinity(
                pod_affinity=half(liked=[(5, a_term()), (10, a_term(key=HOST))]),
                pod_anti_affinity=half(liked=[(5, a_term(labelled(app="db"), HOST))]),
            )
        ),
        a_cluster_of(there("a"), there("b", {"app": "db"})), [100, 0, 0],
    ),
    "another likes the pod": (a_waiting_pod(labels=WEB), a_cluster_of(there("c", {}, likes(a_term()))), [0, 0, 100]),
    "another dislikes the pod": (
        a_waiting_pod(labels=WEB), a_cluster_of(there("c", {}, dislikes(a_term()))), [100, 100, 0],
    ),
    "another needs the pod": (a_waiting_pod(labels=WEB), a_cluster_of(there("c", {}, near(a_term()))), [0, 0, 100]),
    "another may not be near the pod": (a_waiting_pod(labels=WEB), a_cluster_of(there("c", {}, apart(a_term()))), None),
    "another likes the pod's namespace": (
        a_waiting_pod(labels=WEB, namespace="one"),
        a_cluster_of(there("c", {}, likes(a_term(namespace_selector=labelled(team="1"))))), [0, 0, 100],
    ),
    "another likes another namespace": (
        a_waiting_pod(labels=WEB), a_cluster_of(there("c", {}, likes(a_term(namespaces=("one",))))), None,
    ),
    "likes and dislikes that cancel out": (
        a_waiting_pod(labels=WEB),
        a_cluster_of(there("c", {}, likes(a_term())), there("c", {}, dislikes(a_term()), "more")),
        [0, 0, 0],
    ),
    "the liked pod is on a node without the label": (
        a_waiting_pod(likes(a_term())), a_cluster_of(there("c"), places=NO_REGION), None,
    ),
    "the liked pod is not there": (a_waiting_pod(likes(a_term())), a_cluster_of(there("a", {})), None),
    "the least dislikes": (
        a_waiting_pod(dislikes(a_term(key=HOST))),
        a_cluster_of(there("a"), there("b"), there("b", name="b2"),
            there("c"), there("c", name="c2"), there("c", name="c3")),
        [100, 50, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "cluster", "want"), SCORES.values(), ids=SCORES.keys())
def test_preferred_terms_rank_nodes(pod: Pod, cluster: Cluster, want: list[int] | None) -> None:
    assert scored(affinity_in(cluster), cluster, pod) == want


def test_the_weight_of_required_terms_of_others_is_an_argument() -> None:
    pods = there("a", {}, near(a_term(key=HOST))), there("c", {}, likes(a_term(key=HOST), weight=10))
    cluster, pod = a_cluster_of(*pods), a_waiting_pod(labels=WEB)
    for weight, want in ((100, [100, 0, 10]), (10, [100, 0, 100]), (1, [10, 0, 100]), (0, [0, 0, 100])):
        args = InterPodAffinityArgs(hard_pod_affinity_weight=weight)
        assert scored(affinity_in(cluster, args), cluster, pod) == want


def test_preferences_of_others_may_be_ignored_for_pods_without_their_own() -> None:
    cluster = a_cluster_of(there("c", WEB, likes(a_term())))
    args = InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)
    assert scored(affinity_in(cluster, args), cluster, a_waiting_pod(labels=WEB)) is None
    own = a_waiting_pod(likes(a_term(labelled(none="there"))), WEB)
    assert scored(affinity_in(cluster, args), cluster, own) == [0, 0, 100]


# -- hints -------------------------------------------------------------------------------------------------------------

ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
RELABEL = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
OWN = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)
NODE = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)

WANTING = a_waiting_pod(near(a_term()), WEB)
SHUNNING = a_waiting_pod(apart(a_term()), WEB)
WANTING_BOTH = a_waiting_pod(near(a_term(), a_term(labelled(tier="x"))))
SHUNNING_BOTH = a_waiting_pod(apart(a_term(), a_term(labelled(tier="x"))))
IS, IS_NOT, IS_BOTH = there("a"), there("a", {}), there("a", {"app": "web", "tier": "x"})
IN_REGION, ELSEWHERE, NOWHERE = a_node("n", labels={REGION: "r"}), a_node("n", labels={REGION: "s"}), a_node("n")

HINTS: Mapping[str, tuple[Pod, ClusterEvent, Any, Any, Hint]] = {
    "a wanted pod came": (WANTING, ADD, None, IS, Hint.QUEUE),
    "a wanted pod without a node came": (WANTING, ADD, None, a_pod("x", labels=WEB), Hint.SKIP),
    "a wanted pod that was promised a node came": (
        WANTING, ADD, None, a_pod("x", labels=WEB, nominated="a"), Hint.QUEUE,
    ),
    "another pod came": (WANTING, ADD, None, IS_NOT, Hint.SKIP),
    "an unwanted pod came": (SHUNNING, ADD, None, IS, Hint.SKIP),
    "a pod came that meets one of two terms": (WANTING_BOTH, ADD, None, IS, Hint.SKIP),
    "a pod came that meets both": (WANTING_BOTH, ADD, None, IS_BOTH, Hint.QUEUE),
    "a pod became wanted": (WANTING, RELABEL, IS_NOT, IS, Hint.QUEUE),
    "a pod is wanted no more": (WANTING, RELABEL, IS, IS_NOT, Hint.SKIP),
    "a pod is wanted still": (WANTING, RELABEL, IS, IS_BOTH, Hint.SKIP),
    "a pod came to meet the second term": (WANTING_BOTH, RELABEL, IS, IS_BOTH, Hint.QUEUE),
    "a pod is unwanted no more": (SHUNNING, RELABEL, IS, IS_NOT, Hint.QUEUE),
    "a pod is unwanted still": (SHUNNING, RELABEL, IS, IS_BOTH, Hint.SKIP),
    "a pod became wanted as it got a node": (WANTING, RELABEL, a_pod("x"), IS, Hint.SKIP),
    "a pod became unwanted": (SHUNNING, RELABEL, IS_NOT, IS, Hint.SKIP),
    "the pod itself changed": (WANTING, OWN, WANTING, replace(WANTING, metadata=WANTING.metadata), Hint.QUEUE),
    "an unwanted pod went": (SHUNNING, DELETE, IS, None, Hint.QUEUE),
    "a wanted pod went": (WANTING, DELETE, IS, None, Hint.SKIP),
    "a pod went that did not want this one": (WANTING, DELETE, there("a", {}, apart(a_term())), None, Hint.QUEUE),
    "a pod went that did not want others": (
        WANTING, DELETE, there("a", {}, apart(a_term(labelled(x="y")))), None, Hint.SKIP,
    ),
    "a node of some region came": (WANTING, NODE_ADD, None, IN_REGION, Hint.QUEUE),
    "a node without a region came": (WANTING, NODE_ADD, None, NOWHERE, Hint.SKIP),
    "any node came, for one that shuns": (SHUNNING, NODE_ADD, None, NOWHERE, Hint.QUEUE),
    "any node came, for one without terms": (a_waiting_pod(), NODE_ADD, None, IN_REGION, Hint.SKIP),
    "a node came into a region": (WANTING, NODE, NOWHERE, IN_REGION, Hint.QUEUE),
    "a node moved": (WANTING, NODE, IN_REGION, ELSEWHERE, Hint.QUEUE),
    "a node left its region": (WANTING, NODE, IN_REGION, NOWHERE, Hint.SKIP),
    "a node came into a region, for one that shuns": (SHUNNING, NODE, NOWHERE, IN_REGION, Hint.SKIP),
    "a node moved, for one that shuns": (SHUNNING, NODE, IN_REGION, ELSEWHERE, Hint.QUEUE),
    "a node left its region, for one that shuns": (SHUNNING, NODE, IN_REGION, NOWHERE, Hint.QUEUE),
    "a node changed in other ways, for one that shuns": (
        SHUNNING, NODE, IN_REGION, a_node("n", labels={REGION: "r", "x": ""}), Hint.SKIP,
    ),
    "a node changed in other ways": (WANTING, NODE, IN_REGION, a_node("n", labels={REGION: "r", "x": ""}), Hint.SKIP),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "event", "old", "new", "want"), HINTS.values(), ids=HINTS.keys())
def test_what_may_help_a_rejected_pod(pod: Pod, event: ClusterEvent, old: Any, new: Any, want: Hint) -> None:
    cluster = a_cluster()
    assert hinted(affinity_in(cluster), event, cluster, pod, old, new) is want


def test_the_pod_itself_is_told_from_other_waiting_pods_where_events_are() -> None:
    for minor, event, want in (
        ("1.36", ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL), Hint.QUEUE),
        ("1.37", OWN, Hint.QUEUE),
        ("1.37", ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL), None),
    ):
        cluster = a_cluster()
        assert hinted(affinity_in(cluster, minor=minor), event, cluster, WANTING, WANTING, WANTING) is want


@pytest.mark.parametrize(("minor", "want"), [("1.36", Hint.SKIP), ("1.37", Hint.QUEUE)])
def test_a_pod_in_the_way_of_one_term_is_enough_in_newer_versions(minor: str, want: Hint) -> None:
    cluster = a_cluster()
    plugin = affinity_in(cluster, minor=minor)
    for event, old, new in ((DELETE, IS, None), (RELABEL, IS, IS_NOT)):
        assert hinted(plugin, event, cluster, SHUNNING_BOTH, old, new) is want
        assert hinted(plugin, event, cluster, SHUNNING_BOTH, IS_BOTH, new) is Hint.QUEUE


def test_a_hint_about_faulty_terms_cannot_tell() -> None:
    cluster = a_cluster()
    for pod, old, new in (
        (a_waiting_pod(near(a_term(FAULTY))), None, IS),
        (a_waiting_pod(apart(a_term(FAULTY))), None, IS),
        (WANTING, there("a", {}, apart(a_term(FAULTY))), None),
    ):
        with pytest.raises(HintError, match=r"required(Anti)?AffinityTerms: .*Invalid value"):
            hinted(affinity_in(cluster), ADD if old is None else DELETE, cluster, pod, old, new)


def test_pods_that_are_judged_apart_are_signed_apart() -> None:
    cluster = a_cluster()
    plugin = affinity_in(cluster)
    pods = [a_waiting_pod(), a_waiting_pod(labels=WEB), a_waiting_pod(namespace="one"), WANTING, SHUNNING]
    assert len({plugin.sign(cluster.info(pod)) for pod in pods}) == len(pods)
