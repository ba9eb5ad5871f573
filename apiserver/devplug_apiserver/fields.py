# SPDX-License-Identifier: Apache-2.0
"""The fields of the API's objects. Made by apiserver/make-fields from @kubernetes/client-node 2.0.1, which has the API of
Kubernetes 1.36; do not edit. "!": required; "[X]": a list, "{X}": a map from strings."""
RELEASE = "1.36"
TYPES = {
    "AllocatedDeviceStatus": {
        "conditions": "[Condition]",
        "data": "any",
        "device!": "string",
        "driver!": "string",
        "networkData": "NetworkDeviceData",
        "pool!": "string",
        "shareID": "string",
    },
    "AllocationResult": {
        "allocationTimestamp": "time",
        "devices": "DeviceAllocationResult",
        "nodeSelector": "NodeSelector",
    },
    "CELDeviceSelector": {
        "expression!": "string",
    },
    "CapacityRequestPolicy": {
        "default": "string",
        "validRange": "CapacityRequestPolicyRange",
        "validValues": "[string]",
    },
    "CapacityRequestPolicyRange": {
        "max": "string",
        "min!": "string",
        "step": "string",
    },
    "CapacityRequirements": {
        "requests": "{string}",
    },
    "Condition": {
        "lastTransitionTime!": "time",
        "message!": "string",
        "observedGeneration": "integer",
        "reason!": "string",
        "status!": "string",
        "type!": "string",
    },
    "Counter": {
        "value!": "string",
    },
    "CounterSet": {
        "counters!": "{Counter}",
        "name!": "string",
    },
    "Device": {
        "allNodes": "boolean",
        "allowMultipleAllocations": "boolean",
        "attributes": "{DeviceAttribute}",
        "bindingConditions": "[string]",
        "bindingFailureConditions": "[string]",
        "bindsToNode": "boolean",
        "capacity": "{DeviceCapacity}",
        "consumesCounters": "[DeviceCounterConsumption]",
        "name!": "string",
        "nodeAllocatableResourceMappings": "{NodeAllocatableResourceMapping}",
        "nodeName": "string",
        "nodeSelector": "NodeSelector",
        "taints": "[DeviceTaint]",
    },
    "DeviceAllocationConfiguration": {
        "opaque": "OpaqueDeviceConfiguration",
        "requests": "[string]",
        "source!": "string",
    },
    "DeviceAllocationResult": {
        "config": "[DeviceAllocationConfiguration]",
        "results": "[DeviceRequestAllocationResult]",
    },
    "DeviceAttribute": {
        "bool": "boolean",
        "bools": "[boolean]",
        "int": "integer",
        "ints": "[integer]",
        "string": "string",
        "strings": "[string]",
        "version": "string",
        "versions": "[string]",
    },
    "DeviceCapacity": {
        "requestPolicy": "CapacityRequestPolicy",
        "value!": "string",
    },
    "DeviceClaim": {
        "config": "[DeviceClaimConfiguration]",
        "constraints": "[DeviceConstraint]",
        "requests": "[DeviceRequest]",
    },
    "DeviceClaimConfiguration": {
        "opaque": "OpaqueDeviceConfiguration",
        "requests": "[string]",
    },
    "DeviceClass": {
        "apiVersion": "string",
        "kind": "string",
        "metadata": "any",
        "spec!": "DeviceClassSpec",
    },
    "DeviceClassConfiguration": {
        "opaque": "OpaqueDeviceConfiguration",
    },
    "DeviceClassSpec": {
        "config": "[DeviceClassConfiguration]",
        "extendedResourceName": "string",
        "selectors": "[DeviceSelector]",
    },
    "DeviceConstraint": {
        "distinctAttribute": "string",
        "matchAttribute": "string",
        "requests": "[string]",
    },
    "DeviceCounterConsumption": {
        "counterSet!": "string",
        "counters!": "{Counter}",
    },
    "DeviceRequest": {
        "exactly": "ExactDeviceRequest",
        "firstAvailable": "[DeviceSubRequest]",
        "name!": "string",
    },
    "DeviceRequestAllocationResult": {
        "adminAccess": "boolean",
        "bindingConditions": "[string]",
        "bindingFailureConditions": "[string]",
        "consumedCapacity": "{string}",
        "device!": "string",
        "driver!": "string",
        "pool!": "string",
        "request!": "string",
        "shareID": "string",
        "tolerations": "[DeviceToleration]",
    },
    "DeviceSelector": {
        "cel": "CELDeviceSelector",
    },
    "DeviceSubRequest": {
        "allocationMode": "string",
        "capacity": "CapacityRequirements",
        "count": "integer",
        "deviceClassName!": "string",
        "name!": "string",
        "selectors": "[DeviceSelector]",
        "tolerations": "[DeviceToleration]",
    },
    "DeviceTaint": {
        "effect!": "string",
        "key!": "string",
        "timeAdded": "time",
        "value": "string",
    },
    "DeviceToleration": {
        "effect": "string",
        "key": "string",
        "operator": "string",
        "tolerationSeconds": "integer",
        "value": "string",
    },
    "ExactDeviceRequest": {
        "adminAccess": "boolean",
        "allocationMode": "string",
        "capacity": "CapacityRequirements",
        "count": "integer",
        "deviceClassName!": "string",
        "selectors": "[DeviceSelector]",
        "tolerations": "[DeviceToleration]",
    },
    "NetworkDeviceData": {
        "hardwareAddress": "string",
        "interfaceName": "string",
        "ips": "[string]",
    },
    "NodeAllocatableResourceMapping": {
        "allocationMultiplier": "string",
        "capacityKey": "string",
    },
    "NodeSelector": {
        "nodeSelectorTerms!": "[NodeSelectorTerm]",
    },
    "NodeSelectorRequirement": {
        "key!": "string",
        "operator!": "string",
        "values": "[string]",
    },
    "NodeSelectorTerm": {
        "matchExpressions": "[NodeSelectorRequirement]",
        "matchFields": "[NodeSelectorRequirement]",
    },
    "OpaqueDeviceConfiguration": {
        "driver!": "string",
        "parameters!": "any",
    },
    "ResourceClaim": {
        "apiVersion": "string",
        "kind": "string",
        "metadata": "any",
        "spec!": "ResourceClaimSpec",
        "status": "ResourceClaimStatus",
    },
    "ResourceClaimConsumerReference": {
        "apiGroup": "string",
        "name!": "string",
        "resource!": "string",
        "uid!": "string",
    },
    "ResourceClaimSpec": {
        "devices": "DeviceClaim",
    },
    "ResourceClaimStatus": {
        "allocation": "AllocationResult",
        "devices": "[AllocatedDeviceStatus]",
        "reservedFor": "[ResourceClaimConsumerReference]",
    },
    "ResourceClaimTemplate": {
        "apiVersion": "string",
        "kind": "string",
        "metadata": "any",
        "spec!": "ResourceClaimTemplateSpec",
    },
    "ResourceClaimTemplateSpec": {
        "metadata": "any",
        "spec!": "ResourceClaimSpec",
    },
    "ResourcePool": {
        "generation!": "integer",
        "name!": "string",
        "resourceSliceCount!": "integer",
    },
    "ResourceSlice": {
        "apiVersion": "string",
        "kind": "string",
        "metadata": "any",
        "spec!": "ResourceSliceSpec",
    },
    "ResourceSliceSpec": {
        "allNodes": "boolean",
        "devices": "[Device]",
        "driver!": "string",
        "nodeName": "string",
        "nodeSelector": "NodeSelector",
        "perDeviceNodeSelection": "boolean",
        "pool!": "ResourcePool",
        "sharedCounters": "[CounterSet]",
    },
}
