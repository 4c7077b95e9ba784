"""Which events a change of an object amounts to.

Pods and nodes are compared in the respects that plugins care about, one event per respect, in a fixed order; any other
object is simply added, updated or deleted.  Called by the engine for each change that the API server shows, and by the
queue for updates of waiting pods.

Source: k8s pkg/scheduler/framework/events.go, ``PodSchedulingPropertiesChange`` and ``NodeSchedulingPropertiesChange``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.quantity import QuantityError, milli, nano_value
from berth.api.requests import RequestRules, pod_requests
from berth.framework.events import ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, Action, ClusterEvent, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.framework.features import Behaviours, FeatureGates

Op = Literal["add", "update", "delete"]

_ACTION_OF_OP: Final[Mapping[Op, Action]] = {"add": Action.ADD, "update": Action.UPDATE, "delete": Action.DELETE}


def detect_pod_changes(
    old: Pod, new: Pod, behaviours: Behaviours, rules: RequestRules, *, own: bool = False
) -> list[ClusterEvent]:
    """What an update of a pod amounts to; never empty.

    Args:
        old: the pod before.
        new: the pod after.
        behaviours: how this version of Kubernetes names the events.
        rules: how requests are added up, for pods that may be in the middle of a resize.
        own: whether this is the waiting pod whose hints will be asked; pods with a node never are.
    """
    shrunk, grown = _request_changes(old, new, rules)
    found = (
        (old.metadata.labels != new.metadata.labels, Action.UPDATE_POD_LABEL),
        (shrunk, Action.UPDATE_POD_SCALE_DOWN),
        (grown and behaviours.pod_scale_up_event, Action.UPDATE_POD_SCALE_UP),
        (
            bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates,
            Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        ),
        (len(old.spec.tolerations) != len(new.spec.tolerations), Action.UPDATE_POD_TOLERATION),
        (_generated_claims_differ(old, new), Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
    )
    resource = _resource_of(new, behaviours, own=own)
    events = [_event(resource, action) for changed, action in found if changed]
    return events or [_event(resource, Action.UPDATE)]


def detect_node_changes(old: Node, new: Node, gates: FeatureGates) -> list[ClusterEvent]:
    """What an update of a node amounts to; empty for heartbeats, cordons and the like.

    Uncordoning and a change of taints are an event each, of the same name.

    Raises:
        QuantityError: an allocatable amount that changed is no quantity.
    """
    found = (
        (old.spec.unschedulable and not new.spec.unschedulable, Action.UPDATE_NODE_TAINT),
        (
            not _same_amounts(old.status.allocatable, new.status.allocatable),
            Action.UPDATE_NODE_ALLOCATABLE,
        ),
        (old.metadata.labels != new.metadata.labels, Action.UPDATE_NODE_LABEL),
        (old.spec.taints != new.spec.taints, Action.UPDATE_NODE_TAINT),
        (_condition_statuses(old) != _condition_statuses(new), Action.UPDATE_NODE_CONDITION),
        (old.metadata.annotations != new.metadata.annotations, Action.UPDATE_NODE_ANNOTATION),
        (
            gates.enabled("NodeDeclaredFeatures") and old.status.declared_features != new.status.declared_features,
            Action.UPDATE_NODE_DECLARED_FEATURE,
        ),
    )
    return [_event(Resource.NODE, action) for changed, action in found if changed]


def generic_event(resource: str, op: Op) -> ClusterEvent:
    """What a change of an object that is neither pod nor node amounts to."""
    return _event(resource, _ACTION_OF_OP[op])


def pod_rules(behaviours: Behaviours) -> RequestRules:
    """How the requests of a pod before and after a change are added up."""
    return RequestRules(use_status=True, resize_by_totals=behaviours.resize_footprint_is_max_of_totals)


def events_of_change(
    resource: str, op: Op, old: Any, new: Any, target: Pod, behaviours: Behaviours, gates: FeatureGates
) -> list[ClusterEvent]:
    """The events that the hints for one waiting pod are asked about after a change of some object.

    Args:
        resource: kind of the object, as in registrations.
        op: what happened to it.
        old: the object before, a `Pod` or `Node` for these; None for an add.
        new: the object after; None for a delete.
        target: the waiting pod; a changed pod of the same uid is that pod.
        behaviours: how this version of Kubernetes names the events.
        gates: which features are on.

    Raises:
        TypeError: a pod or node is given in another form.
        QuantityError: an amount that a node offers and that changed is no quantity.
    """
    if resource == Resource.POD and op == "add":
        return [ASSIGNED_POD_ADD]
    if resource == Resource.POD and op == "delete":
        return [ASSIGNED_POD_DELETE]
    if resource == Resource.POD:
        if not (isinstance(old, Pod) and isinstance(new, Pod)):
            raise TypeError(f"an update of a Pod takes two Pods, got {type(old).__name__} and {type(new).__name__}")
        return detect_pod_changes(old, new, behaviours, pod_rules(behaviours), own=new.uid == target.uid)
    if resource == Resource.NODE and op == "update":
        if not (isinstance(old, Node) and isinstance(new, Node)):
            raise TypeError(f"an update of a Node takes two Nodes, got {type(old).__name__} and {type(new).__name__}")
        return detect_node_changes(old, new, gates)
    return [generic_event(resource, op)]


@lru_cache(maxsize=1024)
def _event(resource: str, action: Action) -> ClusterEvent:
    return ClusterEvent(resource, action)


def _resource_of(pod: Pod, behaviours: Behaviours, *, own: bool) -> Resource:
    if pod.spec.node_name:
        return Resource.ASSIGNED_POD
    return Resource(behaviours.own_pod_event_resource if own else behaviours.unscheduled_pod_event_resource)


def _request_changes(old: Pod, new: Pod, rules: RequestRules) -> tuple[bool, bool]:
    """Whether some request may have become less, and whether some may have become more."""
    if _what_requests_follow_from(old) == _what_requests_follow_from(new):
        return False, False
    try:
        before, after = pod_requests(old, rules), pod_requests(new, rules)
    except QuantityError:  # one of the versions is malformed; whoever judges the pod says so
        return True, True
    return _some_is_less(after, before), _some_is_less(before, after)


def _what_requests_follow_from(pod: Pod) -> tuple[Any, ...]:
    spec, status = pod.spec, pod.status
    return (
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
        status.node_allocatable_resource_claim_statuses,
        status.conditions,
    )


def _some_is_less(amounts: Mapping[str, int], than: Mapping[str, int]) -> bool:
    """Whether a resource of *than* is missing in *amounts*, or there by fewer thousandths."""
    return any(name not in amounts or milli(amounts[name]) < milli(nano) for name, nano in than.items())


def _generated_claims_differ(old: Pod, new: Pod) -> bool:
    return (
        old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
    )


def _same_amounts(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    if old == new:
        return True
    return old.keys() == new.keys() and all(nano_value(old[name]) == nano_value(new[name]) for name in old)


def _condition_statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}
