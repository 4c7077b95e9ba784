"""The names that devices and their pools go by."""

from typing import NamedTuple


class PoolId(NamedTuple):
    """A pool of devices of one driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"

    @property
    def pool_id(self) -> PoolId:
        """The pool that it is in."""
        return PoolId(self.driver, self.pool)
