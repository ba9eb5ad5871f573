# SPDX-License-Identifier: Apache-2.0
"""The published rules of the Container Device Interface: SPEC.md, schema/*.json, and what pkg/cdi refuses to load."""
import re

VENDOR_OR_CLASS = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")


class Invalid(Exception):
    pass


def require(condition, what):
    if not condition:
        raise Invalid(what)


def members(value, required, optional, where):
    require(isinstance(value, dict), f"{where} is no object")
    for name, kind in {**required, **optional}.items():
        require(name in value or name in optional, f"{where} has no {name}")
        require(name not in value or isinstance(value[name], kind), f"{where}.{name} is no {kind}")
    unknown = set(value) - set(required) - set(optional)
    require(not unknown, f"{where} has {unknown}")


def strings(value, where):
    require(all(isinstance(item, str) for item in value), f"{where} has something else than strings")


def check_edits(edits, where):
    members(edits, {}, {"env": list, "deviceNodes": list, "mounts": list, "hooks": list}, where)
    require(any(edits.values()), f"{where} is empty")
    strings(edits.get("env", []), where + ".env")
    for text in edits.get("env", []):
        require(text.find("=") > 0, f"{where}.env has {text!r}")
    for node in edits.get("deviceNodes", []):
        members(node, {"path": str}, {"hostPath": str, "type": str, "major": int, "minor": int, "fileMode": int,
                                      "permissions": str, "uid": int, "gid": int}, where + ".deviceNodes[]")
        require(node["path"], "a node without path")
        require(node.get("type", "") in ("", "b", "c", "u", "p"), "a node of another type")
        require(not node.get("permissions", "").strip("rwm"), "other permissions")
    for mount in edits.get("mounts", []):
        members(mount, {"hostPath": str, "containerPath": str}, {"type": str, "options": list}, where + ".mounts[]")
        require(mount["hostPath"] and mount["containerPath"], "a mount without path")
        strings(mount.get("options", []), where + ".mounts[].options")
        # The OCI runtime specification requires this option for a bind mount.
        require({"bind", "rbind"} & set(mount.get("options", [])), "a mount that is no bind mount")
    for hook in edits.get("hooks", []):
        members(hook, {"hookName": str, "path": str}, {"args": list, "env": list, "timeout": int}, where + ".hooks[]")
        require(hook["hookName"] in HOOKS, "an unknown hook")


def least_version(spec):
    """By the table of released versions in SPEC.md."""
    devices = spec["devices"]
    if "." in spec["kind"].split("/")[1] or "annotations" in spec or any("annotations" in d for d in devices):
        return "0.6.0"
    edits = [device["containerEdits"] for device in devices]
    if any(not d["name"][0].isalpha() for d in devices) or any(
            "hostPath" in node for edit in edits for node in edit.get("deviceNodes", [])):
        return "0.5.0"
    if any("type" in mount for edit in edits for mount in edit.get("mounts", [])):
        return "0.4.0"
    return "0.3.0"


def check(spec):
    """Raises Invalid with what is wrong, or returns the devices' edits by qualified name."""
    members(spec, {"cdiVersion": str, "kind": str, "devices": list}, {}, "the document")
    vendor, slash, name = spec["kind"].partition("/")
    require(slash and VENDOR_OR_CLASS.fullmatch(vendor) and VENDOR_OR_CLASS.fullmatch(name), f"kind {spec['kind']!r}")
    require(spec["devices"], "no device")
    devices = {}
    for device in spec["devices"]:
        members(device, {"name": str, "containerEdits": dict}, {}, "devices[]")
        require(DEVICE.fullmatch(device["name"]), f"name {device['name']!r}")
        check_edits(device["containerEdits"], device["name"])
        qualified = f"{spec['kind']}={device['name']}"
        require(qualified not in devices, f"{qualified} is there twice")
        devices[qualified] = device["containerEdits"]
    require(spec["cdiVersion"] == least_version(spec), f"version {spec['cdiVersion']}, not {least_version(spec)}")
    return devices
