"""Wakes those who wait for claims and volumes.

Owned by the VolumeBinding plugin.
"""

from contextlib import AbstractContextManager

from berth.api.storage import PersistentVolume, PersistentVolumeClaim
from berth.cluster.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from berth.cluster.objects import Objects
from berth.framework.handle import Wait
from berth.plugins.volume_binding.booking import Booking
from berth.plugins.waits import Waits


class Waiters:
    """Waits, by what they are about: the key of a claim, or the name of a volume.

    Args:
        objects: where changes are shown.
    """

    def __init__(self, objects: Objects) -> None:
        self._waits = Waits()
        objects.listen(PERSISTENT_VOLUME, self._volume_changed)
        objects.listen(PERSISTENT_VOLUME_CLAIM, self._claim_changed)

    def told(self, wait: Wait, booking: Booking) -> AbstractContextManager[None]:
        """A block during which *wait* is woken by changes of what *booking* is about."""
        topics = {binding.claim.key for binding in booking.bindings}
        topics |= {binding.volume.metadata.name for binding in booking.bindings}
        topics |= {provisioning.claim.key for provisioning in booking.provisionings}
        return self._waits.told(wait, topics)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        if not self._waits or volume is None:
            return
        self._waits.wake(volume.metadata.name)
        reference = volume.spec.claim_ref
        if reference is not None:
            self._waits.wake(f"{reference.namespace}/{reference.name}")

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = new or old
        if self._waits and claim is not None:
            self._waits.wake(claim.key)
