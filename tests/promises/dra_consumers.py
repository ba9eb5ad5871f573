# SPDX-License-Identifier: Apache-2.0
"""What other projects read of ResourceSlices, claims and metadata, by their rules: Multus (k8snetworkplumbingwg/multus-cni,
pkg/draclient), dcgm-exporter (NVIDIA/dcgm-exporter#714), KubeVirt 1.9 (kubevirt/enhancements#292), and any reader of
metadata (k8s.io/dynamic-resource-allocation/devicemetadata)."""
import json

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


def read_metadata(text, versions=("v1beta1", "v1alpha1")):
    """The first object of a known version in the stream; an object of another version is skipped."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        found, at = decoder.raw_decode(text, at)
        group, _, version = found["apiVersion"].partition("/")
        if (group, found["kind"]) == ("metadata.resource.k8s.io", "DeviceMetadata") and version in versions:
            return found
        at += len(text[at:]) - len(text[at:].lstrip())
    raise Unreadable("no object of a known version")


def kubevirt_metadata(files, kind, claim, request):
    """What KubeVirt reads of one of its host devices: exactly one file, with one device. `files`: the texts by their paths."""
    folder = f"/var/run/kubernetes.io/dra-device-attributes/{kind}/{claim}/{request}/"
    found = [text for path, text in files.items() if path.startswith(folder) and path.endswith("-metadata.json")]
    if len(found) != 1:
        raise Unreadable(f"{len(found)} files in {folder}")
    devices = [device for part in read_metadata(found[0])["requests"] for device in part["devices"]]
    if len(devices) != 1:
        raise Unreadable(f"{len(devices)} devices in {folder}")
    return kubevirt_host_device(devices[0]["attributes"])


def kubevirt_host_device(attributes):
    """What a virtual machine gets: a mediated device, or else a PCI function."""
    if "mdevUUID" in attributes:
        return "mdev", string(attributes, "mdevUUID")
    return "pci", string(attributes, "resource.kubernetes.io/pciBusID")
