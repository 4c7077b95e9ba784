"""`Handle`: what a plugin is given when it is built.

Source: k8s staging/src/k8s.io/kube-scheduler/framework/interface.go, ``Handle``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from berth.api.meta import PodKey
from berth.api.pod import Pod
from berth.api.storage import PersistentVolume, PersistentVolumeClaim
from berth.cluster.cache import Cluster
from berth.framework.features import Behaviours, FeatureGates
from berth.framework.status import Status


class PodBinder(Protocol):
    """Performs bindings; the shell's, since the core does no I/O."""

    async def bind(self, pod: Pod, node_name: str) -> Status:
        """Bind and say how it went; an answer that was lost is settled by what the API server says."""


class WriteError(Exception):
    """The API server did not take a change; the text says why."""


class Wait(Protocol):
    """Waiting for something that somebody else does; made by `ObjectWriter.wait`."""

    def wake(self) -> None:
        """Something happened: look again."""

    async def turn(self, at_most_s: float) -> bool:
        """Until woken since the last turn, or for at most so long; False once the time for all turns is up."""


class ObjectWriter(Protocol):
    """Writes objects other than pods; the shell's, since the core does no I/O and has no clock.

    A change is written only if nobody has changed the object since the version that it was made from, and only the
    fields named here; whatever else the object has stays.
    """

    async def update_persistent_volume(self, before: PersistentVolume, after: PersistentVolume) -> PersistentVolume:
        """Write the reference to the claim and the annotations; returns the new version.

        Raises:
            WriteError: it was not taken.
        """

    async def update_persistent_volume_claim(
        self, before: PersistentVolumeClaim, after: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Write the annotations; returns the new version.

        Raises:
            WriteError: it was not taken.
        """

    def wait(self, timeout_s: float) -> Wait:
        """The beginning of a wait that takes at most so long."""


PodLister = Callable[[PodKey], Pod | None]
"""A pod by its key as the API server last showed it; None if it does not."""


def shows_no_pod(key: PodKey) -> Pod | None:
    """The lister where there is no API server."""
    del key
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """The surroundings of a plugin.

    Attributes:
        cluster: nodes and pods as the scheduler believes them to be.
        gates: which features are on.
        behaviours: how this version of Kubernetes goes about things.
        lister: a pod by its key as the API server last showed it.
        binder: performs bindings; None where nothing is bound (a simulation, a test of the core).
        writer: writes other objects; None where nothing is written.
    """

    cluster: Cluster
    gates: FeatureGates
    behaviours: Behaviours
    lister: PodLister = shows_no_pod
    binder: PodBinder | None = None
    writer: ObjectWriter | None = None
