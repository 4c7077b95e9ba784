"""What goes wrong while devices are looked for."""

from berth.framework.status import PluginError


class AllocationError(PluginError):
    """No decision is possible, on any node: a claim, a class or a slice is at fault."""


class NodeAllocationError(AllocationError):
    """This node is at fault; others may do."""


class AllocationTimeoutError(AllocationError):
    """The search took too long."""
