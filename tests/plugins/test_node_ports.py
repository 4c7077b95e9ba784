"""NodePorts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_container, a_handle, a_node, a_pod, a_port, rows_of
from tests.plugins.judging import hinted, judged, pre_filtered

from berth.framework.cycle_state import CycleState
from berth.framework.events import ASSIGNED_POD_DELETE, NODE_ADD, Hint
from berth.framework.status import SKIP, SUCCESS, PluginError, unschedulable
from berth.plugins.node_ports import NodePorts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.pod import ContainerPort, Pod

REJECTED = unschedulable("node(s) didn't have free ports for the requested pod ports")


def ports(*texts: str) -> list[ContainerPort]:
    """Ports written as protocol/address/number."""
    parts = [text.split("/") for text in texts]
    return [a_port(int(number), ip=ip, protocol=protocol) for protocol, ip, number in parts]


FILTERS: Mapping[str, tuple[list[str], list[str], bool]] = {
    "another port": (["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/9090"], True),
    "the same UDP port": (["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/8080"], False),
    "the same TCP port": (["TCP/127.0.0.1/8080"], ["TCP/127.0.0.1/8080"], False),
    "another address": (["TCP/127.0.0.1/8080"], ["TCP/127.0.0.2/8080"], True),
    "another protocol": (["UDP/127.0.0.1/8080"], ["TCP/127.0.0.1/8080"], True),
    "the second of two is taken": (["UDP/127.0.0.1/8000", "UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/8080"], False),
    "the first of two is taken": (["TCP/127.0.0.1/8001", "UDP/127.0.0.1/8080"], ["TCP/127.0.0.1/8001"], False),
    "all addresses wanted, one taken": (["TCP/0.0.0.0/8001"], ["TCP/127.0.0.1/8001"], False),
    "one wanted twice over": (["TCP/10.0.10.10/8001", "TCP/0.0.0.0/8001"], ["TCP/127.0.0.1/8001"], False),
    "one address wanted, all taken": (["TCP/127.0.0.1/8001"], ["TCP/0.0.0.0/8001"], False),
    "all addresses of another protocol taken": (["UDP/127.0.0.1/8001"], ["TCP/0.0.0.0/8001"], True),
    "all addresses of both protocols taken": (
        ["UDP/127.0.0.1/8001"],
        ["TCP/0.0.0.0/8001", "UDP/0.0.0.0/8001"],
        False,
    ),
    "an empty address is all of them": (["TCP//8001"], ["TCP/127.0.0.1/8001"], False),
    "an empty protocol is TCP": (["/127.0.0.1/8001"], ["TCP/127.0.0.1/8001"], False),
    "the IPv6 wildcard is an address like others": (["TCP/::/8001"], ["TCP/127.0.0.1/8001"], True),
}


@pytest.mark.parametrize("others", [0, 30])
@pytest.mark.parametrize(("wanted", "taken", "fits"), FILTERS.values(), ids=FILTERS.keys())
def test_filter(wanted: list[str], taken: list[str], fits: bool, others: int) -> None:
    nodes = [a_node("n0"), *(a_node(f"other-{i}") for i in range(others))]
    cluster = a_cluster(nodes, [a_pod("there", on="n0", ports=ports(*taken))])
    got = judged(NodePorts(a_handle(cluster)), cluster, a_pod(ports=ports(*wanted)))
    assert got == [SUCCESS if fits else REJECTED, *([SUCCESS] * others)]


def test_a_pod_without_host_ports_is_skipped() -> None:
    assert pre_filtered(NodePorts(a_handle()), a_cluster(), a_pod()) == (SKIP, None)


def test_ports_of_init_containers_count_only_if_they_run_on() -> None:
    cluster = a_cluster([a_node()], [a_pod("there", on="n1", ports=ports("TCP/0.0.0.0/8001"))])
    plugin = NodePorts(a_handle(cluster))
    passing = a_pod(init_containers=[a_container("i", ports=ports("TCP/127.0.0.1/8001"))])
    staying = a_pod(init_containers=[a_container("i", ports=ports("TCP/127.0.0.1/8001"), sidecar=True)])
    assert pre_filtered(plugin, cluster, passing) == (SKIP, None)
    assert judged(plugin, cluster, staying) == [REJECTED]


def test_filter_needs_prefilter() -> None:
    cluster = a_cluster([a_node()])
    with pytest.raises(PluginError, match=r'^reading "PreFilterNodePorts" from cycleState: not found$'):
        NodePorts(a_handle(cluster)).filter(CycleState(), cluster.info(a_pod()), rows_of(cluster))


WANTED = ["TCP/0.0.0.0/8080", "UDP/0.0.0.0/53"]
DELETES: Mapping[str, tuple[Pod, Hint]] = {
    "a pod that was nowhere": (a_pod("gone", ports=ports(*WANTED)), Hint.SKIP),
    "a pod without host ports": (a_pod("gone", on="n1"), Hint.SKIP),
    "a pod with another port": (a_pod("gone", on="n1", ports=ports("TCP/0.0.0.0/8081")), Hint.SKIP),
    "a pod with the port": (a_pod("gone", on="n1", ports=ports(*WANTED)), Hint.QUEUE),
    "a pod with one of two ports": (a_pod("gone", on="n1", ports=ports("UDP/10.0.0.1/53")), Hint.QUEUE),
    "a pod that had only been promised a node": (
        a_pod("gone", nominated="n1", ports=ports(*WANTED)),
        Hint.QUEUE,
    ),
}


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize(("gone", "want"), DELETES.values(), ids=DELETES.keys())
def test_a_freed_port_wakes_the_pod(gone: Pod, want: Hint, minor: str) -> None:
    plugin = NodePorts(a_handle(minor=minor))
    assert hinted(plugin, ASSIGNED_POD_DELETE, a_cluster(), a_pod(ports=ports(*WANTED)), gone, None) is want


def test_any_new_node_wakes_the_pod() -> None:
    assert hinted(NodePorts(a_handle()), NODE_ADD, a_cluster(), a_pod(), None, a_node()) is Hint.QUEUE
