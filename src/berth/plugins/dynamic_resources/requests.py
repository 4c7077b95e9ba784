"""`Demand`: claims to be given devices, worked out once for all nodes.

Source: k8s dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go, ``requestAccessor``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from berth.api.dra import CapacityRequirements, DeviceRequest, DeviceSelector, DeviceSubRequest, ResourceClaim
from berth.api.pod import Toleration

_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode
_NO_AMOUNTS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """A request, or one of its alternatives.

    Attributes:
        name: the name of the request, or of the alternative.
        parent: the name of the request that this is an alternative of; empty for a request.
        place: where it stands: numbers of its claim, its request and its alternative.
        device_class: the name of the class.
        selectors: what it selects by.
        mode: ``ExactCount`` or ``All``.
        count: how many devices, for ``ExactCount``.
        admin_access: whether devices that others use will do; None where nothing is said.
        tolerations: the taints that it puts up with.
        capacity: capacity -> how much of it, as a quantity.
        asks_for_capacity: whether it speaks of capacities at all.
    """

    name: str
    parent: str
    place: tuple[int, int, int]
    device_class: str
    selectors: tuple[DeviceSelector, ...]
    mode: str
    count: int
    admin_access: bool | None
    tolerations: tuple[Toleration, ...]
    capacity: Mapping[str, str]
    asks_for_capacity: bool

    @property
    def request(self) -> str:
        """The name of the request."""
        return self.parent or self.name

    @property
    def subrequest(self) -> str:
        """The name of the alternative; empty for a request."""
        return self.name if self.parent else ""

    @property
    def full_name(self) -> str:
        """``request`` or ``request/alternative``."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A request: one wish, or alternatives of which the first that can be met counts."""

    name: str
    wishes: tuple[Wish, ...]
    has_alternatives: bool


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Claims to be given devices.

    Attributes:
        claims: the claims.
        requests: those of each claim.
        key: equal for demands that are met alike, but for the names of the claims.
        token: the same for all demands with that key, as long as the classes of devices stay as they are.
    """

    claims: tuple[ResourceClaim, ...]
    requests: tuple[tuple[Request, ...], ...]
    key: bytes = field(repr=False)
    token: object = None

    def wishes(self) -> Iterator[Wish]:
        """All wishes."""
        for requests in self.requests:
            for request in requests:
                yield from request.wishes


def demand_of(claims: Sequence[ResourceClaim]) -> Demand:
    """The demand that claims make together."""
    requests = tuple(
        tuple(_request(each, (number, index)) for index, each in enumerate(claim.spec.devices.requests))
        for number, claim in enumerate(claims)
    )
    return Demand(tuple(claims), requests, _ENCODE([claim.spec.devices for claim in claims]))


def _request(request: DeviceRequest, place: tuple[int, int]) -> Request:
    if request.first_available:
        wishes = tuple(_alternative(request, each, (*place, i)) for i, each in enumerate(request.first_available))
        return Request(request.name, wishes, has_alternatives=True)
    exact = request.exactly
    if exact is None:
        return Request(request.name, (), has_alternatives=False)
    wish = Wish(
        name=request.name,
        parent="",
        place=(*place, 0),
        device_class=exact.device_class_name,
        selectors=exact.selectors,
        mode=exact.allocation_mode,
        count=exact.count,
        admin_access=exact.admin_access,
        tolerations=exact.tolerations,
        capacity=_amounts(exact.capacity),
        asks_for_capacity=exact.capacity is not None,
    )
    return Request(request.name, (wish,), has_alternatives=False)


def _alternative(request: DeviceRequest, sub: DeviceSubRequest, place: tuple[int, int, int]) -> Wish:
    return Wish(
        name=sub.name,
        parent=request.name,
        place=place,
        device_class=sub.device_class_name,
        selectors=sub.selectors,
        mode=sub.allocation_mode,
        count=sub.count,
        admin_access=None,
        tolerations=sub.tolerations,
        capacity=_amounts(sub.capacity),
        asks_for_capacity=sub.capacity is not None,
    )


def _amounts(capacity: CapacityRequirements | None) -> Mapping[str, str]:
    return _NO_AMOUNTS if capacity is None else capacity.requests
