"""How many devices of a class a node has, and how many of them are given: what scores of resources look at.

Source: k8s pkg/scheduler/framework/plugins/noderesources/resource_allocation.go.
"""

import logging
from collections.abc import Iterator

from berth.api.affinity import NodeSelector
from berth.api.dra import DeviceClass
from berth.api.node import Node
from berth.api.node_affinity import compile_node_selector
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.allocator import selects
from berth.plugins.dynamic_resources.errors import AllocationError
from berth.plugins.dynamic_resources.inventory import Inventory
from berth.plugins.dynamic_resources.pools import DeviceRecord, SliceRecord

_log = logging.getLogger(__name__)


class DeviceTotals:
    """Counts devices.

    Args:
        inventory: all devices.
        allocated: the devices that claims have.
    """

    def __init__(self, inventory: Inventory, allocated: AllocatedState) -> None:
        self._inventory, self._allocated = inventory, allocated

    def of_class(self, device_class: DeviceClass, node: Node) -> tuple[int, int]:
        """(devices, devices that are given) of the class on *node*; none after an error, which is logged."""
        whose = f"class {device_class.metadata.name}"
        capacity = allocated = 0
        try:
            for record in self._devices(node):
                if selects(device_class.spec.selectors, record, whose, detailed=True):
                    capacity += 1
                    allocated += self._allocated.is_taken(record.id)
        except AllocationError as error:
            _log.error("devices of node %s are not counted: %s", node.metadata.name, error)
            return 0, 0
        return capacity, allocated

    def _devices(self, node: Node) -> Iterator[DeviceRecord]:
        for record in (*self._inventory.on_node(node.metadata.name), *self._inventory.shared()):
            if record.slice.spec.per_device_node_selection:
                for each in record.devices:
                    device = each.device
                    is_named = device.node_name == node.metadata.name
                    if device.all_nodes or is_named or _selects_node(device.node_selector, node):
                        yield each
            elif self._concerns(record, node):
                yield from record.devices

    @staticmethod
    def _concerns(record: SliceRecord, node: Node) -> bool:
        spec = record.slice.spec
        return bool(spec.all_nodes or spec.node_name or spec.node_selector is None) or _selects_node(
            spec.node_selector, node
        )


def _selects_node(selector: NodeSelector | None, node: Node) -> bool:
    if selector is None:
        return False
    compiled = compile_node_selector(selector)
    for fault in compiled.faults:
        raise AllocationError(f"failed to parse node selector: {fault}")
    return compiled.matches(node)
