"""`Handle`: what a plugin is given when it is built.

Source: k8s staging/src/k8s.io/kube-scheduler/framework/interface.go, ``Handle``.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from berth.api.dra import ResourceClaim
from berth.api.meta import PodKey
from berth.api.pod import Pod, PodExtendedResourceClaimStatus
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


class WriteConflictError(WriteError):
    """Somebody else has changed the object since the version that the change was made from."""


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


class ClaimWriter(Protocol):
    """Writes claims of devices, and what pods and users are told of them; as `ObjectWriter` otherwise.

    All but `wait`, `later` and `tell` raise `WriteError` if the API server does not take the change.
    """

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim under a name that is made up for it; returns it as it is then."""

    async def update_finalizers(self, before: ResourceClaim, after: ResourceClaim) -> ResourceClaim:
        """Write the finalizers; returns the new version.

        Raises:
            WriteConflictError: the claim has changed meanwhile.
        """

    async def update_status(self, before: ResourceClaim, after: ResourceClaim) -> ResourceClaim:
        """Write the status, of which only what differs is sent; returns the new version.

        Raises:
            WriteConflictError: the claim has changed meanwhile.
        """

    async def release(self, claim: ResourceClaim, pod: Pod) -> None:
        """Take the pod off the list of those who may use the claim, whatever its version."""

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete this very claim; one that is gone already is fine."""

    async def write_special_claim(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Tell in the pod's status which claim stands for its extended resources."""

    def wait(self, timeout_s: float) -> Wait:
        """The beginning of a wait that takes at most so long."""

    def later(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Perform a write beside everything else; what goes wrong with it is logged."""

    def tell(self, pod: Pod, reason: str, action: str, note: str) -> None:
        """Tell users of the pod something that is no reason to worry, by an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """The surroundings of a plugin.

    Attributes:
        cluster: nodes and pods as the scheduler believes them to be.
        gates: which features are on.
        behaviours: how this version of Kubernetes goes about things.
        lister: a pod by its key as the API server last showed it.
        binder: performs bindings; None where nothing is bound (a simulation, a test of the core).
        writer: writes volumes and their claims; None where nothing is written.
        claim_writer: writes claims of devices; None where nothing is written.
        clock: seconds since 1970; None where time stands still.
        stopwatch: seconds since whenever; None where searches may take as long as they like.
    """

    cluster: Cluster
    gates: FeatureGates
    behaviours: Behaviours
    lister: PodLister = shows_no_pod
    binder: PodBinder | None = None
    writer: ObjectWriter | None = None
    claim_writer: ClaimWriter | None = None
    clock: Callable[[], float] | None = None
    stopwatch: Callable[[], float] | None = None
