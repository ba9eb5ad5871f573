# SPDX-License-Identifier: Apache-2.0
"""Reads an object as an API server does: a value of another type fails, an unknown field is dropped with a warning, a field of
a feature that is off is dropped without a word, and quantities get the server's form."""
import datetime

from . import quantity
from .fields import TYPES
from .refusal import Refusal, invalid

# Quantities, which the types describe as strings.
QUANTITIES = {("DeviceCapacity", "value"), ("Counter", "value"), ("CapacityRequestPolicy", "default"),
              ("CapacityRequestPolicy", "validValues"), ("CapacityRequestPolicyRange", "min"), ("CapacityRequestPolicyRange", "max"),
              ("CapacityRequestPolicyRange", "step"), ("CapacityRequirements", "requests"),
              ("DeviceRequestAllocationResult", "consumedCapacity"), ("NodeAllocatableResourceMapping", "allocationMultiplier")}
SIMPLE = {"string": str, "boolean": bool, "integer": int, "time": str}


def split_types(types):
    """{type: {field: (its form, whether it is required)}} of what make-fields writes."""
    return {kind: {name.rstrip("!"): (form, name.endswith("!")) for name, form in fields.items()} for kind, fields in types.items()}


FIELDS = split_types(TYPES)


def read_time(text):
    """Seconds since 1970. ValueError: not a time."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Reader:
    def __init__(self, release, types=None):
        self.release = release
        self.types = types or FIELDS
        self.unknown = []  # paths of fields that do not exist
        self.dropped = []  # and of those of features that are off

    def read(self, kind, value):
        """A new object of what the server keeps."""
        return self.read_type(kind, value, "", None)

    def read_type(self, form, value, path, field):
        if form[0] in "[{":
            wanted = list if form[0] == "[" else dict
            if not isinstance(value, wanted):
                raise Refusal(400, f"{path}: cannot unmarshal {type(value).__name__} into a {wanted.__name__}")
            if wanted is list:
                return [self.read_type(form[1:-1], item, f"{path}[{i}]", field) for i, item in enumerate(value)]
            return {key: self.read_type(form[1:-1], item, f"{path}[{key}]", field) for key, item in value.items()}
        if form == "any":
            return value
        if form in SIMPLE:
            return self.read_simple(form, value, path, field)
        if not isinstance(value, dict):
            raise Refusal(400, f"{path}: cannot unmarshal {type(value).__name__} into an object of the type {form}")
        return self.read_object(form, value, path)

    def read_simple(self, form, value, path, field):
        if field in QUANTITIES:
            try:
                return quantity.canonical(value)
            except ValueError as error:
                raise Refusal(400, f"{path}: {error}") from error
        if type(value) is not SIMPLE[form]:
            raise Refusal(400, f"{path}: cannot unmarshal {type(value).__name__} into a {form}")
        if form == "integer" and not -2 ** 63 <= value < 2 ** 63:
            raise Refusal(400, f"{path}: {value} does not fit into 64 bits")
        if form == "time":
            try:
                read_time(value)
            except ValueError as error:
                raise Refusal(400, f"{path}: {value!r} is not a time") from error
        return value

    def read_object(self, kind, value, path):
        found, fields = {}, self.types[kind]
        for key, item in value.items():
            here = f"{path}.{key}" if path else key
            if key not in fields:
                self.unknown.append(here)
            elif (kind, key) in self.release.dropped:
                self.dropped.append(here)
            elif item is not None:
                form, required = fields[key]
                read = self.read_type(form, item, here, (kind, key))
                # The server's writer leaves out optional fields that are empty.
                empty = not read and (form[0] in "[{" or (form == "string" and kind != "DeviceAttribute"))
                if required or not empty:
                    found[key] = read
        for key, (_, required) in fields.items():
            if required and key not in found and path != "metadata":
                raise invalid(f"{path}.{key}" if path else key, "Required value")
        return found
