# SPDX-License-Identifier: Apache-2.0
"""What the kubelet does to a DRA driver: finds its socket in plugins_registry, asks what it is, tells it that it is
registered, has claims prepared and unprepared."""
import contextlib
import os
import stat
import struct
import time

import http2

GET_INFO = "/pluginregistration.Registration/GetInfo"
NOTIFY = "/pluginregistration.Registration/NotifyRegistrationStatus"
HEALTH = "/{}.DRAResourceHealth/NodeWatchResources"
CALL_DEADLINE = 45  # seconds, for preparing and unpreparing
SERVICE = "/k8s.io.kubelet.pkg.apis.dra.{}.DRAPlugin/{}"


def varint(number):
    data = b""
    while number > 127:
        data += bytes([128 | number & 127])
        number >>= 7
    return data + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def parse(data):
    """Values by the number of the field, in their order."""
    fields, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        fields.setdefault(key >> 3, []).append(value)
    return fields


def text(fields, number):
    return fields.get(number, [b""])[0].decode()


class Call(Exception):
    """The call as a whole failed."""


def call(path, method, payload=b"", limit=60, deadline=None, on_sent=lambda: None):
    """The answer to a unary call on a connection of its own."""
    with http2.connect(path, http2.call(1, method, payload, deadline)) as peer:
        on_sent()
        peer.settimeout(limit)
        data, heads, ended = b"", b"", False
        while not ended:
            head = http2.receive_exactly(peer, 9)
            if head is None:
                break
            size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            stream = struct.unpack(">I", head[5:])[0]
            frame = http2.receive_exactly(peer, size) if size else b""
            if frame is None:
                break
            if kind == http2.SETTINGS and not flags & 1:
                http2.send_reply(peer, http2.frame(http2.SETTINGS, 1, 0))
            if kind == http2.PING and not flags & 1:
                http2.send_reply(peer, http2.frame(http2.PING, 1, 0, frame))
            if kind == http2.DATA:
                data += frame
            if kind == http2.HEADERS:
                heads += frame
            ended = stream == 1 and (kind == http2.RST_STREAM or bool(flags & http2.END_STREAM and kind != http2.SETTINGS))
    if len(data) < 5:
        # gRPC sends its message as it is.
        raise Call(f"{method} failed: {heads.decode(errors='replace')}")
    return data[5:5 + struct.unpack(">I", data[1:5])[0]]


def claims_of(claims):
    """The request of a call."""
    return b"".join(field(1, field(1, namespace) + field(2, uid) + field(3, name)) for namespace, name, uid in claims)


class HealthStream:
    """NodeWatchResources, on a connection of its own."""

    def __init__(self, path, version):
        self.peer = http2.connect(path, http2.call(1, HEALTH.format(version)))
        self.data = b""

    def close(self):
        self.peer.close()

    def next(self):
        """The next message, by device: (pool, health, message, last update, time-out). None: the stream has ended."""
        while len(self.data) < 5 or len(self.data) < 5 + struct.unpack(">I", self.data[1:5])[0]:
            head = http2.receive_exactly(self.peer, 9)
            size = int.from_bytes(head[:3], "big") if head else 0
            frame = http2.receive_exactly(self.peer, size) if size else b""
            if head is None or frame is None or head[3] == http2.RST_STREAM:
                return None
            kind, flags = head[3], head[4]
            if kind in (http2.SETTINGS, http2.PING) and not flags & 1:
                http2.send_reply(self.peer, http2.frame(kind, 1, 0, frame if kind == http2.PING else b""))
            if kind == http2.DATA:
                self.data += frame
                # Both windows stay as they were.
                for stream in (0, 1):
                    http2.send_reply(self.peer, http2.frame(http2.WINDOW_UPDATE, 0, stream, struct.pack(">I", size)) if size else b"")
            elif kind == http2.HEADERS and flags & http2.END_STREAM:
                return None
        size = struct.unpack(">I", self.data[1:5])[0]
        message, self.data = self.data[5:5 + size], self.data[5 + size:]
        devices = {}
        for device in parse(message).get(1, []):
            fields = parse(device)
            name = parse(fields[1][0])
            devices[text(name, 2)] = (text(name, 1), ("UNKNOWN", "HEALTHY", "UNHEALTHY")[fields.get(2, [0])[0]],
                                      text(fields, 5), fields.get(3, [0])[0], fields.get(4, [0])[0])
        return devices


