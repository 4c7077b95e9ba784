"""DefaultBinder: binds a pod to its node by the API server's binding subresource.

Points: Bind.  Never leaves the binding to another plugin; a failure is an error.  Waits for nothing, takes no
arguments.  How the call is made, repeated and paced is the binder's business, which the shell provides.

Source: k8s pkg/scheduler/framework/plugins/defaultbinder/default_binder.go.
"""

from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.status import Status, error


class DefaultBinder:
    """Hands bindings to the shell."""

    name = "DefaultBinder"

    def __init__(self, handle: Handle) -> None:
        self._binder = handle.binder

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success once the API server has the binding."""
        del state
        if self._binder is None:
            return error(f"nothing here performs bindings, so {pod.key} cannot be bound to {node_name}")
        return await self._binder.bind(pod.pod, node_name)
