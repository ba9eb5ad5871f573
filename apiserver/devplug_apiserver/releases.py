# SPDX-License-Identifier: Apache-2.0
"""What depends on the release of Kubernetes: features and the fields that a server without them drops. A client sees a
dropped field only in the answer to its write."""
from .fields import TYPES

RELEASES = ("1.34", "1.35", "1.36", "1.37", "1.38")
DEFAULT = "1.36"

# The release from which on a feature is on by default; None: it is off in all of these.
FEATURES = {
    "DRAConsumableCapacity": "1.36",
    "DRADeviceBindingConditions": "1.36",
    "DRADeviceTaints": "1.36",
    "DRAExtendedResource": "1.36",
    "DRAFractionalCapacityRange": None,
    "DRAListTypeAttributes": None,
    "DRANodeAllocatableResources": None,
    "DRAPartitionableDevices": "1.36",
}
# Features that older releases lack, so that they cannot be switched on there.
ADDED = {"DRAFractionalCapacityRange": "1.37", "DRAListTypeAttributes": "1.36", "DRANodeAllocatableResources": "1.36"}

# The fields of a feature, by the type that has them.
FIELDS = {
    "DRAConsumableCapacity": {
        "Device": ["allowMultipleAllocations"], "DeviceCapacity": ["requestPolicy"], "DeviceConstraint": ["distinctAttribute"],
        "ExactDeviceRequest": ["capacity"], "DeviceSubRequest": ["capacity"],
        "DeviceRequestAllocationResult": ["shareID", "consumedCapacity"], "AllocatedDeviceStatus": ["shareID"]},
    "DRADeviceBindingConditions": {
        "Device": ["bindsToNode", "bindingConditions", "bindingFailureConditions"], "AllocationResult": ["allocationTimestamp"],
        "DeviceRequestAllocationResult": ["bindingConditions", "bindingFailureConditions"]},
    "DRADeviceTaints": {
        "Device": ["taints"], "ExactDeviceRequest": ["tolerations"], "DeviceSubRequest": ["tolerations"],
        "DeviceRequestAllocationResult": ["tolerations"]},
    "DRAExtendedResource": {"DeviceClassSpec": ["extendedResourceName"]},
    "DRAListTypeAttributes": {"DeviceAttribute": ["bools", "ints", "strings", "versions"]},
    "DRANodeAllocatableResources": {"Device": ["nodeAllocatableResourceMappings"]},
    "DRAPartitionableDevices": {
        "ResourceSliceSpec": ["perDeviceNodeSelection", "sharedCounters"],
        "Device": ["consumesCounters", "nodeName", "nodeSelector", "allNodes"]},
}


def number(release):
    return tuple(map(int, release.split(".")))


class Release:
    """`features`: switched on or off, in place of the release's default."""

    def __init__(self, name=DEFAULT, features=None):
        if name not in RELEASES:
            raise ValueError(f"release {name} is unknown; known are {', '.join(RELEASES)}")
        for feature, on in (features or {}).items():
            if feature not in FEATURES:
                raise ValueError(f"feature {feature} is unknown; known are {', '.join(FEATURES)}")
            if on and number(name) < number(ADDED.get(feature, name)):
                raise ValueError(f"Kubernetes {name} does not have the feature {feature}")
        self.name = name
        self.on = {feature: since is not None and number(name) >= number(since) for feature, since in FEATURES.items()}
        self.on.update(features or {})
        self.dropped = {(kind, field) for feature, kinds in FIELDS.items() if not self.on[feature]
                        for kind, fields in kinds.items() for field in fields}
        assert all(field in {name.rstrip("!") for name in TYPES[kind]} for kind, field in self.dropped)

    def at_least(self, name):
        return number(self.name) >= number(name)
