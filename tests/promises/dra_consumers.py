# SPDX-License-Identifier: Apache-2.0
"""What other projects read of ResourceSlices and claims, by their rules: Multus (k8snetworkplumbingwg/multus-cni, pkg/draclient),
dcgm-exporter (NVIDIA/dcgm-exporter#714) and KubeVirt 1.9 (kubevirt/enhancements#292)."""

CNI = "k8s.cni.cncf.io"
NETWORK_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"


class Unreadable(Exception):
    """Why a consumer fails."""


def published(slices, result):
    """The attributes of an allocated device."""
    for item in slices:
        spec = item["spec"]
        if spec["driver"] == result["driver"] and spec["pool"]["name"] == result["pool"]:
            for device in spec.get("devices") or []:
                if device["name"] == result["device"]:
                    return device["attributes"]
    raise Unreadable(f"no slice has the device {result['device']}")


def string(attributes, name):
    """A consumer reads a string, and takes no other type for one."""
    value = attributes.get(name, {}).get("string")
    if not value:
        raise Unreadable(f"{name} is missing")
    return value


def results(claims):
    return [result for claim in claims for result in claim["status"]["allocation"]["devices"]["results"]]


class Multus:
    """Gives each network of a pod the next device of its resource. It reads every device of every claim of the pod, so one without
    the two attributes fails all networks."""

    def __init__(self, slices, claims):
        self.devices = {}
        for result in results(claims):
            attributes = published(slices, result)
            name = string(attributes, f"{CNI}/resourceName")
            self.devices.setdefault(name, []).append(string(attributes, f"{CNI}/deviceID"))

    def device_for(self, network):
        """Takes the device for a NetworkAttachmentDefinition."""
        devices = self.devices.get(network["metadata"]["annotations"][NETWORK_RESOURCE])
        if not devices:
            raise Unreadable("no device is left")
        return devices.pop(0)


def dcgm_labels(slices, claims):
    """The GPU to which the metrics of a pod belong, and for an instance its own UUID and profile."""
    found = []
    for result in results(claims):
        if result["driver"] != "gpu.nvidia.com":
            continue
        attributes = published(slices, result)
        if string(attributes, "type") == "mig":
            found.append((string(attributes, "parentUUID"), string(attributes, "uuid"), string(attributes, "profile")))
        else:
            found.append((string(attributes, "uuid"),))
    return found


def kubevirt_host_device(attributes):
    """What a virtual machine gets: a mediated device, or else a PCI function."""
    if "mdevUUID" in attributes:
        return "mdev", string(attributes, "mdevUUID")
    return "pci", string(attributes, "resource.kubernetes.io/pciBusID")
