"""Who waits for which claims and volumes, so that a change wakes those whom it concerns.

Nothing is asked of the API server: what it shows comes to those who wait, as it comes to everybody.  Owned by the
VolumeBinding plugin.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from berth.api.storage import PersistentVolume, PersistentVolumeClaim
from berth.cluster.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from berth.cluster.objects import Objects
from berth.framework.handle import Wait
from berth.plugins.volume_binding.booking import Booking


class Waiters:
    """Waits, by what they are about: the key of a claim, or the name of a volume.

    Args:
        objects: where changes are shown.
    """

    def __init__(self, objects: Objects) -> None:
        self._waits: defaultdict[str, set[Wait]] = defaultdict(set)
        objects.listen(PERSISTENT_VOLUME, self._volume_changed)
        objects.listen(PERSISTENT_VOLUME_CLAIM, self._claim_changed)

    @contextmanager
    def told(self, wait: Wait, booking: Booking) -> Iterator[None]:
        """A block during which *wait* is woken by changes of what *booking* is about."""
        topics = {binding.claim.key for binding in booking.bindings}
        topics |= {binding.volume.metadata.name for binding in booking.bindings}
        topics |= {provisioning.claim.key for provisioning in booking.provisionings}
        for topic in topics:
            self._waits[topic].add(wait)
        try:
            yield
        finally:
            for topic in topics:
                self._waits[topic].discard(wait)
                if not self._waits[topic]:
                    del self._waits[topic]

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        if not self._waits or volume is None:
            return
        self._wake(volume.metadata.name)
        reference = volume.spec.claim_ref
        if reference is not None:
            self._wake(f"{reference.namespace}/{reference.name}")

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = new or old
        if self._waits and claim is not None:
            self._wake(claim.key)

    def _wake(self, topic: str) -> None:
        for wait in self._waits.get(topic, ()):
            wait.wake()
