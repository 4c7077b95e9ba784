"""What claims were given, in the form in which it is written.

Source: k8s dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go, ``Allocate`` and
``createNodeSelector``.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final
from uuid import UUID, uuid5

from berth.api.affinity import NodeSelector, NodeSelectorTerm
from berth.api.dra import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocationResult,
    Device,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSliceSpec,
)
from berth.api.node_affinity import NAME_FIELD
from berth.api.selectors import IN, SelectorRequirement
from berth.plugins.dynamic_resources.errors import AllocationError
from berth.plugins.dynamic_resources.ids import DeviceId
from berth.plugins.dynamic_resources.pools import DeviceRecord
from berth.plugins.dynamic_resources.requests import Demand, Wish
from berth.plugins.dynamic_resources.rules import AllocatorRules
from berth.plugins.dynamic_resources.search import Choice

_SHARES: Final = UUID("6f2dd2f4-6d0e-4e4b-9d55-1a0c6f0b9a3e")  # names of shares are made in this name space


def results_of(
    demand: Demand,
    choices: Sequence[Choice],
    classes: dict[str, DeviceClass],
    node_name: str,
    rules: AllocatorRules,
) -> tuple[AllocationResult, ...]:
    """What each claim was given.

    Args:
        demand: the claims.
        choices: the devices, in the order of the wishes; see `check_nodes`.
        classes: the classes that the demand names.
        node_name: the node.
        rules: what is in force.
    """
    by_claim: list[list[Choice]] = [[] for _ in demand.claims]
    for choice in choices:
        by_claim[choice.wish.place[0]].append(choice)
    return tuple(
        AllocationResult(
            devices=DeviceAllocationResult(
                results=tuple(_results(claim, mine, rules)),
                config=tuple(_config(demand, number, mine, classes)),
            ),
            node_selector=_node_selector(mine, node_name),
        )
        for number, (claim, mine) in enumerate(zip(demand.claims, by_claim, strict=True))
    )


def _results(
    claim: ResourceClaim, choices: Iterable[Choice], rules: AllocatorRules
) -> Iterable[DeviceRequestAllocationResult]:
    numbers = count()
    for choice in choices:
        wish, record = choice.wish, choice.candidate.record
        waits = rules.binding_conditions
        share = None if choice.taken is None else _share_name(claim, next(numbers), record.id)
        yield DeviceRequestAllocationResult(
            request=wish.full_name,
            driver=record.id.driver,
            pool=record.id.pool,
            device=record.id.device,
            admin_access=True if wish.admin_access else None,
            tolerations=wish.tolerations,
            binding_conditions=record.device.binding_conditions if waits else (),
            binding_failure_conditions=record.device.binding_failure_conditions if waits else (),
            share_id=None if share is None else str(uuid5(_SHARES, share)),
            consumed_capacity={name: amount.text for name, amount in (choice.taken or {}).items()},
        )


def _share_name(claim: ResourceClaim, number: int, device: DeviceId) -> str:
    meta = claim.metadata
    return f"{meta.uid}/{meta.resource_version}/{number}/{device}"


def _config(
    demand: Demand, number: int, choices: Sequence[Choice], classes: dict[str, DeviceClass]
) -> Iterable[DeviceAllocationConfiguration]:
    """Parameters of the classes, each class once, and then those of the claim."""
    claim = demand.claims[number]
    met = _met(demand, number, choices)
    of_class: dict[str, list[str]] = {}
    for wish in met:
        of_class.setdefault(wish.device_class, []).append(wish.full_name)
    for name, requests in of_class.items():
        for config in classes[name].spec.config:
            yield DeviceAllocationConfiguration(
                source=FROM_CLASS, requests=_or_all(requests, claim), opaque=config.opaque
            )
    names = {name for wish in met for name in (wish.request, wish.full_name)}
    for mine in claim.spec.devices.config:
        if not mine.requests or names.intersection(mine.requests):
            yield DeviceAllocationConfiguration(
                source=FROM_CLAIM, requests=_or_all(mine.requests, claim), opaque=mine.opaque
            )


def _met(demand: Demand, number: int, choices: Sequence[Choice]) -> list[Wish]:
    """The wish that was met of each request."""
    chosen = {choice.wish.place[:2]: choice.wish for choice in choices}
    wishes = (
        chosen.get((number, index), request.wishes[0] if request.wishes else None)
        for index, request in enumerate(demand.requests[number])
    )
    return [wish for wish in wishes if wish is not None]


def _or_all(requests: Sequence[str], claim: ResourceClaim) -> tuple[str, ...]:
    """No names stand for all."""
    return () if len(requests) == len(claim.spec.devices.requests) else tuple(requests)


def check_nodes(demand: Demand, choices: Iterable[Choice]) -> None:
    """Check that the nodes of the devices can be put together.

    Raises:
        AllocationError: they cannot, since a device is of nodes that are described in more than one way.
    """
    tied: set[int] = set()
    for choice in choices:
        number, record = choice.wish.place[0], choice.candidate.record
        owner = _owner(record)
        if owner.node_name is not None or record.device.binds_to_node:
            tied.add(number)
        count = 0 if owner.node_selector is None else len(owner.node_selector.node_selector_terms)
        if count > 1 and number not in tied:
            raise AllocationError(
                f"create NodeSelector for claim {demand.claims[number].metadata.name}: "
                f"unsupported ResourceSlice.NodeSelector with {count} terms"
            )


def _owner(record: DeviceRecord) -> Device | ResourceSliceSpec:
    """What says which nodes can use the device."""
    return record.device if record.slice.spec.per_device_node_selection else record.slice.spec


def _node_selector(choices: Iterable[Choice], node_name: str) -> NodeSelector | None:
    """The nodes that can use all the devices; None for all nodes."""
    fields: list[SelectorRequirement] = []
    expressions: list[SelectorRequirement] = []
    for choice in choices:
        record = choice.candidate.record
        owner = _owner(record)
        if owner.node_name is not None or record.device.binds_to_node:
            only = SelectorRequirement(key=NAME_FIELD, operator=IN, values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        terms = () if owner.node_selector is None else owner.node_selector.node_selector_terms
        for term in terms:
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(requirements: Iterable[SelectorRequirement], to: list[SelectorRequirement]) -> None:
    for requirement in requirements:
        if not any(_says_the_same(requirement, each) for each in to):
            to.append(requirement)


def _says_the_same(one: SelectorRequirement, other: SelectorRequirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (other.key, other.operator, set(other.values))
