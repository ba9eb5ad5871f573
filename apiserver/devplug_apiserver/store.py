# SPDX-License-Identifier: Apache-2.0
"""The objects by resource, with one version that grows with each change, and the last changes for watches. Everything here is
used with the lock held."""
import collections
import copy
import threading
import uuid

from .resources import RESOURCES, key_of

# Changes that are kept. A watch from an older version ends with the status code 410.
EVENTS_MAX = 10000

Event = collections.namedtuple("Event", "version type object")


class Store:
    def __init__(self):
        self.lock = threading.Condition()
        self.version = 100
        self.tables = {resource: {} for resource in RESOURCES}
        self.events = {resource: [] for resource in RESOURCES}
        self.forgotten = {resource: 0 for resource in RESOURCES}  # the version of the last change that is not kept

    def change(self, resource, type_, found):
        """Stores an object (ADDED, MODIFIED), or removes it (DELETED). The object belongs to the store from now on."""
        self.version += 1
        found["metadata"].setdefault("uid", str(uuid.uuid4()))
        found["metadata"]["resourceVersion"] = str(self.version)
        key = key_of(resource, found["metadata"])
        if type_ == "DELETED":
            self.tables[resource].pop(key, None)
        else:
            self.tables[resource][key] = found
        events = self.events[resource]
        events.append(Event(self.version, type_, copy.deepcopy(found)))
        if len(events) > EVENTS_MAX:
            self.forgotten[resource] = events[EVENTS_MAX // 10 - 1].version
            del events[:EVENTS_MAX // 10]
        self.lock.notify_all()

    def changes_after(self, resource, version):
        """None: some are not kept any more."""
        if version < self.forgotten[resource]:
            return None
        found = []
        for event in reversed(self.events[resource]):
            if event.version <= version:
                break
            found.append(event)
        return found[::-1]

    def forget_changes(self):
        """As after a compaction: a watch can only begin from now on."""
        for resource in RESOURCES:
            self.forgotten[resource] = self.version
            self.events[resource].clear()

    def delete_owned(self, uid):
        """What the garbage collector deletes with the owner."""
        for resource, table in self.tables.items():
            for found in list(table.values()):
                owners = found["metadata"].get("ownerReferences", [])
                if owners and all(owner.get("uid") == uid for owner in owners):
                    self.change(resource, "DELETED", found)
