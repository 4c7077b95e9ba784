"""What wakes pods that NodeResourcesFit rejected.

A pod that goes away, or asks for less than before of something that the waiting pod asks for; a node that could hold
the pod if it were empty, and is new or offers more than before, or on which a device class stands for something that
the pod asks for; a class that comes to do so.  Built and owned by `berth.plugins.noderesources.fit.NodeResourcesFit`.

Source: k8s pkg/scheduler/framework/plugins/noderesources/fit.go, ``EventsToRegister``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from berth.api.dra import DeviceClass
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.quantity import QuantityError, nano_value
from berth.api.requests import (
    CPU,
    DEVICE_CLASS_PREFIX,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    amount,
    is_scalar,
    pod_requests,
)
from berth.cluster.pods import PodInfo
from berth.framework.events import Action, ClusterEvent, Hint, HintError, Registration, Resource
from berth.framework.handle import Handle
from berth.plugins.hints import assigned_pod, before_and_after, optional, own_pod, required

_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class FitHints:
    """The registrations, and the answers."""

    def __init__(self, handle: Handle) -> None:
        behaviours = handle.behaviours
        self._own_pod, self._assigned_pod = own_pod(behaviours), assigned_pod(behaviours)
        self._device_classes = handle.gates.enabled("DRAExtendedResource")
        self._classes = handle.cluster.device_classes
        self._rules = replace(handle.cluster.rules, node_allocatable_claims=False)

    def registrations(self) -> Sequence[Registration]:
        """The events that are worth a look."""
        gone_or_less = ClusterEvent(self._assigned_pod, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
        node = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        registrations = [
            Registration(gone_or_less, self.after_pod, by_spec=True),
            Registration(node, self.after_node, by_spec=True),
        ]
        if self._own_pod is not self._assigned_pod:
            own = ClusterEvent(self._own_pod, Action.UPDATE_POD_SCALE_DOWN)
            registrations.append(Registration(own, self.after_pod))
        if self._device_classes:
            device_class = ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
            registrations.append(Registration(device_class, self.after_device_class))
        return registrations

    def after_pod(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        """Whether a pod that went away, or asks for less, makes room for *pod*.

        Raises:
            HintError: the objects are no pods, or ask for what is no quantity.
        """
        before, after = optional(Pod, old), optional(Pod, new)
        if after is None:
            gone = required(Pod, before)
            held_room = gone.spec.node_name or gone.status.nominated_node_name
            return Hint.QUEUE if held_room else Hint.SKIP
        if after.uid == pod.uid:
            return Hint.QUEUE
        if not after.spec.node_name:
            return Hint.SKIP
        try:
            freed = self._freed_something(pod.pod, required(Pod, before), after)
        except QuantityError as error:
            raise HintError(str(error)) from error
        return Hint.QUEUE if freed else Hint.SKIP

    def after_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        """Whether a node could hold *pod*, and could not before.

        Raises:
            HintError: the objects are no nodes, or an amount is no quantity.
        """
        before, after = before_and_after(Node, old, new)
        try:
            asked, offered = _counted(pod.asked), _offered(after)
            counted = {name: many for name, many in asked.items() if not self._is_met_by_devices(name, offered)}
            if not _fits_empty(counted, offered):
                return Hint.SKIP
            if before is None or len(counted) < len(asked) or _grew_where_asked(asked, _offered(before), offered):
                return Hint.QUEUE
        except QuantityError as error:
            raise HintError(str(error)) from error
        return Hint.SKIP

    def after_device_class(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        """Whether a device class has come to stand for something that *pod* asks for.

        Raises:
            HintError: the objects are no classes, or an amount is no quantity.
        """
        before, after = before_and_after(DeviceClass, old, new)
        stands_for = after.spec.extended_resource_name or ""
        if before is not None and (before.spec.extended_resource_name or "") == stands_for:
            return Hint.SKIP
        try:
            asked = pod.asked
        except QuantityError as error:
            raise HintError(str(error)) from error
        implied = DEVICE_CLASS_PREFIX + after.metadata.name
        if (before is None and implied in asked) or stands_for in asked:
            return Hint.QUEUE
        return Hint.SKIP

    def _is_met_by_devices(self, name: str, offered: Mapping[str, int]) -> bool:
        """Whether the node itself has nothing of a resource that a device class stands for."""
        return self._device_classes and offered.get(name, 0) <= 0 and self._classes.behind(name) is not None

    def _freed_something(self, waiting: Pod, before: Pod, after: Pod) -> bool:
        held, holds = pod_requests(before, self._rules), pod_requests(after, self._rules)
        return any(
            nano
            and (name in _NATIVE or is_scalar(name))
            and amount(name, held.get(name, 0)) > amount(name, holds.get(name, 0))
            for name, nano in pod_requests(waiting, self._rules).items()
        )


def _counted(requests: Mapping[str, int]) -> dict[str, int]:
    return {name: many for name, many in requests.items() if many > 0 and (name in _NATIVE or is_scalar(name))}


def _offered(node: Node) -> dict[str, int]:
    return {name: amount(name, nano_value(text)) for name, text in node.status.allocatable.items()}


def _fits_empty(asked: Mapping[str, int], offered: Mapping[str, int]) -> bool:
    return offered.get(PODS, 0) >= 1 and all(many <= offered.get(name, 0) for name, many in asked.items())


def _grew_where_asked(asked: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return any(after.get(name, 0) > before.get(name, 0) for name in (PODS, *asked))
