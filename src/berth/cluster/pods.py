"""`PodInfo`: what is worked out once per version of a pod.

Built at the edge of the core for every pod that arrives, read by the queue, the node table and the plugins.  Amounts
are integers in the scheduler's units; selectors are compiled on first use, since most running pods are never asked.

Source: k8s pkg/scheduler/framework/types.go, ``PodInfo``.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from berth.api.meta import PodKey, PodUid
from berth.api.node_affinity import RequiredNodeAffinity, compile_node_selector
from berth.api.pod import Pod, Volume
from berth.api.pod_affinity import NO_TERMS, PodAffinityTerms, pod_affinity_terms
from berth.api.requests import (
    CONTAINERS_ONLY,
    CPU,
    FOR_SCORE,
    MEMORY,
    SPEC_ONLY,
    RequestRules,
    amount,
    may_hold_more,
    names_cpu_and_memory,
    non_zero_requests,
    pod_requests,
)

_encode = msgspec.msgpack.Encoder(order="sorted").encode

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the address that stands for all of a node's; nothing listens on it here
DEFAULT_RULES: Final = RequestRules(use_status=True)


LabelSet = tuple[str, frozenset[tuple[str, str]]]
"""A namespace and labels: what selectors of pods look at, hashable."""


class HostPort(NamedTuple):
    """A port of the node that a pod takes; an empty address reads as all, an empty protocol as TCP."""

    ip: str
    protocol: str
    port: int


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The node's ports that *pod* takes: those of its sidecars, then those of its containers.

    Source: k8s pkg/scheduler/util/utils.go, ``GetHostPorts``.
    """
    sidecars = (c for c in pod.spec.init_containers if c.is_sidecar)
    return tuple(
        HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


@dataclass(frozen=True, eq=False)
class PodInfo:
    """A pod and what follows from it.

    Attributes:
        pod: the object as the API server last showed it.
        rules: how requests of placed pods are added up in this version of Kubernetes.
    """

    pod: Pod
    rules: RequestRules = field(default=DEFAULT_RULES)

    @cached_property
    def template(self) -> bytes:
        """Equal for pods that have the same namespace, labels, owners and spec, as those of one controller do.

        Volumes are left out: that of the service account has a name of its own in each pod.
        """
        meta = self.pod.metadata
        return _encode((meta.namespace, meta.labels, meta.owner_references, self.spec_template))

    @cached_property
    def spec_template(self) -> bytes:
        """Equal for pods with the same spec; volumes are left out as in `template`."""
        return _encode(msgspec.structs.replace(self.pod.spec, volumes=()))

    @cached_property
    def uid(self) -> PodUid:
        """The identity of the pod."""
        return PodUid(self.pod.metadata.uid)

    @cached_property
    def key(self) -> PodKey:
        """``namespace/name``."""
        return self.pod.key

    @property
    def priority(self) -> int:
        """``spec.priority``, 0 where it is absent."""
        return self.pod.spec.priority or 0

    def on(self, node_name: str) -> "PodInfo":
        """The same pod, placed on a node; what was worked out for it is shared."""
        spec = msgspec.structs.replace(self.pod.spec, node_name=node_name)
        twin = PodInfo(msgspec.structs.replace(self.pod, spec=spec), self.rules)
        twin.__dict__.update({name: known for name, known in self.__dict__.items() if name != "pod"})
        return twin

    def next(self, pod: Pod) -> "PodInfo":
        """What follows from the next version of the same pod; shared where nothing that it rests on has changed."""
        twin = PodInfo(pod, self.rules)
        if pod.spec == self.pod.spec and not may_hold_more(pod) and not may_hold_more(self.pod):
            twin.__dict__.update({name: known for name, known in self.__dict__.items() if name != "pod"})
            twin.__dict__.pop("likeness", None)
            twin.__dict__.pop("template", None)
            if pod.metadata.labels != self.pod.metadata.labels:
                twin.__dict__.pop("label_set", None)
        return twin

    @cached_property
    def label_set(self) -> LabelSet:
        """The namespace and the labels, hashable."""
        metadata = self.pod.metadata
        return metadata.namespace, frozenset(metadata.labels.items())

    @cached_property
    def likeness(self) -> Hashable:
        """What rules can tell of a pod that is on a node; pods with volumes are like no other.

        Raises:
            QuantityError: an amount is no quantity.
        """
        terminating = self.pod.metadata.deletion_timestamp is not None
        taken = tuple(self.taken.items())
        return self.label_set, terminating, taken, self.host_ports, self.affinity_terms.carried, self._named_by_volumes

    @property
    def _named_by_volumes(self) -> str:
        return self.uid if self.volumes else ""

    @property
    def affinity_terms(self) -> PodAffinityTerms:
        """The terms of pod affinity and anti-affinity, compiled; lists with a faulty one are empty."""
        return NO_TERMS if self.pod.spec.affinity is None else self._affinity_terms

    @cached_property
    def _affinity_terms(self) -> PodAffinityTerms:
        return pod_affinity_terms(self.pod.spec.affinity, self.pod.metadata.namespace)

    @cached_property
    def asked(self) -> dict[str, int]:
        """What the spec asks for, by resource name: milli-cores for CPU, whole units for all else.

        Raises:
            QuantityError: an amount is no quantity.
        """
        rules = SPEC_ONLY if self.rules.pod_level else CONTAINERS_ONLY
        return {name: amount(name, nano) for name, nano in pod_requests(self.pod, rules).items()}

    @cached_property
    def asked_for_score(self) -> dict[str, int]:
        """What the pod counts as where a score compares pods, units as in ``asked``.

        Containers that ask for no CPU or no memory count with default amounts, and what ``spec.resources`` of the pod
        says is not looked at.

        Raises:
            QuantityError: an amount is no quantity.
        """
        if names_cpu_and_memory(self.pod) and self.pod.spec.resources is None:
            return self.asked
        return {name: amount(name, nano) for name, nano in pod_requests(self.pod, FOR_SCORE).items()}

    @cached_property
    def taken(self) -> dict[str, int]:
        """What the pod takes from its node, units as in ``asked``; counts what the node has granted during a resize.

        Raises:
            QuantityError: an amount is no quantity.
        """
        if not may_hold_more(self.pod):
            return self.asked
        return {name: amount(name, nano) for name, nano in pod_requests(self.pod, self.rules).items()}

    @cached_property
    def taken_non_zero(self) -> tuple[int, int]:
        """Milli-cores and bytes of memory, with defaults for containers that ask for none.

        Raises:
            QuantityError: an amount is no quantity.
        """
        if names_cpu_and_memory(self.pod) and not may_hold_more(self.pod):
            return self.taken.get(CPU, 0), self.taken.get(MEMORY, 0)
        cpu, memory = non_zero_requests(self.pod, self.rules, pod_requests(self.pod, self.rules))
        return amount(CPU, cpu), amount(MEMORY, memory)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The ports of the node that the pod takes."""
        return host_ports(self.pod)

    @cached_property
    def volumes(self) -> tuple[Volume, ...]:
        """The volumes that rules about storage look at: claims and disks."""
        volumes = self.pod.spec.volumes
        return tuple(volume for volume in volumes if volume.is_storage) if volumes else ()

    @cached_property
    def required_node_affinity(self) -> RequiredNodeAffinity:
        """``spec.nodeSelector`` and the required node affinity, compiled; faulty terms match nothing."""
        affinity = self.pod.spec.affinity
        node_affinity = affinity.node_affinity if affinity else None
        required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
        return RequiredNodeAffinity(
            tuple((self.pod.spec.node_selector or {}).items()),
            compile_node_selector(required) if required is not None else None,
        )
