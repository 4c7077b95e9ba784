"""NodePorts: a host port can be taken once on each node, address and protocol.

Points: PreFilter (sits out for pods without host ports), Filter.  Rejects as unschedulable: evicting the pod that holds
the port helps.  Woken when a pod with a conflicting port goes away, and by any new node.  Takes no arguments.

The address ``0.0.0.0`` conflicts with every other; ``::`` is an address like any other.

Source: k8s pkg/scheduler/framework/plugins/nodeports/node_ports.go.
"""

from collections.abc import Collection, Hashable, Sequence
from typing import Any, Final, Self

import numpy as np

from berth.api.pod import Pod
from berth.cluster.columns import Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import ANY_ADDRESS, HostPort, PodInfo, host_ports
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.events import NODE_ADD, Action, ClusterEvent, Hint, Registration
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope
from berth.framework.status import SKIP, PluginError, Status, unschedulable
from berth.framework.what_if import Guests, Indices, Shifts
from berth.plugins.hints import assigned_pod, required

REASON: Final = "node(s) didn't have free ports for the requested pod ports"
_NO_PORTS: Final = frozenset[HostPort]()
_WANTED: Final = StateKey[tuple[HostPort, ...]]("PreFilterNodePorts")


def conflicts(wanted: HostPort, taken: Collection[HostPort]) -> bool:
    """Whether *wanted* cannot be had beside *taken*.

    Args:
        wanted: the port.
        taken: a set or mapping of ports.

    Source:
        k8s pkg/scheduler/framework/types.go, ``HostPortInfo.CheckConflict``.
    """
    ip, protocol, port = wanted
    if ip == ANY_ADDRESS:
        return any(other.port == port and other.protocol == protocol for other in taken)
    return wanted in taken or HostPort(ANY_ADDRESS, protocol, port) in taken


class NodePorts:
    """Compares the host ports of the pod with those taken on nodes."""

    name = "NodePorts"
    scope = Scope.ROW

    def __init__(self, handle: Handle) -> None:
        self._table = handle.cluster.table
        self._assigned_pod = assigned_pod(handle.behaviours)
        self._rejected = unschedulable(REASON)

    def events_to_register(self) -> Sequence[Registration]:
        """Pods that go away, and new nodes."""
        return (
            Registration(ClusterEvent(self._assigned_pod, Action.DELETE), _hint_for_deleted_pod, by_spec=True),
            Registration(NODE_ADD),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The host ports."""
        return pod.host_ports

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Skip without host ports."""
        if not pod.host_ports:
            return PreFilterResult(SKIP)
        state.write(_WANTED, pod.host_ports)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """1 where one of the pod's ports is taken.

        Raises:
            PluginError: PreFilter was not run.
        """
        del pod
        wanted = _read(state)
        taken = self._table.rows_with_ports()
        if not taken:
            return np.zeros(len(rows), dtype=np.int16)
        if len(rows) <= len(taken):
            clashes = (any(conflicts(port, taken.get(row, _NO_PORTS)) for port in wanted) for row in rows.tolist())
            return np.fromiter(clashes, dtype=np.int16, count=len(rows))
        closed = [row for row, ports in taken.items() if any(conflicts(port, ports) for port in wanted)]
        return np.isin(rows, closed).astype(np.int16)

    def board(self, state: CycleState, pod: PodInfo, guests: Guests) -> "PortsBoard":
        """Host ports of many nodes while pods come and go.

        Raises:
            PluginError: PreFilter was not run.
        """
        del pod
        return PortsBoard(self._table, guests, _read(state))

    def rejection(self, code: int) -> Status:
        """The one rejection there is."""
        del code
        return self._rejected


class PortsBoard:
    """By place, how many ports are taken that are in the way.

    Args:
        table: the nodes.
        guests: who comes and goes.
        wanted: the ports of the pod.
    """

    def __init__(self, table: NodeTable, guests: Guests, wanted: Sequence[HostPort]) -> None:
        by_row = table.rows_with_ports()
        in_the_way = (
            sum(many for port, many in by_row.get(row, {}).items() if _clashes(wanted, port))
            for row in guests.rows.tolist()
        )
        weights = guests.weights(lambda guest: sum(_clashes(wanted, port) for port in guest.host_ports))
        self._taken = Shifts(guests.places, weights, np.fromiter(in_the_way, np.int64, len(guests.rows)))

    def copy(self) -> Self:
        """A board that goes its own way from here."""
        twin = object.__new__(type(self))
        twin._taken = self._taken.copy()
        return twin

    def move(self, guests: Indices, by: int) -> None:
        """These guests come or go."""
        self._taken.move(guests, by)

    def judge(self, places: Indices) -> Rejections:
        """1 where one of the pod's ports is taken."""
        return (self._taken.sums[places] > 0).astype(np.int16)


def _clashes(wanted: Sequence[HostPort], taken: HostPort) -> bool:
    return any(conflicts(port, (taken,)) for port in wanted)


def _read(state: CycleState) -> tuple[HostPort, ...]:
    try:
        return state.read(_WANTED)
    except StateNotFoundError as error:
        raise PluginError(error.args[0]) from error


def _hint_for_deleted_pod(pod: PodInfo, old: Any, new: Any) -> Hint:
    del new
    gone = required(Pod, old)
    if not gone.spec.node_name and not gone.status.nominated_node_name:
        return Hint.SKIP
    freed = frozenset(host_ports(gone))
    return Hint.QUEUE if any(conflicts(port, freed) for port in pod.host_ports) else Hint.SKIP
