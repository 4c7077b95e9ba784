"""Who waits for which claims of devices, so that a change wakes those whom it concerns.

Owned by the DynamicResources plugin.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from berth.api.dra import ResourceClaim
from berth.cluster.device_claims import DeviceClaims
from berth.framework.handle import Wait


class ClaimWaiters:
    """Waits, by the keys of the claims that they are about.

    Args:
        claims: where changes are seen.
    """

    def __init__(self, claims: DeviceClaims) -> None:
        self._waits: defaultdict[str, set[Wait]] = defaultdict(set)
        claims.assumed.listen(self._changed)

    @contextmanager
    def told(self, wait: Wait, keys: Iterable[str]) -> Iterator[None]:
        """A block during which *wait* is woken by changes of these claims."""
        topics = frozenset(keys)
        for topic in topics:
            self._waits[topic].add(wait)
        try:
            yield
        finally:
            for topic in topics:
                self._waits[topic].discard(wait)
                if not self._waits[topic]:
                    del self._waits[topic]

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if self._waits and claim is not None:
            for wait in self._waits.get(claim.key, ()):
                wait.wake()