class Kubelet:
    """A kubelet that serves a plugins_registry directory."""

    def __init__(self, registry):
        self.registry = registry
        self.endpoints = {}  # of drivers, by the socket that is found
        os.makedirs(registry, exist_ok=True)

    def sockets(self):
        found = []
        for name in sorted(os.listdir(self.registry)):
            path = os.path.join(self.registry, name)
            # It may be gone by now.
            with contextlib.suppress(FileNotFoundError):
                if not name.startswith(".") and stat.S_ISSOCK(os.lstat(path).st_mode):
                    found.append(path)
        return found

    def info(self, path):
        fields = parse(call(path, GET_INFO))
        self.endpoints[path] = text(fields, 3)
        return {"type": text(fields, 1), "name": text(fields, 2), "endpoint": text(fields, 3),
                "versions": [version.decode() for version in fields.get(4, [])]}

    def service(self, path):
        """The socket on which the driver that was found there serves."""
        return self.endpoints.get(path) or self.info(path)["endpoint"]

    def find(self, name=None):
        """The socket that a driver listens on now, or the driver of that name, or None."""
        for path in self.sockets():
            try:
                info = self.info(path)
                if info["type"] == "DRAPlugin" and name in (None, info["name"]):
                    return path
            except (OSError, Call):
                continue
        return None

    def find_other(self, than):
        """One that is not this one."""
        path = self.find()
        return path if path != than else None

    def register(self, path, error=""):
        call(path, NOTIFY, field(2, error) if error else field(1, 1))

    def prepare(self, path, *claims, version="v1", deadline=CALL_DEADLINE, **options):
        """`claims` are (namespace, name, uid). By uid: the error as a string, or the devices."""
        answer = parse(call(self.service(path), SERVICE.format(version, "NodePrepareResources"), claims_of(claims), deadline=deadline,
                            **options))
        result = {}
        for entry in answer.get(1, []):
            pair = parse(entry)
            value = parse(pair.get(2, [b""])[0])
            devices = [parse(device) for device in value.get(1, [])]
            result[text(pair, 1)] = text(value, 2) or [
                {"requests": [r.decode() for r in device.get(1, [])], "pool": text(device, 2), "device": text(device, 3),
                 "cdi": [name.decode() for name in device.get(4, [])],
                 **({"share": text(device, 5)} if 5 in device else {})} for device in devices]
        return result

    def unprepare(self, path, *claims, version="v1"):
        """By uid: the error."""
        answer = parse(call(self.service(path), SERVICE.format(version, "NodeUnprepareResources"), claims_of(claims),
                            deadline=CALL_DEADLINE))
        return {text(parse(e), 1): text(parse(parse(e).get(2, [b""])[0]), 1) for e in answer.get(1, [])}


class Calls:
    """Calls on one connection, as a kubelet has it; `ended`: when, by stream."""

    def __init__(self, path):
        self.peer, self.ended = http2.connect(path), {}
        self.last = -1

    def begin(self, method, claim):
        self.last += 2
        self.peer.sendall(http2.call(self.last, SERVICE.format("v1", method), claims_of([claim]), CALL_DEADLINE))
        return self.last

    def read_until_end(self, stream):
        """The other calls may end as well."""
        while stream not in self.ended:
            head = http2.receive_exactly(self.peer, 9)
            size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            number = struct.unpack(">I", head[5:])[0]
            payload = http2.receive_exactly(self.peer, size) if size else b""
            if kind in (http2.SETTINGS, http2.PING) and not flags & 1:
                http2.send_reply(self.peer, http2.frame(kind, 1, 0, payload if kind == http2.PING else b""))
            if number and (kind == http2.RST_STREAM or flags & http2.END_STREAM):
                self.ended[number] = time.monotonic()
