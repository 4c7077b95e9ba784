"""The allocator answers at every moment what its plain twin answers.

The allocator keeps what it learns as slices, rules, nodes and claims come, change and go; the twin looks at everything
anew.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from tests.builders import a_cluster
from tests.plugins.dynamic_resources.allocator_twin import FaultError, NodeFaultError, Twin
from tests.plugins.dynamic_resources.device_worlds import SELECTORS, Maker, seeds

from berth.cluster.kinds import DEVICE_CLASS, DEVICE_TAINT_RULE, RESOURCE_SLICE
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.allocator import Allocator
from berth.plugins.dynamic_resources.errors import AllocationError, NodeAllocationError
from berth.plugins.dynamic_resources.inventory import Inventory
from berth.plugins.dynamic_resources.rules import AllocatorRules
from berth.plugins.dynamic_resources.standings import AT_FAULT, CANNOT_ALLOCATE, FITS, Standings

if TYPE_CHECKING:
    from berth.api.dra import AllocationResult, ResourceClaim
    from berth.api.node import Node
    from berth.cluster.cache import Cluster

FAULT, NODE_FAULT = "no decision", "the node is at fault"
VERDICTS = {FITS: "fits", CANNOT_ALLOCATE: "does not fit", AT_FAULT: NODE_FAULT}


class Both:
    """The allocator and all that it keeps, beside the twin."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.held: dict[str, ResourceClaim] = {}
        rules = AllocatorRules()
        self.allocated = AllocatedState()
        inventory = Inventory(cluster.objects, rules)
        self.allocator = Allocator(rules, inventory, self.allocated, cluster.objects)
        self.standings = Standings(cluster.table, inventory, self.allocated, self.allocator)

    def hold(self, claim: ResourceClaim) -> None:
        before = self.held.get(claim.key)
        self.allocated.change(before, claim)
        self.held[claim.key] = claim

    def release(self, key: str) -> None:
        self.allocated.change(self.held.pop(key), None)

    def answer(self, node: Node, claims: list[ResourceClaim]) -> Any:
        try:
            return tuple(map(plainly, self.allocator.allocate(node, self.allocator.demand(claims))))
        except NodeAllocationError:
            return NODE_FAULT
        except AllocationError:
            return FAULT

    def verdict(self, node: Node, claims: list[ResourceClaim]) -> str:
        rows = self.cluster.table.live_rows()
        rows = rows[[self.cluster.table.name(row) == node.metadata.name for row in rows.tolist()]]
        try:
            return VERDICTS[self.standings.judge(self.allocator.demand(claims), rows, lambda: None).item(0)]
        except AllocationError:
            return FAULT

    def twin_answer(self, node: Node, claims: list[ResourceClaim]) -> Any:
        objects = self.cluster.objects
        twin = Twin(
            slices=list(objects.list(RESOURCE_SLICE)),
            classes={each.metadata.name: each for each in objects.list(DEVICE_CLASS)},
            rules=list(objects.list(DEVICE_TAINT_RULE)),
            allocated=list(self.held.values()),
            selectors=SELECTORS,
            node=node,
        )
        try:
            picks = twin.give(claims)
        except FaultError:
            return FAULT
        except NodeFaultError:
            return NODE_FAULT
        if picks is None:
            return ()
        by_claim = [[pick for pick in picks if pick.claim == number] for number in range(len(claims))]
        return tuple([(pick.full_name, pick.place.id) for pick in mine] for mine in by_claim)


def plainly(result: AllocationResult) -> list[tuple[str, str]]:
    return [(each.request, f"{each.driver}/{each.pool}/{each.device}") for each in result.devices.results]


@given(seed=seeds)
@settings(max_examples=100, deadline=None)
def test_the_first_solution_is_found_wherever_there_is_one(seed: int) -> None:
    maker = Maker(seed)
    cluster = a_cluster()
    maker.fill(cluster)
    both = Both(cluster)
    claims = maker.asking()
    for _ in chain((None,), maker.changes(cluster)):
        both.hold(maker.held(cluster))
        for row in cluster.table.live_rows().tolist():
            node = cluster.table.node(row)
            expected = both.twin_answer(node, claims)
            assert both.answer(node, claims) == expected
            short = expected if isinstance(expected, str) else "fits" if expected else "does not fit"
            assert both.verdict(node, claims) == short
        if len(both.held) > 2:
            both.release(next(iter(both.held)))
