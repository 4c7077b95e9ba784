"""Pods, nodes and clusters that say only what a case is about; used by all suites.

Whatever a case leaves out is as small and ordinary as it can be: a pod has one container that asks for nothing, a node
has room for everything.  Names give uids, so two pods of one name and namespace are the same pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from berth.api.affinity import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm
from berth.api.meta import ObjectMeta
from berth.api.node import ContainerImage, Node, NodeSpec, NodeStatus, Taint
from berth.api.pod import (
    Container,
    ContainerPort,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
)
from berth.api.requests import RequestRules
from berth.api.selectors import SelectorRequirement
from berth.cluster.cache import Cluster
from berth.config.gates import default_gates
from berth.config.versions import row_of
from berth.framework.handle import ClaimWriter, Handle, ObjectWriter, PodBinder, PodLister, shows_no_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from berth.cluster.columns import Rows

Condition = tuple[str, str, Sequence[str]]
"""Key, operator, values."""


def a_container(
    name: str = "main",
    *,
    image: str = "registry.example/app:1",
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    ports: Iterable[ContainerPort] = (),
    sidecar: bool = False,
) -> Container:
    """A container; as an init container it runs on if it is a *sidecar*."""
    named = {"cpu": cpu, "memory": memory}
    asked = {**{key: text for key, text in named.items() if text is not None}, **(requests or {})}
    return Container(
        name=name,
        image=image,
        resources=ResourceRequirements(requests=asked),
        ports=tuple(ports),
        restart_policy="Always" if sidecar else "",
    )


def a_port(port: int, *, ip: str = "", protocol: str = "TCP") -> ContainerPort:
    """A port of the node that a container takes."""
    return ContainerPort(container_port=port, host_port=port, host_ip=ip, protocol=protocol)


def a_pod(
    name: str = "web",
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    on: str = "",
    priority: int | None = None,
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    ports: Iterable[ContainerPort] = (),
    containers: Iterable[Container] | None = None,
    init_containers: Iterable[Container] = (),
    node_selector: Mapping[str, str] | None = None,
    required: Iterable[NodeSelectorTerm] | None = None,
    preferred: Iterable[tuple[int, NodeSelectorTerm]] | None = None,
    tolerations: Iterable[Toleration] = (),
    gates: Iterable[str] = (),
    nominated: str = "",
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Pod:
    """A pod.

    Args:
        name: its name; the uid follows from it unless *uid* is given.
        namespace: its namespace.
        uid: its identity.
        labels: its labels.
        on: the node that it is bound to.
        priority: its priority.
        cpu: what its one container asks for.
        memory: the same.
        requests: the same, other resources.
        ports: the ports of its one container.
        containers: instead of one container.
        init_containers: plain ones and sidecars.
        node_selector: labels that the node must have.
        required: terms of its required node affinity.
        preferred: weights and terms of its preferred node affinity.
        tolerations: the taints that it tolerates.
        gates: names of scheduling gates.
        nominated: the node that it was promised.
        metadata: other fields of its metadata.
        spec: other fields of its spec.
        status: other fields of its status.
    """
    only = a_container(cpu=cpu, memory=memory, requests=requests, ports=ports)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid if uid is not None else f"uid-of-{namespace}-{name}",
            labels=dict(labels or {}),
            **(metadata or {}),
        ),
        spec=PodSpec(
            node_name=on,
            priority=priority,
            containers=(only,) if containers is None else tuple(containers),
            init_containers=tuple(init_containers),
            node_selector=None if node_selector is None else dict(node_selector),
            tolerations=tuple(tolerations),
            scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates),
            **{"affinity": an_affinity(required, preferred), **(spec or {})},
        ),
        status=PodStatus(nominated_node_name=nominated, **(status or {})),
    )


def an_affinity(
    required: Iterable[NodeSelectorTerm] | None, preferred: Iterable[tuple[int, NodeSelectorTerm]] | None = None
) -> Affinity | None:
    """A node affinity; None without terms of either kind."""
    if required is None and preferred is None:
        return None
    return Affinity(node_affinity=a_node_affinity(required, preferred))


def a_node_affinity(
    required: Iterable[NodeSelectorTerm] | None = None,
    preferred: Iterable[tuple[int, NodeSelectorTerm]] | None = None,
) -> NodeAffinity:
    """The node part of an affinity."""
    wishes = None if preferred is None else tuple(PreferredSchedulingTerm(weight=w, preference=t) for w, t in preferred)
    return NodeAffinity(
        required_during_scheduling_ignored_during_execution=(
            None if required is None else NodeSelector(node_selector_terms=tuple(required))
        ),
        preferred_during_scheduling_ignored_during_execution=wishes,
    )


def a_term(*labels: Condition, fields: Iterable[Condition] = ()) -> NodeSelectorTerm:
    """A term of conditions, each key, operator and values; on labels, or on fields of the node."""
    return NodeSelectorTerm(
        match_expressions=tuple(_requirement(each) for each in labels),
        match_fields=tuple(_requirement(each) for each in fields),
    )


def _requirement(condition: Condition) -> SelectorRequirement:
    key, operator, values = condition
    return SelectorRequirement(key=key, operator=operator, values=tuple(values))


def a_node(
    name: str = "n1",
    *,
    cpu: str = "64",
    memory: str = "256Gi",
    pods: str = "110",
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    unschedulable: bool = False,
    images: Iterable[tuple[Sequence[str], int]] = (),
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Node:
    """A node.

    Args:
        name: its name.
        cpu: what it offers.
        memory: the same.
        pods: how many pods it may hold.
        allocatable: instead of all these amounts.
        labels: its labels.
        taints: its taints.
        unschedulable: whether it is cordoned.
        images: names and size in bytes of the images that it holds.
        metadata: other fields of its metadata.
        status: other fields of its status.
    """
    offered = {"cpu": cpu, "memory": memory, "pods": pods} if allocatable is None else dict(allocatable)
    return Node(
        metadata=ObjectMeta(name=name, uid=f"uid-of-{name}", labels=dict(labels or {}), **(metadata or {})),
        spec=NodeSpec(unschedulable=unschedulable, taints=tuple(taints)),
        status=NodeStatus(
            allocatable=offered,
            images=tuple(ContainerImage(names=tuple(names), size_bytes=size) for names, size in images),
            **(status or {}),
        ),
    )


def a_cluster(nodes: Iterable[Node] = (), pods: Iterable[Pod] = (), *, minor: str = "1.37") -> Cluster:
    """A cluster of these nodes, with these pods on them, that counts as Kubernetes *minor* does."""
    totals = row_of(minor).behaviours.resize_footprint_is_max_of_totals
    cluster = Cluster(RequestRules(use_status=True, resize_by_totals=totals))
    for node in nodes:
        cluster.set_node(node)
    for pod in pods:
        cluster.add_pod(pod)
    return cluster


def a_handle(
    cluster: Cluster | None = None,
    *,
    minor: str = "1.37",
    gates: Mapping[str, bool] | None = None,
    lister: PodLister = shows_no_pod,
    binder: PodBinder | None = None,
    writer: ObjectWriter | None = None,
    claim_writer: ClaimWriter | None = None,
    clock: Callable[[], float] | None = None,
    stopwatch: Callable[[], float] | None = None,
) -> Handle:
    """The surroundings of a plugin in Kubernetes *minor*, its gates at their defaults but for *gates*."""
    row = row_of(minor)
    return Handle(
        cluster=a_cluster(minor=minor) if cluster is None else cluster,
        gates=default_gates(row).with_values(gates or {}),
        behaviours=row.behaviours,
        lister=lister,
        binder=binder,
        writer=writer,
        claim_writer=claim_writer,
        clock=clock,
        stopwatch=stopwatch,
    )


def rows_of(cluster: Cluster, names: Iterable[str] | None = None) -> Rows:
    """The rows of the nodes of these names, in their order; of all nodes if None.  Read only, as in a cycle."""
    if names is None:
        return cluster.table.live_rows()
    found = {name: cluster.table.row_of(name) for name in names}
    missing = [name for name, row in found.items() if row is None]
    if missing:
        raise ValueError(f"no nodes of these names: {missing}")
    rows = np.array(list(found.values()), dtype=np.intp)
    rows.flags.writeable = False
    return rows
