"""Writing claims of devices for plugins, and telling pods and users of them.

A change is sent as a merge patch of the fields that differ, on condition that the claim still has the version that the
change was made from; what others write there and is not decoded here stays as it is.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``bindClaim``.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final
from urllib.parse import quote

import msgspec

from berth.api.dra import ResourceClaim, ResourceClaimStatus
from berth.api.pod import Pod, PodExtendedResourceClaimStatus
from berth.framework.handle import WriteConflictError, WriteError
from berth.kube.clock import Clock
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import ApiError, ConflictError, KubeError, NotFoundError
from berth.kube.events import EventRecorder
from berth.kube.session import JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from berth.runtime.objects_writer import Resting, TimedWait
from berth.runtime.reports import reference
from berth.runtime.tasks import end

_log = logging.getLogger(__name__)

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(ResourceClaim).decode
_API: Final = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
_STATUS: Final = (("allocation", "allocation"), ("reserved_for", "reservedFor"), ("devices", "devices"))


class ApiClaimWriter:
    """Performs the writes of DynamicResources.

    Args:
        dispatcher: sends them.
        recorder: posts events.
        clock: measures waits.
        may_write: whether we are still allowed to; asked right before each write.
        resting: entered for as long as somebody waits.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        recorder: EventRecorder,
        clock: Clock,
        may_write: Callable[[], bool],
        resting: Resting,
    ) -> None:
        self._dispatcher, self._recorder, self._clock = dispatcher, recorder, clock
        self._may_write, self._resting = may_write, resting
        self._later: set[asyncio.Task[None]] = set()

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim under a name that is made up for it.

        Raises:
            WriteError: it was not taken.
        """
        body = {**_API, **msgspec.to_builtins(claim)}
        return _decode(await self._send("POST", _path(claim, named=False), body))

    async def update_finalizers(self, before: ResourceClaim, after: ResourceClaim) -> ResourceClaim:
        """Write the finalizers.

        Raises:
            WriteConflictError: the claim has changed meanwhile.
            WriteError: it was not taken.
        """
        patch = {"metadata": {**_version(before), "finalizers": list(after.metadata.finalizers)}}
        return _decode(await self._send("PATCH", _path(before), patch, MERGE_PATCH))

    async def update_status(self, before: ResourceClaim, after: ResourceClaim) -> ResourceClaim:
        """Write what differs in the status.

        Raises:
            WriteConflictError: the claim has changed meanwhile.
            WriteError: it was not taken.
        """
        patch = {"metadata": _version(before), "status": _changes(before.status, after.status)}
        return _decode(await self._send("PATCH", f"{_path(before)}/status", patch, MERGE_PATCH))

    async def release(self, claim: ResourceClaim, pod: Pod) -> None:
        """Take the pod off the list of those who may use the claim.

        Raises:
            WriteError: it was not taken.
        """
        gone = [{"$patch": "delete", "uid": pod.uid}]
        patch = {"metadata": {"uid": claim.metadata.uid}, "status": {"reservedFor": gone}}
        await self._send("PATCH", f"{_path(claim)}/status", patch, STRATEGIC_MERGE_PATCH)

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete this very claim.

        Raises:
            WriteError: it was not taken.
        """
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": claim.metadata.uid}}
        try:
            await self._send("DELETE", _path(claim), options)
        except WriteError as error:
            if not isinstance(error.__cause__, NotFoundError):
                raise

    async def write_special_claim(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Tell in the pod's status which claim stands for its extended resources.

        Raises:
            WriteError: it was not taken.
        """
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": {"extendedResourceClaimStatus": status}}
        path = f"/api/v1/namespaces/{quote(meta.namespace)}/pods/{quote(meta.name)}/status"
        await self._send("PATCH", path, patch, STRATEGIC_MERGE_PATCH)

    def wait(self, timeout_s: float) -> TimedWait:
        """The beginning of a wait that takes at most so long."""
        return TimedWait(self._clock, timeout_s, self._resting)

    def later(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Perform a write beside everything else; what goes wrong with it is logged."""
        task = asyncio.create_task(_logged(write))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def tell(self, pod: Pod, reason: str, action: str, note: str) -> None:
        """Tell users of the pod something that is no reason to worry."""
        controller = pod.spec.scheduler_name
        self._recorder.event(reference(pod), "Normal", reason, action, note, controller=controller)

    async def close(self) -> None:
        """Stop what is written beside everything else."""
        await end(*self._later)

    async def _send(self, method: str, path: str, body: dict[str, Any], content_type: str = JSON) -> bytes:
        if not self._may_write():
            raise WriteError("no longer the leader")
        try:
            return await self._dispatcher.write(method, path, _encode(body), content_type=content_type)
        except ConflictError as error:
            raise WriteConflictError(error.message or str(error)) from error
        except ApiError as error:
            raise WriteError(error.message or str(error)) from error
        except KubeError as error:
            raise WriteError(str(error)) from error


async def _logged(write: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await write()
    except WriteError as error:
        _log.warning("a claim of devices was not changed: %s", error)


def _path(claim: ResourceClaim, *, named: bool = True) -> str:
    meta = claim.metadata
    path = f"/apis/resource.k8s.io/v1/namespaces/{quote(meta.namespace)}/resourceclaims"
    return f"{path}/{quote(meta.name)}" if named else path


def _version(claim: ResourceClaim) -> dict[str, str]:
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}


def _changes(before: ResourceClaimStatus, after: ResourceClaimStatus) -> dict[str, Any]:
    """The fields that differ; None for those that are to go."""
    return {
        field: getattr(after, name) or None for name, field in _STATUS if getattr(before, name) != getattr(after, name)
    }
