"""Nodes, as far as the scheduler looks at them."""

import msgspec

from berth.api.meta import ApiStruct, Condition, ObjectMeta


class Taint(ApiStruct, frozen=True):
    """A mark on a node that repels the pods which do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class ContainerImage(ApiStruct, frozen=True):
    """An image that a node holds, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeSpec(ApiStruct, frozen=True):
    """What an operator asks of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(ApiStruct, frozen=True):
    """What the kubelet reports of a node."""

    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiStruct, frozen=True):
    """A machine that pods can be bound to."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
