"""NodeDeclaredFeatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.builders import a_cluster, a_container, a_handle, a_node, a_pod, rows_of
from tests.plugins.judging import hinted, judged, pre_filtered

from berth.api.pod import ContainerRestartRule
from berth.framework.cycle_state import CycleState
from berth.framework.events import NODE_ADD, Action, ClusterEvent, Hint, Resource
from berth.framework.status import SKIP, SUCCESS, PluginError, unresolvable
from berth.plugins.node_declared_features import HOST_NETWORK, RESTART_ALL, NodeDeclaredFeatures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.node import Node
    from berth.api.pod import Container, Pod

REJECTED = unresolvable("node(s) didn't match Pod's required features")
OWN_UPDATE = ClusterEvent(Resource.TARGET_POD, Action.UPDATE)
NODE_UPDATE = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_DECLARED_FEATURE)


def restarting(action: str = "RestartAllContainers") -> Container:
    return msgspec.structs.replace(a_container(), restart_policy_rules=(ContainerRestartRule(action=action),))


def a_pod_that_needs(*features: str, name: str = "web") -> Pod:
    own_users = HOST_NETWORK in features
    return a_pod(
        name,
        containers=[restarting() if RESTART_ALL in features else a_container()],
        spec={"host_network": own_users, "host_users": False if own_users else None},
    )


def declaring(*features: str, name: str = "n1") -> Node:
    return a_node(name, status={"declared_features": features})


NEEDS: Mapping[str, tuple[Pod, set[str]]] = {
    "nothing": (a_pod(), set()),
    "host network alone": (a_pod(spec={"host_network": True}), set()),
    "host network, host users": (a_pod(spec={"host_network": True, "host_users": True}), set()),
    "own users alone": (a_pod(spec={"host_users": False}), set()),
    "host network, own users": (a_pod_that_needs(HOST_NETWORK), {HOST_NETWORK}),
    "restart all": (a_pod_that_needs(RESTART_ALL), {RESTART_ALL}),
    "restart all, of an init container": (a_pod(init_containers=[restarting()]), {RESTART_ALL}),
    "restart one": (a_pod(containers=[restarting("Restart")]), set()),
    "both": (a_pod_that_needs(HOST_NETWORK, RESTART_ALL), {HOST_NETWORK, RESTART_ALL}),
}


@pytest.mark.parametrize(("pod", "needed"), NEEDS.values(), ids=NEEDS.keys())
def test_a_pod_that_needs_features_fits_only_where_all_are_declared(pod: Pod, needed: set[str]) -> None:
    nodes = [
        declaring(name="none"),
        declaring(HOST_NETWORK, name="network"),
        declaring(RESTART_ALL, name="restart"),
        declaring(HOST_NETWORK, "Unheard", RESTART_ALL, name="all"),
    ]
    cluster = a_cluster(nodes)
    plugin = NodeDeclaredFeatures(a_handle(cluster))
    assert pre_filtered(plugin, cluster, pod)[0] == (SUCCESS if needed else SKIP)
    want = [SUCCESS if needed <= set(node.status.declared_features) else REJECTED for node in nodes]
    assert judged(plugin, cluster, pod) == want


def test_without_the_gate_it_has_nothing_to_say_and_waits_for_nothing() -> None:
    cluster = a_cluster([declaring()])
    plugin = NodeDeclaredFeatures(a_handle(cluster, gates={"NodeDeclaredFeatures": False}))
    pod = a_pod_that_needs(HOST_NETWORK)
    assert pre_filtered(plugin, cluster, pod)[0] == SKIP
    assert plugin.filter(CycleState(), cluster.info(pod), rows_of(cluster)).tolist() == [0]
    assert not plugin.events_to_register()


def test_filter_out_of_turn_is_an_error() -> None:
    cluster = a_cluster([declaring()])
    plugin = NodeDeclaredFeatures(a_handle(cluster))
    with pytest.raises(PluginError, match="PreFilterNodeDeclaredFeatures"):
        plugin.filter(CycleState(), cluster.info(a_pod()), rows_of(cluster))


def test_pods_that_need_the_same_have_equal_signatures() -> None:
    cluster = a_cluster()
    plugin = NodeDeclaredFeatures(a_handle(cluster))
    signatures = [plugin.sign(cluster.info(pod)) for pod, _ in NEEDS.values()]
    for one, (_, needed) in zip(signatures, NEEDS.values(), strict=True):
        assert [one == other for other in signatures] == [needed == others for _, others in NEEDS.values()]


NODE_HINTS: Mapping[str, tuple[Node | None, Node, Hint]] = {
    "a new node": (None, declaring(), Hint.QUEUE),
    "another feature": (declaring(), declaring("Unheard"), Hint.QUEUE),
    "the same features": (declaring("Unheard"), declaring("Unheard"), Hint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "hint"), NODE_HINTS.values(), ids=NODE_HINTS.keys())
def test_hint_for_nodes(old: Node | None, new: Node, hint: Hint) -> None:
    cluster = a_cluster()
    plugin = NodeDeclaredFeatures(a_handle(cluster))
    assert hinted(plugin, NODE_ADD if old is None else NODE_UPDATE, cluster, a_pod(), old, new) == hint


POD_HINTS: Mapping[str, tuple[Pod, Pod, Hint]] = {
    "it needs more": (a_pod(), a_pod_that_needs(HOST_NETWORK), Hint.QUEUE),
    "it needs less": (a_pod_that_needs(HOST_NETWORK), a_pod(), Hint.QUEUE),
    "it needs the same": (a_pod(), a_pod(labels={"a": "b"}), Hint.SKIP),
    "another pod": (a_pod("other"), a_pod_that_needs(HOST_NETWORK, name="other"), Hint.SKIP),
}


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize(("old", "new", "hint"), POD_HINTS.values(), ids=POD_HINTS.keys())
def test_hint_for_the_pod(old: Pod, new: Pod, hint: Hint, minor: str) -> None:
    cluster = a_cluster()
    plugin = NodeDeclaredFeatures(a_handle(cluster, minor=minor))
    event = OWN_UPDATE if minor == "1.37" else ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE)
    assert hinted(plugin, event, cluster, a_pod(), old, new) == hint
