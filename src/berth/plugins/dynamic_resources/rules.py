"""`AllocatorRules`: which features of devices are in force, and how the emulated version goes about them.

Made once from gates and behaviours; everything else in this package asks here.
"""

from dataclasses import dataclass

from berth.framework.features import Behaviours, FeatureGates


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorRules:
    """Features and ways of the allocator; the defaults are those of the newest version, with all features.

    Attributes:
        admin_access: a request may look at devices that others use.
        prioritized_list: a request may name alternatives.
        partitionable_devices: devices may draw on shared counters and choose their nodes one by one.
        device_taints: taints keep devices from being given.
        taint_rules: rules taint devices, too.
        binding_conditions: devices may want to be prepared before a pod is bound.
        consumable_capacity: a device may be shared by the amount.
        fractional_capacity: ranges of capacities may be in thousandths.
        distinct_per_device: ``distinctAttribute`` holds between the devices of one request, too; otherwise only the
            last device of each request counts.
        corrected_counters: counters are given back whenever a device is given up; otherwise not by a device that is
            refused for its taints or a constraint, nor by one that can be shared.
        detailed_errors: errors name the device, and give hints.
    """

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    taint_rules: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    fractional_capacity: bool = True
    distinct_per_device: bool = True
    corrected_counters: bool = True
    detailed_errors: bool = True

    @classmethod
    def of(cls, gates: FeatureGates, behaviours: Behaviours) -> "AllocatorRules":
        """The rules of an emulated version."""
        on = gates.enabled
        return cls(
            admin_access=on("DRAAdminAccess"),
            prioritized_list=on("DRAPrioritizedList"),
            partitionable_devices=on("DRAPartitionableDevices"),
            device_taints=on("DRADeviceTaints"),
            taint_rules=on("DRADeviceTaints") and on("DRADeviceTaintRules"),
            binding_conditions=on("DRADeviceBindingConditions") and on("DRAResourceClaimDeviceStatus"),
            consumable_capacity=on("DRAConsumableCapacity"),
            fractional_capacity=on("DRAFractionalCapacityRange"),
            distinct_per_device=behaviours.dra_distinct_attribute_per_device,
            corrected_counters=behaviours.dra_allocator_corrected_counters,
            detailed_errors=behaviours.dra_detailed_allocator_errors,
        )
