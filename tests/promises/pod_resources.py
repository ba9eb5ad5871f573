# SPDX-License-Identifier: Apache-2.0
"""A client of the kubelet's PodResources API, in as few words as its messages need."""
import http2

SERVICE = ".PodResourcesLister/"


def field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value


def fields(data):
    """The members of a message, strings and messages alike as bytes."""
    found, at = {}, 0
    while at < len(data):
        number, kind = data[at] >> 3, data[at] & 7
        at += 1
        size = shift = 0
        while True:
            size |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        value = size
        if kind == 2:
            value, at = data[at:at + size], at + size
        found.setdefault(number, []).append(value)
    return found


def ask(socket, method, request=b"", version="/v1"):
    """The answer of a call: (message, None) or (None, all bytes that came instead)."""
    peer = http2.connect(socket, http2.call(1, version + SERVICE + method, request))
    with peer:
        received = b""
        while True:
            part = peer.recv(65536)
            received += part
            at, data, ended = 0, b"", not part
            while at + 9 <= len(received):
                size = int.from_bytes(received[at:at + 3], "big")
                kind, flags = received[at + 3], received[at + 4]
                stream = int.from_bytes(received[at + 5:at + 9], "big")
                if at + 9 + size > len(received):
                    break
                if stream == 1:
                    data += received[at + 9:at + 9 + size] if kind == http2.DATA else b""
                    ended = ended or bool(flags & http2.END_STREAM)
                at += 9 + size
            if ended:
                return (data[5:], None) if data else (None, received)
