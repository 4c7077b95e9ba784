"""Writing volumes and claims for plugins, and the waiting in between.

A change is sent as a merge patch of the fields that differ, on condition that the object still has the version that
the change was made from, so that fields which are not decoded here stay as they are and nothing of anybody else's is
overwritten.  Waiting asks the API server nothing: whoever waits is woken by what the informers show.

Source: k8s pkg/scheduler/framework/plugins/volumebinding/binder.go, ``bindAPIUpdate``.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from berth.api.meta import ObjectMeta
from berth.api.storage import PersistentVolume, PersistentVolumeClaim
from berth.framework.handle import WriteError
from berth.kube.clock import Clock
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import ApiError, KubeError
from berth.kube.session import MERGE_PATCH
from berth.runtime.tasks import end

_encode: Final = msgspec.json.Encoder().encode
_decode_volume: Final = msgspec.json.Decoder(PersistentVolume).decode
_decode_claim: Final = msgspec.json.Decoder(PersistentVolumeClaim).decode

Resting = Callable[[], AbstractContextManager[None]]
"""Makes a block during which the placement at hand only waits, so that others may start in its place."""


class ApiObjectWriter:
    """Performs the writes of plugins.

    Args:
        dispatcher: sends them.
        clock: measures waits.
        may_write: whether we are still allowed to; asked right before each write.
        resting: entered for as long as somebody waits.
    """

    def __init__(self, dispatcher: Dispatcher, clock: Clock, may_write: Callable[[], bool], resting: Resting) -> None:
        self._dispatcher, self._clock = dispatcher, clock
        self._may_write, self._resting = may_write, resting

    async def update_persistent_volume(self, before: PersistentVolume, after: PersistentVolume) -> PersistentVolume:
        """Write the reference to the claim and the annotations; returns the new version.

        Raises:
            WriteError: it was not taken.
        """
        patch = _patch_of(before.metadata, after.metadata)
        if before.spec.claim_ref != after.spec.claim_ref:
            patch["spec"] = {"claimRef": after.spec.claim_ref}
        answer = await self._send(f"/api/v1/persistentvolumes/{before.metadata.name}", patch)
        return _decode_volume(answer)

    async def update_persistent_volume_claim(
        self, before: PersistentVolumeClaim, after: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Write the annotations; returns the new version.

        Raises:
            WriteError: it was not taken.
        """
        meta = before.metadata
        path = f"/api/v1/namespaces/{meta.namespace}/persistentvolumeclaims/{meta.name}"
        return _decode_claim(await self._send(path, _patch_of(meta, after.metadata)))

    def wait(self, timeout_s: float) -> "TimedWait":
        """The beginning of a wait that takes at most so long."""
        return TimedWait(self._clock, timeout_s, self._resting)

    async def _send(self, path: str, patch: dict[str, Any]) -> bytes:
        if not self._may_write():
            raise WriteError("no longer the leader")
        try:
            return await self._dispatcher.write("PATCH", path, _encode(patch), content_type=MERGE_PATCH)
        except ApiError as error:
            raise WriteError(error.message or str(error)) from error
        except KubeError as error:
            raise WriteError(str(error)) from error


class TimedWait:
    """Waiting, turn by turn, until the time for all of it is up.

    Args:
        clock: measures it.
        timeout_s: how long all turns may take together.
        resting: entered for as long as a turn takes.
    """

    def __init__(self, clock: Clock, timeout_s: float, resting: Resting) -> None:
        self._clock, self._resting = clock, resting
        self._end_s = clock.monotonic() + timeout_s
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something happened: look again."""
        self._woken.set()

    async def turn(self, at_most_s: float) -> bool:
        """Until woken since the last turn, or for at most so long; False once the time for all turns is up."""
        left_s = self._end_s - self._clock.monotonic()
        if left_s <= 0:
            return False
        if not self._woken.is_set():
            await self._woken_or_after(min(at_most_s, left_s))
        self._woken.clear()
        return self._clock.monotonic() < self._end_s

    async def _woken_or_after(self, seconds: float) -> None:
        woken = asyncio.ensure_future(self._woken.wait())
        slept = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            with self._resting():
                await asyncio.wait((woken, slept), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(woken, slept)


def _patch_of(before: ObjectMeta, after: ObjectMeta) -> dict[str, Any]:
    """A merge patch of the annotations that differ, on condition that the version is that of *before*."""
    old, new = before.annotations, after.annotations
    changed: dict[str, str | None] = {key: text for key, text in new.items() if old.get(key) != text}
    changed |= dict.fromkeys(key for key in old if key not in new)
    metadata: dict[str, Any] = {"uid": before.uid, "resourceVersion": before.resource_version}
    if changed:
        metadata["annotations"] = changed
    return {"metadata": metadata}
