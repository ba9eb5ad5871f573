# SPDX-License-Identifier: Apache-2.0
"""What devplug-kubelet's events say about promise P15: one session and one Register of a resource at a time."""
import collections


class Interval:
    """A session as the kubelet saw it: from the arrival of Register to the end of the stream."""

    def __init__(self, event):
        self.endpoint = event["endpoint"]
        self.connection = event["connection"]
        self.begin = event["time"] - event["took_usec"]
        self.registered = event["time"]
        self.end = None

    def __repr__(self):
        return f"{self.endpoint} [{self.begin} {self.registered} {self.end}]"


def sessions(events):
    """Sessions of each resource, in the order of registration; a kubelet that ends, ends them all."""
    found = collections.defaultdict(list)
    for event in events:
        if event["event"] == "registered":
            found[event["resource"]].append(Interval(event))
        elif event["event"] == "stream-ended":
            for session in found[event["resource"]]:
                if session.connection == event["connection"] and session.end is None:
                    session.end = event["time"]
        elif event["event"] == "listening":
            for resource in found.values():
                for session in resource:
                    if session.end is None:
                        session.end = event["time"]
                    session.connection = None
    return found


def overlaps(events):
    """Pairs of sessions of one resource of which the later was begun before the earlier had ended."""
    pairs = []
    for resource, intervals in sessions(events).items():
        for earlier, later in zip(intervals, intervals[1:]):
            if earlier.end is None or later.begin < earlier.end:
                pairs.append((resource, earlier, later))
    return pairs
