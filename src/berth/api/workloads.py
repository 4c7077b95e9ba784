"""Namespaces, services and the owners of pods, as far as rules between pods look at them."""

import msgspec

from berth.api.meta import ApiStruct, ObjectMeta
from berth.api.selectors import LabelSelector


class Namespace(ApiStruct, frozen=True):
    """A namespace; its labels are what namespace selectors look at."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class PlainSelectorSpec(ApiStruct, frozen=True):
    """What a service or a replication controller selects: equal labels only; None selects nothing."""

    selector: dict[str, str] | None = None


class Service(ApiStruct, frozen=True):
    """A service."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PlainSelectorSpec = msgspec.field(default_factory=PlainSelectorSpec)


class ReplicationController(ApiStruct, frozen=True):
    """A replication controller."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PlainSelectorSpec = msgspec.field(default_factory=PlainSelectorSpec)


class SelectorSpec(ApiStruct, frozen=True):
    """What a replica set or a stateful set selects."""

    selector: LabelSelector | None = None


class ReplicaSet(ApiStruct, frozen=True):
    """A replica set."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: SelectorSpec = msgspec.field(default_factory=SelectorSpec)


class StatefulSet(ApiStruct, frozen=True):
    """A stateful set."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: SelectorSpec = msgspec.field(default_factory=SelectorSpec)
