"""What the devices of a claim must have in common, or must not.

Source: k8s dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go and constraint.go.
"""

from typing import Final, Protocol

from berth.api.dra import DeviceAttribute, DeviceClaim
from berth.plugins.dynamic_resources.errors import AllocationError
from berth.plugins.dynamic_resources.pools import DeviceRecord

_Value = tuple[str, object]
_INCOMPARABLE: Final = ("", None)


class Constraint(Protocol):
    """Devices are added and, in the reverse order, given up again."""

    def add(self, request: str, subrequest: str, record: DeviceRecord) -> bool:
        """Add a device that meets a request; False, and not added, if the constraint forbids it."""

    def remove(self, request: str, subrequest: str) -> None:
        """Undo the last `add` that was allowed; it had these arguments."""


class _Scope:
    """The requests that a constraint is about, and the attribute."""

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute

    def _concerns(self, request: str, subrequest: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(subrequest) and f"{request}/{subrequest}" in self._requests

    def _value(self, record: DeviceRecord) -> _Value | None:
        attributes = record.device.attributes
        found = attributes.get(self._attribute)
        if found is None:
            domain, slash, name = self._attribute.partition("/")
            found = attributes.get(name) if slash and domain == record.id.driver else None
        return None if found is None else _value(found)


class MatchAttribute(_Scope):
    """All devices have the attribute, with the same value."""

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._common: _Value = _INCOMPARABLE
        self._count = 0

    def add(self, request: str, subrequest: str, record: DeviceRecord) -> bool:
        """See `Constraint`."""
        if not self._concerns(request, subrequest):
            return True
        value = self._value(record)
        if value is None:
            return False
        if self._count == 0:
            self._common = value
        elif value == _INCOMPARABLE or value != self._common:
            return False
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        """See `Constraint`."""
        if self._concerns(request, subrequest):
            self._count -= 1


class DistinctAttribute(_Scope):
    """All devices have the attribute, no two with the same value."""

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: list[_Value] = []

    def add(self, request: str, subrequest: str, record: DeviceRecord) -> bool:
        """See `Constraint`."""
        if not self._concerns(request, subrequest):
            return True
        value = self._value(record)
        if value is None or not _is_new(value, self._values):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, subrequest: str) -> None:
        """See `Constraint`."""
        if self._concerns(request, subrequest):
            self._values.pop()


class DistinctAttributeOfRequests(_Scope):
    """As `DistinctAttribute`, but of each request only the last device counts."""

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, _Value] = {}
        self._count = 0

    def add(self, request: str, subrequest: str, record: DeviceRecord) -> bool:
        """See `Constraint`."""
        if not self._concerns(request, subrequest):
            return True
        value = self._value(record)
        if value is None or (self._count and not _is_new(value, list(self._values.values()))):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        """See `Constraint`."""
        if self._concerns(request, subrequest):
            self._values.pop(request, None)
            self._count -= 1


def constraints_of(claim: DeviceClaim, key: str, *, per_device: bool) -> list[Constraint]:
    """The constraints of a claim, without devices.

    Args:
        claim: what is asked for.
        key: ``namespace/name`` of the claim.
        per_device: whether each device of a request has to be distinct.

    Raises:
        AllocationError: a constraint says nothing.
    """
    distinct = DistinctAttribute if per_device else DistinctAttributeOfRequests
    made: list[Constraint] = []
    for number, constraint in enumerate(claim.constraints):
        if constraint.match_attribute is not None:
            made.append(MatchAttribute(constraint.requests, constraint.match_attribute))
        elif constraint.distinct_attribute is not None:
            made.append(distinct(constraint.requests, constraint.distinct_attribute))
        else:
            raise AllocationError(f"claim {key}, constraint #{number}: empty constraint (unsupported constraint type?)")
    return made


def _value(attribute: DeviceAttribute) -> _Value:
    for kind, value in (
        ("string", attribute.string_value),
        ("int", attribute.int_value),
        ("bool", attribute.bool_value),
        ("version", attribute.version_value),
    ):
        if value is not None:
            return kind, value
    return _INCOMPARABLE


def _is_new(value: _Value, values: list[_Value]) -> bool:
    return not values or (value != _INCOMPARABLE and value not in values)
