"""`Handle`: what a plugin is given when it is built.

Source: k8s staging/src/k8s.io/kube-scheduler/framework/interface.go, ``Handle``.
"""

from dataclasses import dataclass
from typing import Protocol

from berth.api.pod import Pod
from berth.cluster.cache import Cluster
from berth.framework.features import Behaviours, FeatureGates
from berth.framework.status import Status


class PodBinder(Protocol):
    """Performs bindings; the shell's, since the core does no I/O."""

    async def bind(self, pod: Pod, node_name: str) -> Status:
        """Bind and say how it went; an answer that was lost is settled by what the API server says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """The surroundings of a plugin.

    Attributes:
        cluster: nodes and pods as the scheduler believes them to be.
        gates: which features are on.
        behaviours: how this version of Kubernetes goes about things.
        binder: performs bindings; None where nothing is bound (a simulation, a test of the core).
    """

    cluster: Cluster
    gates: FeatureGates
    behaviours: Behaviours
    binder: PodBinder | None = None
