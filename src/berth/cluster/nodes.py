"""`NodeTable`: a row per node, a NumPy column per fact.

The row index is the identity of a node while it lives; freed rows are used again, arrays grow by doubling.  Only
`berth.cluster.cache.Cluster` writes here; plugins read columns and `NodeTable.pods`.  Every change is logged, so that
kept verdicts can be brought up to date by looking at the touched rows only.

A row may hold pods without a node: their node object has not arrived yet, or is gone.  Such a row is not live, and is
never judged.

Source: k8s pkg/scheduler/framework/types.go, ``NodeInfo``, and pkg/scheduler/backend/cache/cache.go.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.api.meta import Labels, NodeName, PodUid
from berth.api.node import Node, Taint
from berth.api.quantity import nano_value, wrapped
from berth.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, amount, is_scalar
from berth.cluster.carried_terms import CarriedTerms
from berth.cluster.changelog import ChangeLog, Mark
from berth.cluster.columns import Amounts, CodedColumn, Mask, Rows, grown
from berth.cluster.images import ImageTable
from berth.cluster.podcounts import PodCounts
from berth.cluster.pods import HostPort, PodInfo
from berth.cluster.volumes import VolumeUse
from berth.cluster.zones import ZoneOrder

CPU_INDEX: Final = 0  # thousandths of a core
MEMORY_INDEX: Final = 1  # bytes
STORAGE_INDEX: Final = 2  # bytes
_FIRST_ROWS: Final = 64
_FIRST_RESOURCES: Final = 4


class NodeTable:
    """All nodes, a column per fact.

    Attributes:
        allocatable: int64, shape (resources, capacity): what each node offers; see `resource_index`.
        requested: int64, shape (resources, capacity): what the pods on it take, assumed ones included.
        non_zero: int64, shape (2, capacity): CPU and memory taken, with defaults for pods that ask for none.
        pod_count: int64, shape (capacity,): pods on the node.
        allowed_pods: int64, shape (capacity,): how many it may hold.
        live: bool, shape (capacity,): whether the row has a node object.
        unschedulable: bool, shape (capacity,): whether the node is cordoned.
        taints: the distinct sets of taints.
        images: which images lie where.
        zones: the order for looking at only some of the nodes.
        membership: grows whenever a node comes or goes.
        layout: grows whenever a node comes or goes, or its labels or taints change.
        pod_counts: how many pods of which labels are on which row.
        carried_terms: which terms of pod affinity the pods on which row carry.
        volumes: which pods with volumes are on which row.
    """

    def __init__(self) -> None:
        self._capacity = _FIRST_ROWS
        self._resource_index: dict[str, int] = {CPU: CPU_INDEX, MEMORY: MEMORY_INDEX, EPHEMERAL_STORAGE: STORAGE_INDEX}
        self.allocatable: Amounts = np.zeros((_FIRST_RESOURCES, self._capacity), dtype=np.int64)
        self.requested: Amounts = np.zeros((_FIRST_RESOURCES, self._capacity), dtype=np.int64)
        self.non_zero: Amounts = np.zeros((2, self._capacity), dtype=np.int64)
        self.pod_count: Amounts = np.zeros(self._capacity, dtype=np.int64)
        self.allowed_pods: Amounts = np.zeros(self._capacity, dtype=np.int64)
        self.live: Mask = np.zeros(self._capacity, dtype=np.bool_)
        self.unschedulable: Mask = np.zeros(self._capacity, dtype=np.bool_)
        self.taints: CodedColumn[tuple[Taint, ...]] = CodedColumn((), self._capacity)
        self.images = ImageTable()
        self.zones = ZoneOrder()
        self.membership = 0
        self.layout = 0
        self.pod_counts = PodCounts(self._capacity)
        self.carried_terms = CarriedTerms(self._capacity)
        self.volumes = VolumeUse()
        self._labels: dict[str, CodedColumn[str | None]] = {}
        self._nodes: list[Node | None] = []
        self._names: list[NodeName] = []
        self._pods: list[dict[PodUid, PodInfo]] = []
        self._ports: dict[int, dict[HostPort, int]] = {}
        self._row_of: dict[NodeName, int] = {}
        self._free: list[int] = []
        self._log = ChangeLog()
        self._pods_log = ChangeLog()
        self._live_rows: Rows | None = None

    # -- reading -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self.live_rows())

    def live_rows(self) -> Rows:
        """The rows that have a node, ascending; not to be written to."""
        if self._live_rows is None:
            self._live_rows = np.flatnonzero(self.live)
            self._live_rows.flags.writeable = False
        return self._live_rows

    def row_of(self, name: str) -> int | None:
        """The row of the node *name*, if it has one and the node object is there."""
        row = self._row_of.get(NodeName(name))
        return row if row is not None and self.live[row] else None

    def name(self, row: int) -> NodeName:
        """The name of the node in *row*."""
        return self._names[row]

    def node(self, row: int) -> Node:
        """The node object of a live row.

        Raises:
            KeyError: the row has no node object.
        """
        node = self._nodes[row]
        if node is None:
            raise KeyError(f"row {row} has no node")
        return node

    def pods(self, row: int) -> dict[PodUid, PodInfo]:
        """The pods on the node of *row*; not to be written to."""
        return self._pods[row]

    def ports(self, row: int) -> dict[HostPort, int]:
        """The host ports taken on the node of *row*, and by how many pods."""
        return self._ports.get(row, {})

    def rows_with_ports(self) -> dict[int, dict[HostPort, int]]:
        """The rows on which some host port is taken; not to be written to."""
        return self._ports

    def usage(self, name: str) -> dict[str, int]:
        """What the pods on the node *name* take together: amounts by resource name, how many pods, which host ports."""
        row = self._row_of.get(NodeName(name))
        if row is None:
            return {}
        taken = {resource: int(self.requested[index, row]) for resource, index in self._resource_index.items()}
        taken[PODS] = int(self.pod_count[row])
        taken["non-zero cpu"], taken["non-zero memory"] = self.non_zero[:, row].tolist()
        taken |= {f"port {port.protocol} {port.ip}:{port.port}": many for port, many in self.ports(row).items()}
        return {what: many for what, many in taken.items() if many}

    def relation_faults(self) -> list[str]:
        """In what the counts that rules between pods rest on differ from the pods that are there."""
        pods = [(row, info) for row, on_row in enumerate(self._pods) for info in on_row.values()]
        return [*self.pod_counts.faults(pods), *self.carried_terms.faults(pods), *self.volumes.faults(pods)]

    def resource_index(self, name: str) -> int | None:
        """The first axis of ``allocatable`` and ``requested`` for a resource; None if no node or pod ever named it."""
        return self._resource_index.get(name)

    def label(self, key: str) -> CodedColumn[str | None]:
        """The column of a label's values (None where a node lacks it); made on first use, maintained from then on."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = CodedColumn[str | None](None, self._capacity)
            for row in self.live_rows():
                column.set(int(row), self.node(int(row)).metadata.labels.get(key))
        return column

    def mark(self) -> Mark:
        """The state of now, for `changed_since`."""
        return self._log.mark()

    def changed_since(self, mark: Mark) -> Rows | None:
        """The rows touched since *mark*, each once, live or not; None if all must be looked at again."""
        rows = self._log.since(mark)
        return None if rows is None else np.array(rows, dtype=np.intp)

    def pods_mark(self) -> Mark:
        """The state of now, for `pods_changed_since`."""
        return self._pods_log.mark()

    def pods_changed_since(self, mark: Mark) -> Rows | None:
        """The rows whose pods came, went or changed in any way since *mark*; None if all must be looked at again."""
        rows = self._pods_log.since(mark)
        return None if rows is None else np.array(rows, dtype=np.intp)

    # -- writing -------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> int:
        """Record a node, new or changed.

        Returns:
            Its row.

        Raises:
            QuantityError: an allocatable amount is no quantity; nothing is changed then.
        """
        amounts = {name: nano_value(text) for name, text in node.status.allocatable.items()}
        row = self._row_for(NodeName(node.metadata.name))
        before = self._nodes[row]
        if before is None or _shape(before) != _shape(node):
            self.layout += 1
        self._nodes[row] = node
        if not self.live[row]:
            self.live[row] = True
            self._membership_changed()
        self._set_allocatable(row, amounts)
        self.unschedulable[row] = node.spec.unschedulable
        self.taints.set(row, node.spec.taints)
        for key, column in self._labels.items():
            column.set(row, node.metadata.labels.get(key))
        self.images.set(row, node.status.images)
        self.zones.set(row, node.metadata.labels)
        self._log.touch(row)
        return row

    def remove_node(self, name: str) -> None:
        """Record that a node is gone; pods that are still on it keep its row.

        Raises:
            KeyError: there is no such node.
        """
        row = self.row_of(name)
        if row is None:
            raise KeyError(f"node {name} is not found")
        self._nodes[row] = None
        self.live[row] = False
        self.layout += 1
        self._membership_changed()
        self.allocatable[:, row] = 0
        self.allowed_pods[row] = 0
        self.unschedulable[row] = False
        self.taints.set(row, ())
        for column in self._labels.values():
            column.set(row, None)
        self.images.set(row, ())
        self.zones.remove(row)
        self._log.touch(row)
        self._release_if_empty(row)

    def add_pod(self, info: PodInfo, name: str) -> None:
        """Count a pod on the node *name*, which need not exist yet.

        Raises:
            QuantityError: an amount that the pod asks for is no quantity; nothing is changed then.
        """
        taken, non_zero = info.taken, info.taken_non_zero
        row = self._row_for(NodeName(name))
        self._pods[row][info.uid] = info
        self._pods_log.touch(row)
        self._count(row, taken, non_zero, 1)
        self.pod_counts.add(row, info)
        if info.affinity_terms.carried:
            self.carried_terms.add(row, info.affinity_terms.carried)
        if info.volumes:
            self.volumes.add(row, info)
        for port in info.host_ports:
            ports = self._ports.setdefault(row, {})
            ports[port] = ports.get(port, 0) + 1

    def remove_pod(self, uid: PodUid, name: str) -> None:
        """Take a pod off the node *name*.

        Raises:
            KeyError: it is not there.
        """
        row = self._row_of.get(NodeName(name))
        if row is None or uid not in self._pods[row]:
            raise KeyError(f"no corresponding pod {uid} in pods of node {name}")
        info = self._pods[row].pop(uid)
        self._pods_log.touch(row)
        self._count(row, info.taken, info.taken_non_zero, -1)
        self.pod_counts.remove(row, info)
        if info.affinity_terms.carried:
            self.carried_terms.remove(row, info.affinity_terms.carried)
        if info.volumes:
            self.volumes.remove(row, info)
        for port in info.host_ports:
            self._release_port(row, port)
        self._release_if_empty(row)

    def swap_pod(self, info: PodInfo, name: str) -> bool:
        """Put another version of a pod in place of the one on the node *name*.

        Returns:
            Whether it could be done without counting anew: the pod is there and takes the same as before.
        """
        row = self._row_of.get(NodeName(name))
        before = self._pods[row].get(info.uid) if row is not None else None
        if row is None or before is None:
            return False
        same_spec = info.taken is before.taken  # shared where the new version follows from the old one
        if not same_spec:
            if (before.taken, before.taken_non_zero) != (info.taken, info.taken_non_zero):
                return False
            if before.host_ports != info.host_ports:
                return False
        if not same_spec or self._looks_other(row, before, info):
            self._log.touch(row)
        self._pods[row][info.uid] = info
        self._pods_log.touch(row)
        self.pod_counts.swap(row, before, info)
        if info.affinity_terms is not before.affinity_terms:
            self.carried_terms.remove(row, before.affinity_terms.carried)
            self.carried_terms.add(row, info.affinity_terms.carried)
        if info.volumes != before.volumes:
            self._swap_volumes(row, before, info)
        return True

    @contextmanager
    def restored(self) -> Iterator[None]:
        """A block in which pods are added and removed for the sake of a question; it leaves no trace in the log.

        The block itself must undo what it does: whoever removes a pod adds it again before the end.
        """
        mark, pods_mark = self._log.mark(), self._pods_log.mark()
        try:
            yield
        finally:
            self._log.rewind(mark)
            self._pods_log.rewind(pods_mark)

    def _looks_other(self, row: int, before: PodInfo, info: PodInfo) -> bool:
        """Whether rules can tell two versions of a pod on *row* apart, besides their spec.

        Labels that repeat those of the node tell nothing, and the API server adds such ones to every pod that it binds.
        """
        one, other = before.pod.metadata, info.pod.metadata
        if (one.deletion_timestamp is None) != (other.deletion_timestamp is None):
            return True
        if one.labels == other.labels:
            return False
        node = self._nodes[row]
        return bool((one.labels.items() ^ other.labels.items()) - (node.metadata.labels.items() if node else set()))

    def _swap_volumes(self, row: int, before: PodInfo, info: PodInfo) -> None:
        if before.volumes:
            self.volumes.remove(row, before)
        if info.volumes:
            self.volumes.add(row, info)

    def _count(self, row: int, taken: dict[str, int], non_zero: tuple[int, int], sign: int) -> None:
        for name, many in taken.items():
            index = self._index_for(name)
            if index is not None:
                self.requested[index, row] = wrapped(self.requested.item(index, row) + sign * many)
        for index, many in enumerate(non_zero):
            self.non_zero[index, row] = wrapped(self.non_zero.item(index, row) + sign * many)
        self.pod_count[row] += sign
        self._log.touch(row)

    def _release_port(self, row: int, port: HostPort) -> None:
        ports = self._ports[row]
        ports[port] -= 1
        if not ports[port]:
            del ports[port]
        if not ports:
            del self._ports[row]

    def _set_allocatable(self, row: int, nano: dict[str, int]) -> None:
        for name in nano:
            self._index_for(name)
        self.allocatable[:, row] = 0
        for name, amount_nano in nano.items():
            index = self._resource_index.get(name)
            if index is not None:
                self.allocatable[index, row] = amount(name, amount_nano)
        self.allowed_pods[row] = amount(PODS, nano.get(PODS, 0))

    def _index_for(self, name: str) -> int | None:
        index = self._resource_index.get(name)
        if index is None and is_scalar(name):
            index = self._resource_index[name] = len(self._resource_index)
            if index >= len(self.allocatable):
                self.allocatable = _with_more_resources(self.allocatable)
                self.requested = _with_more_resources(self.requested)
        return index

    def _row_for(self, name: NodeName) -> int:
        row = self._row_of.get(name)
        if row is not None:
            return row
        if self._free:
            row = self._free.pop()
            self._names[row] = name
        else:
            row = len(self._names)
            self._names.append(name)
            self._nodes.append(None)
            self._pods.append({})
            if row >= self._capacity:
                self._grow()
        self._row_of[name] = row
        return row

    def _release_if_empty(self, row: int) -> None:
        if not self.live[row] and not self._pods[row]:
            del self._row_of[self._names[row]]
            self._free.append(row)

    def _membership_changed(self) -> None:
        self.membership += 1
        self._live_rows = None

    def _grow(self) -> None:
        self._capacity *= 2
        for name in ("allocatable", "requested", "non_zero", "pod_count", "allowed_pods", "live", "unschedulable"):
            setattr(self, name, grown(getattr(self, name), self._capacity))
        self.taints.grow(self._capacity)
        self.pod_counts.grow(self._capacity)
        self.carried_terms.grow(self._capacity)
        for column in self._labels.values():
            column.grow(self._capacity)


def _shape(node: Node) -> tuple[Labels, tuple[Taint, ...]]:
    """What places a node among the others."""
    return node.metadata.labels, node.spec.taints


def _with_more_resources(amounts: Amounts) -> NDArray[np.int64]:
    return np.vstack([amounts, np.zeros_like(amounts)])
