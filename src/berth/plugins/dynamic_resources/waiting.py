"""Wakes those who wait for claims of devices.

Owned by the DynamicResources plugin.
"""

from berth.api.dra import ResourceClaim
from berth.cluster.device_claims import DeviceClaims
from berth.plugins.waits import Waits


class ClaimWaiters(Waits):
    """Waits, by the keys of the claims that they are about.

    Args:
        claims: where changes are seen.
    """

    def __init__(self, claims: DeviceClaims) -> None:
        super().__init__()
        claims.assumed.listen(self._changed)

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if self and claim is not None:
            self.wake(claim.key)
