"""PodTopologySpread: pods alike are spread evenly over the domains of a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from tests.builders import a_cluster, a_handle, a_node, a_pod, a_term, an_affinity, rows_of
from tests.plugins.judging import judged, pre_filtered, scored
from tests.plugins.spread_builders import BAR, FAULTY, FOO, HOSTNAME, RACK, ZONE, a_waiting_pod, evenly, some

from berth.api.meta import ObjectMeta, OwnerReference
from berth.api.node import Taint
from berth.api.pod import Toleration, TopologySpreadConstraint
from berth.api.selectors import LabelSelector
from berth.api.workloads import (
    PlainSelectorSpec,
    ReplicaSet,
    ReplicationController,
    SelectorSpec,
    Service,
    StatefulSet,
)
from berth.cluster.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET
from berth.framework.cycle_state import CycleState, StateNotFoundError
from berth.framework.plugin_args import PodTopologySpreadArgs
from berth.framework.status import SKIP, SUCCESS, Code, PluginError, Status, unresolvable, unschedulable
from berth.plugins.pod_topology_spread.plugin import PodTopologySpread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster

UNEVEN = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
OK, U, UU = SUCCESS, UNEVEN, NO_LABEL
ZONES = {"a": "z1", "b": "z1", "x": "z2", "y": "z2"}


def a_cluster_of(
    pods: Iterable[Pod] = (), *, without: Mapping[str, str] | None = None, zones: Mapping[str, str] = ZONES
) -> Cluster:
    """Nodes a and b in one zone, x and y in another; *without* names a label that a node lacks."""
    lacking = without or {}
    labels = {name: {ZONE: zone, HOSTNAME: name} for name, zone in zones.items()}
    return a_cluster(
        [a_node(name, labels={k: v for k, v in labels[name].items() if lacking.get(name) != k}) for name in zones], pods
    )


def per_node(*numbers: int, labels: Sequence[str] = ("foo",)) -> list[Pod]:
    """So many pods on a, b, x and y."""
    return [pod for name, number in zip(ZONES, numbers, strict=True) for pod in some(number, name, labels)]


def spreading(cluster: Cluster, args: PodTopologySpreadArgs | None = None, **options: Any) -> PodTopologySpread:
    return PodTopologySpread(args, a_handle(cluster, **options))


ONLY_A_AND_Y = an_affinity([a_term((HOSTNAME, "In", ["a", "y"]))])
NOT_B = an_affinity([a_term((HOSTNAME, "NotIn", ["b"]))])
GONE = {"deletion_timestamp": "2020-01-01T00:00:00Z"}

FILTERS: Mapping[str, tuple[Pod, Cluster, list[Status]]] = {
    "where no pods run, all nodes are as good": (a_waiting_pod(evenly()), a_cluster_of(), [OK] * 4),
    "a pod that does not count itself may go anywhere while none run": (
        a_waiting_pod(evenly(selector=BAR)), a_cluster_of(), [OK] * 4,
    ),
    "pods of other namespaces do not count": (
        a_waiting_pod(evenly()),
        a_cluster_of([*some(3, "a", namespace="other"), *some(1, "x"), *some(1, "y")]),
        [OK, OK, U, U],
    ),
    "an absent selector counts nobody": (
        a_waiting_pod(evenly(selector=None)), a_cluster_of(per_node(2, 1, 0, 0)), [OK] * 4,
    ),
    "an empty selector counts the pod itself only": (
        a_waiting_pod(evenly(selector=LabelSelector())), a_cluster_of(per_node(2, 1, 0, 0)), [OK] * 4,
    ),
    "equal zones take one more": (a_waiting_pod(evenly()), a_cluster_of(per_node(2, 1, 0, 3)), [OK] * 4),
    "a node without the label is out, and its pods do not count": (
        a_waiting_pod(evenly()), a_cluster_of(per_node(2, 1, 0, 3), without={"b": ZONE}), [OK, UU, U, U],
    ),
    "a label that no node has leaves no node": (
        a_waiting_pod(evenly(RACK)), a_cluster_of(per_node(2, 1, 0, 3)), [UU] * 4,
    ),
    "host names make every node a domain": (
        a_waiting_pod(evenly(HOSTNAME)), a_cluster_of(per_node(2, 1, 0, 3)), [U, U, OK, U],
    ),
    "a larger skew lets more nodes in": (
        a_waiting_pod(evenly(HOSTNAME, 2)), a_cluster_of(per_node(2, 1, 0, 3)), [U, OK, OK, U],
    ),
    "a pod that does not count itself gets one more": (
        a_waiting_pod(evenly(HOSTNAME), labels={"bar": ""}), a_cluster_of(per_node(2, 1, 0, 3)), [U, OK, OK, U],
    ),
    "nodes that the pod's affinity rules out make no domain": (
        a_waiting_pod(evenly(HOSTNAME), spec={"affinity": ONLY_A_AND_Y}), a_cluster_of(per_node(2, 1, 0, 3)),
        [OK, OK, OK, U],
    ),
    "nor do their pods count in their zone": (
        a_waiting_pod(evenly(), spec={"affinity": NOT_B}), a_cluster_of(per_node(0, 2, 0, 1)), [OK, OK, U, U],
    ),
    "terminating pods do not count": (
        a_waiting_pod(evenly(HOSTNAME)), a_cluster_of([*some(1, "a", metadata=GONE), *per_node(0, 1, 0, 1)]),
        [OK, U, OK, U],
    ),
    "with too few domains the emptiest counts as empty": (
        a_waiting_pod(evenly(HOSTNAME, 2, min_domains=4)),
        a_cluster_of([*some(2, "a"), *some(2, "b"), *some(1, "x")], zones={"a": "z1", "b": "z1", "x": "z2"}),
        [U, U, OK],
    ),
    "with enough domains it does not": (
        a_waiting_pod(evenly(HOSTNAME, 2, min_domains=2)),
        a_cluster_of([*some(2, "a"), *some(2, "b"), *some(1, "x")], zones={"a": "z1", "b": "z1", "x": "z2"}),
        [OK, OK, OK],
    ),
    "both constraints must hold": (
        a_waiting_pod(evenly(), evenly(HOSTNAME)), a_cluster_of(per_node(2, 1, 0, 3)), [U, U, OK, U],
    ),
    "which may leave no node": (
        a_waiting_pod(evenly(), evenly(HOSTNAME)), a_cluster_of(per_node(2, 1, 0, 4)), [U, U, U, U],
    ),
    "two selectors count apart": (
        a_waiting_pod(evenly(), evenly(HOSTNAME, selector=BAR), labels={"foo": "", "bar": ""}),
        a_cluster_of([*per_node(1, 0, 0, 0), *per_node(1, 0, 0, 1, labels=["bar"])]),
        [U, U, OK, U],
    ),
    "the first constraint that is broken is told": (
        a_waiting_pod(evenly(), evenly(HOSTNAME)), a_cluster_of(per_node(0, 0, 5, 2), without={"x": HOSTNAME}),
        [OK, OK, U, U],
    ),
    "a node that lacks one label counts for neither constraint": (
        a_waiting_pod(evenly(), evenly(HOSTNAME)), a_cluster_of(per_node(1, 0, 0, 0), without={"x": HOSTNAME}),
        [U, U, UU, OK],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "cluster", "want"), FILTERS.values(), ids=FILTERS.keys())
def test_nodes_in_fuller_domains_are_rejected(pod: Pod, cluster: Cluster, want: list[Status]) -> None:
    assert judged(spreading(cluster), cluster, pod) == want


POLICIES: Mapping[str, tuple[TopologySpreadConstraint, list[Status]]] = {
    "by default tainted nodes are domains": (evenly(HOSTNAME), [U, U, OK]),
    "unless taints are honored": (evenly(HOSTNAME, node_taints_policy="Honor"), [OK, OK, OK]),
    "nodes that the affinity rules out are domains if it is ignored": (
        evenly(HOSTNAME, node_taints_policy="Honor", node_affinity_policy="Ignore"), [U, U, OK],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("constraint", "want"), POLICIES.values(), ids=POLICIES.keys())
def test_policies_say_which_nodes_are_domains(constraint: TopologySpreadConstraint, want: list[Status]) -> None:
    taint = Taint(key="team", effect="NoSchedule")
    soft = Taint(key="other", effect="PreferNoSchedule")
    nodes = [
        a_node("a", labels={HOSTNAME: "a"}, taints=[soft]),
        a_node("b", labels={HOSTNAME: "b"}),
        a_node("c", labels={HOSTNAME: "c"}, taints=[taint]),
        a_node("d", labels={HOSTNAME: "d", "out": ""}),
    ]
    cluster = a_cluster(nodes, [*some(1, "a"), *some(1, "b")])
    pod = a_waiting_pod(constraint, spec={"affinity": an_affinity([a_term(("out", "DoesNotExist", []))])})
    assert judged(spreading(cluster), cluster, pod, ["a", "b", "c"]) == want
    tolerant = replace(pod, spec=replace(pod.spec, tolerations=(Toleration(key="team", operator="Exists"),)))
    assert judged(spreading(cluster), cluster, tolerant, ["a", "b", "c"]) == [U, U, OK]


def test_match_label_keys_count_only_pods_of_the_same_value() -> None:
    cluster = a_cluster_of([a_pod("old", on="a", labels={"foo": "", "version": "1"})])
    constraint = evenly(match_label_keys=("version", "absent"))
    for version, want in (("1", [U, U, OK, OK]), ("2", [OK] * 4)):
        pod = a_waiting_pod(constraint, labels={"foo": "", "version": version})
        assert judged(spreading(cluster), cluster, pod) == want
    ignoring = spreading(cluster, gates={"MatchLabelKeysInPodTopologySpread": False})
    assert judged(ignoring, cluster, a_waiting_pod(constraint, labels={"foo": "", "version": "2"})) == [U, U, OK, OK]


def test_without_hard_constraints_the_filter_sits_out() -> None:
    cluster = a_cluster_of()
    for pod in (a_waiting_pod(), a_waiting_pod(evenly(soft=True))):
        assert pre_filtered(spreading(cluster), cluster, pod) == (SKIP, None)


def test_the_filter_needs_what_pre_filter_found() -> None:
    cluster = a_cluster_of()
    with pytest.raises(StateNotFoundError, match='reading "PreFilterPodTopologySpread" from cycleState'):
        spreading(cluster).filter(CycleState(), cluster.info(a_waiting_pod(evenly())), rows_of(cluster))


def test_a_faulty_selector_breaks_the_attempt_off_with_its_place() -> None:
    cluster = a_cluster_of()
    plugin = spreading(cluster)
    hard, soft = (cluster.info(a_waiting_pod(evenly(selector=FAULTY, soft=soft))) for soft in (False, True))
    with pytest.raises(
        PluginError, match=r"^get constraints from pod: obtaining pod's hard topology spread constr.*bad"
    ):
        plugin.pre_filter(CycleState(), hard)
    with pytest.raises(
        PluginError, match=r"^calculating preScoreState: obtaining pod's soft topology spread const.*bad"
    ):
        plugin.pre_score(CycleState(), soft, rows_of(cluster))


def test_a_what_if_leaves_the_state_that_was_cloned_alone() -> None:
    cluster = a_cluster_of(per_node(1, 0, 0, 0))
    plugin, info, state = spreading(cluster), cluster.info(a_waiting_pod(evenly())), CycleState()
    plugin.pre_filter(state, info)
    first = plugin.filter(state, info, rows_of(cluster)).tolist()
    twin = state.clone()
    [there] = some(1, "a")
    row = cluster.table.row_of("a")
    assert row is not None
    assert plugin.remove_pod(twin, info, cluster.info(there), row) == SUCCESS
    assert plugin.filter(twin, info, rows_of(cluster)).tolist() == [0, 0, 0, 0]
    assert plugin.add_pod(twin, info, cluster.info(there), row) == SUCCESS
    assert plugin.filter(twin, info, rows_of(cluster)).tolist() == first == [1, 1, 0, 0]
    stranger = a_pod("stranger", namespace="other", labels={"foo": ""})
    plugin.add_pod(twin, info, cluster.info(stranger), row)
    assert plugin.filter(twin, info, rows_of(cluster)).tolist() == first
    assert plugin.filter(state, info, rows_of(cluster)).tolist() == first


# -- scores ------------------------------------------------------------------------------------------------------------

SCORES: Mapping[str, tuple[Pod, Cluster, list[str], list[int]]] = {
    "where no pods run, all are best": (
        a_waiting_pod(evenly(HOSTNAME, soft=True)), a_cluster_of(), ["a", "b"], [100, 100],
    ),
    "a single candidate is best": (
        a_waiting_pod(evenly(HOSTNAME, soft=True)), a_cluster_of(per_node(2, 0, 0, 0)), ["a"], [100],
    ),
    "fewer pods score more": (
        a_waiting_pod(evenly(HOSTNAME, soft=True)), a_cluster_of(per_node(2, 1, 0, 3)), list("abxy"), [20, 60, 100, 0],
    ),
    "a larger skew flattens": (
        a_waiting_pod(evenly(HOSTNAME, 2, soft=True)), a_cluster_of(per_node(2, 1, 0, 3)), list("abxy"),
        [33, 66, 100, 16],
    ),
    "an absent selector counts nobody": (
        a_waiting_pod(evenly(HOSTNAME, 2, None, soft=True)), a_cluster_of(per_node(2, 1, 0, 3)), list("abxy"),
        [100] * 4,
    ),
    "an empty one neither": (
        a_waiting_pod(evenly(ZONE, 2, LabelSelector(), soft=True), evenly(HOSTNAME, 2, LabelSelector(), soft=True)),
        a_cluster_of(per_node(2, 1, 0, 3)), list("abxy"), [100] * 4,
    ),
    "a node without the label is worst": (
        a_waiting_pod(evenly(HOSTNAME, soft=True)), a_cluster_of(per_node(4, 2, 1, 3), without={"b": HOSTNAME}),
        list("abx"), [16, 0, 100],
    ),
    "pods on nodes that do not fit count in their zone": (
        a_waiting_pod(evenly(soft=True)), a_cluster_of(per_node(4, 2, 1, 3)), list("abx"), [75, 75, 100],
    ),
    "minDomains and hard constraints say nothing here": (
        a_waiting_pod(evenly(HOSTNAME, 2, soft=True, min_domains=10), evenly(RACK)), a_cluster_of(per_node(2, 2, 1, 0)),
        list("abx"), [75, 75, 100],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "cluster", "names", "want"), SCORES.values(), ids=SCORES.keys())
def test_nodes_in_emptier_domains_score_more(pod: Pod, cluster: Cluster, names: list[str], want: list[int]) -> None:
    assert scored(spreading(cluster), cluster, pod, names) == want


def with_service(cluster: Cluster, *selectors: dict[str, str] | None, namespace: str = "default") -> Cluster:
    for i, selector in enumerate(selectors):
        metadata = ObjectMeta(name=f"s{i}", namespace=namespace)
        cluster.objects.put(SERVICE, Service(metadata=metadata, spec=PlainSelectorSpec(selector=selector)))
    return cluster


def test_pods_of_a_service_are_spread_by_default() -> None:
    cluster = with_service(a_cluster_of(per_node(4, 3, 2, 1), without=dict.fromkeys(ZONES, ZONE)), {"foo": ""})
    assert scored(spreading(cluster), cluster, a_waiting_pod()) == [44, 66, 77, 100]


def test_the_built_in_constraints_overlook_missing_labels_and_given_ones_do_not() -> None:
    cluster = with_service(a_cluster_of(per_node(1, 0, 0, 0), without={"y": ZONE}), {"foo": ""})
    by_system = scored(spreading(cluster), cluster, a_waiting_pod())
    assert by_system is not None
    assert by_system[3] > 0
    given = PodTopologySpreadArgs(defaulting_type="List", default_constraints=(evenly(selector=None, soft=True),))
    assert scored(spreading(cluster, given), cluster, a_waiting_pod()) == [0, 0, 100, 0]


def test_no_zone_and_a_zone_without_a_name_are_one_domain() -> None:
    nodes = [a_node("none"), a_node("empty", labels={ZONE: ""}), a_node("named", labels={ZONE: "z"})]
    cluster = with_service(a_cluster(nodes, some(3, "none")), {"foo": ""})
    assert scored(spreading(cluster), cluster, a_waiting_pod()) == [100, 0, 50]


def test_given_hard_constraints_reject() -> None:
    cluster = with_service(a_cluster_of(per_node(1, 0, 0, 0)), {"foo": ""})
    given = PodTopologySpreadArgs(defaulting_type="List", default_constraints=(evenly(selector=None),))
    assert judged(spreading(cluster, given), cluster, a_waiting_pod()) == [U, U, OK, OK]
    assert pre_filtered(spreading(cluster, given), cluster, a_waiting_pod(evenly(soft=True))) == (SKIP, None)
    nothing = PodTopologySpreadArgs(defaulting_type="List")
    assert spreading(cluster, nothing).kinds() == ()
    assert scored(spreading(cluster, nothing), cluster, a_waiting_pod()) is None


def owned(kind: str, api_version: str = "apps/v1", *, controller: bool = True) -> dict[str, Any]:
    owner = OwnerReference(api_version=api_version, kind=kind, name="owner", controller=controller)
    return {"owner_references": (owner,)}


OWNERS: Mapping[str, tuple[dict[str, Any], bool]] = {
    "a replica set": (owned("ReplicaSet"), True),
    "a stateful set": (owned("StatefulSet"), True),
    "a replication controller": (owned("ReplicationController", "v1"), True),
    "an owner that is no controller": (owned("ReplicaSet", controller=False), False),
    "a set of another group": (owned("ReplicaSet", "extensions/v1beta1"), False),
    "another kind": (owned("Job", "batch/v1"), False),
    "nobody": ({}, False),
}


@pytest.mark.parametrize(("metadata", "want"), OWNERS.values(), ids=OWNERS.keys())
def test_pods_of_an_owner_are_spread_by_default(metadata: dict[str, Any], want: bool) -> None:
    cluster = a_cluster_of(per_node(2, 0, 0, 0))
    named, by_labels = ObjectMeta(name="owner", namespace="default"), SelectorSpec(selector=FOO)
    plain = PlainSelectorSpec(selector={"foo": ""})
    cluster.objects.put(REPLICA_SET, ReplicaSet(metadata=named, spec=by_labels))
    cluster.objects.put(STATEFUL_SET, StatefulSet(metadata=named, spec=by_labels))
    cluster.objects.put(REPLICATION_CONTROLLER, ReplicationController(metadata=named, spec=plain))
    scores = scored(spreading(cluster), cluster, a_waiting_pod(metadata=metadata))
    assert (scores is not None) is want
    if scores is not None:
        assert scores[0] < scores[1] < scores[2]


def test_an_owner_that_is_not_there_or_selects_nonsense_is_overlooked() -> None:
    cluster = a_cluster_of(per_node(2, 0, 0, 0))
    pod = a_waiting_pod(metadata=owned("ReplicaSet"))
    assert scored(spreading(cluster), cluster, pod) is None
    faulty = ReplicaSet(metadata=ObjectMeta(name="owner", namespace="default"), spec=SelectorSpec(selector=FAULTY))
    cluster.objects.put(REPLICA_SET, faulty)
    assert scored(spreading(cluster), cluster, pod) is None


def test_services_count_while_they_are_there_and_select_the_pod() -> None:
    cluster = with_service(a_cluster_of(per_node(2, 0, 0, 0)), None, {}, {"foo": "", "bar": ""})
    plugin = spreading(cluster)
    assert scored(plugin, cluster, a_waiting_pod()) is None
    with_service(cluster, {"foo": ""}, namespace="other")
    assert scored(plugin, cluster, a_waiting_pod()) is None
    with_service(cluster, {"foo": ""})
    assert scored(plugin, cluster, a_waiting_pod()) is not None
    cluster.objects.remove(SERVICE, "s0", "default")
    assert scored(plugin, cluster, a_waiting_pod()) is None


def test_the_selectors_of_all_services_of_a_pod_are_joined() -> None:
    both = {"foo": "", "bar": ""}
    cluster = with_service(
        a_cluster_of([*per_node(2, 0, 0, 0), *some(1, "x", ("foo", "bar"))]), {"foo": ""}, {"bar": ""}
    )
    scores = scored(spreading(cluster), cluster, a_waiting_pod(labels=both))
    assert scores is not None
    assert scores[0] == 100
    assert scores[2] < 100


# -- signatures --------------------------------------------------------------------------------------------------------


def test_pods_that_are_judged_apart_are_signed_apart() -> None:
    cluster = a_cluster()
    plugin = spreading(cluster)
    pods = [
        a_waiting_pod(),
        a_waiting_pod(labels={"foo": "1"}),
        a_waiting_pod(namespace="other"),
        a_waiting_pod(evenly()),
        a_waiting_pod(evenly(skew=2)),
        a_waiting_pod(evenly(), spec={"affinity": NOT_B}),
        a_waiting_pod(evenly(), tolerations=[Toleration(key="team", operator="Exists")]),
        a_waiting_pod(metadata=owned("ReplicaSet")),
    ]
    assert len({plugin.sign(cluster.info(pod)) for pod in pods}) == len(pods)


def test_rejections_say_whether_evictions_help() -> None:
    plugin = spreading(a_cluster())
    assert [plugin.rejection(code).code for code in (1, 2)] == [
        Code.UNSCHEDULABLE,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ]
