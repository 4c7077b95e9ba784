"""Which pods a pod without constraints of its own is spread among: those of its services and of its owner.

Services are found through one of the labels that they select, so that the cost does not grow with their number.
Relies on `berth.cluster.objects.Objects` for services and owners.  Called by
`berth.plugins.pod_topology_spread.constraints`.

Source: k8s pkg/scheduler/framework/plugins/helper/spread.go, ``DefaultSelector``.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from berth.api.meta import OwnerReference
from berth.api.pod import Pod
from berth.api.selectors import EVERYTHING, IN, Requirement, Selector, SelectorError, compile_label_selector
from berth.api.workloads import ReplicaSet, Service, StatefulSet
from berth.cluster.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET
from berth.cluster.objects import Objects

LOOKED_UP: Final = (SERVICE, REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)

_REMEMBERED: Final = 4096
_Pair = tuple[str, str]
_ByPair = dict[_Pair, list[dict[str, str]]]


class DefaultSelectors:
    """Deduces the selectors of pods.

    Args:
        objects: services, replication controllers, replica sets and stateful sets.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._services: dict[str, _ByPair] = {}
        objects.listen(SERVICE, self._service_changed)

    def of(self, pod: Pod) -> Selector:
        """What the pod's services and its owner select, joined by *and*; the empty selector if there are none."""
        wanted = self._wanted_by_services(pod)
        owner = controller_of(pod)
        if owner is None:
            return _equal(frozenset(wanted.items()))
        namespace = pod.metadata.namespace
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            controller = self._objects.get(REPLICATION_CONTROLLER, owner.name, namespace)
            if controller is not None:
                wanted = {**wanted, **(controller.spec.selector or {})}
        return Selector((*(_equal(frozenset(wanted.items())).requirements or ()), *self._of_set(owner, namespace)))

    def _of_set(self, owner: OwnerReference, namespace: str) -> tuple[Requirement, ...]:
        found: ReplicaSet | StatefulSet | None = None
        if (owner.api_version, owner.kind) == ("apps/v1", "ReplicaSet"):
            found = self._objects.get(REPLICA_SET, owner.name, namespace)
        elif (owner.api_version, owner.kind) == ("apps/v1", "StatefulSet"):
            found = self._objects.get(STATEFUL_SET, owner.name, namespace)
        if found is None:
            return ()
        try:
            return compile_label_selector(found.spec.selector).requirements or ()
        except SelectorError:
            return ()  # an owner that selects nothing sensible says nothing about spreading

    def _wanted_by_services(self, pod: Pod) -> dict[str, str]:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        services = self._services.get(namespace)
        if services is None:
            services = self._services[namespace] = self._by_pair(namespace)
        wanted: dict[str, str] = {}
        if services:
            for pair in labels.items():
                for selector in services.get(pair, ()):
                    if _selects(selector, labels):
                        wanted.update(selector)
        return wanted

    def _by_pair(self, namespace: str) -> _ByPair:
        """The selectors of the services of a namespace, each under one of the labels that it asks for."""
        services: _ByPair = {}
        for service in self._objects.list(SERVICE, namespace):
            if service.spec.selector:
                services.setdefault(min(service.spec.selector.items()), []).append(service.spec.selector)
        return services

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        for service in (old, new):
            if service is not None:
                self._services.pop(service.metadata.namespace, None)


def controller_of(pod: Pod) -> OwnerReference | None:
    """The owner that manages *pod*, if there is one."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def _selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


@lru_cache(maxsize=_REMEMBERED)
def _equal(labels: frozenset[_Pair]) -> Selector:
    if not labels:
        return EVERYTHING
    return Selector(tuple(Requirement(key, IN, frozenset((value,))) for key, value in sorted(labels)))
