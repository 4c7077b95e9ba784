"""What the queueing hints of several plugins share: checks of the objects they are given, and whose pod an event is of.

Relies on the objects being of `berth.api`; kinds that have no struct yet arrive as decoded JSON.  Called by the hints
of the plugins of this folder.

Source: k8s pkg/scheduler/util/utils.go, ``As``.
"""

from typing import Any, Final, TypeVar

from berth.api.node import Node
from berth.api.pod import Pod
from berth.framework.events import HintError, Resource
from berth.framework.features import Behaviours

T = TypeVar("T")

_NAMES: Final[dict[type, str]] = {Pod: "*v1.Pod", Node: "*v1.Node", dict: "a decoded object", type(None): "<nil>"}


def own_pod(behaviours: Behaviours) -> Resource:
    """The resource to register for changes of the waiting pod itself; older versions cannot tell it from others."""
    return Resource.TARGET_POD if behaviours.pod_hints_tell_own_from_others else Resource.POD


def assigned_pod(behaviours: Behaviours) -> Resource:
    """The resource to register for pods that have a node; older versions cannot tell them from others."""
    return Resource.ASSIGNED_POD if behaviours.pod_hints_tell_own_from_others else Resource.POD


def before_and_after(kind: type[T], old: Any, new: Any) -> tuple[T | None, T]:
    """The objects of an add (nothing before) or an update.

    Raises:
        HintError: one of them is of another kind, or there is nothing after the change.
    """
    return optional(kind, old), required(kind, new)


def optional(kind: type[T], thing: Any) -> T | None:
    """*thing*, if it is None or of *kind*.

    Raises:
        HintError: it is of another kind.
    """
    return None if thing is None else required(kind, thing)


def required(kind: type[T], thing: Any) -> T:
    """*thing*, if it is of *kind*.

    Raises:
        HintError: it is of another kind, or None.
    """
    if isinstance(thing, kind):
        return thing
    raise HintError(f"expected {_name(kind)}, but got {_name(type(thing))}")


def _name(kind: type) -> str:
    return _NAMES.get(kind, kind.__name__)
