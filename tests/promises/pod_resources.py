# SPDX-License-Identifier: Apache-2.0
"""The kubelet's PodResources API: a client, and a kubelet that answers what a test wants, in as few words as its
messages need."""
import contextlib
import os
import socket
import threading

import dra_kubelet
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


class Lister:
    """Plays the kubelet: answers each call at the socket with the bytes in `answer`, whatever was asked, while it may."""

    def __init__(self, path):
        self.answer = b""
        self.calls = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                peer = self.listener.accept()[0]
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                self.may_answer.wait()
                http2.answer_call(peer, self.answer)
                self.calls += 1
                while peer.recv(65536):
                    pass

    def stop(self):
        self.may_answer.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


# --- messages, of what their members are: (name, namespace, [container]) and so on


def topology(nodes):
    return b"".join(dra_kubelet.field(1, dra_kubelet.field(1, node % 2**64)) for node in nodes)


def numbers(number, values):
    return dra_kubelet.field(number, b"".join(dra_kubelet.varint(value % 2**64) for value in values)) if values else b""


def memory(number, parts):
    return b"".join(dra_kubelet.field(number, dra_kubelet.field(1, kind) + dra_kubelet.field(2, size) +
                                      dra_kubelet.field(3, topology(nodes))) for kind, size, nodes in parts)


def container(name, devices=(), claims=(), cpus=(), memories=()):
    """devices: (resource, ids, nodes); claims: (namespace, name, [(driver, pool, device)]); memories: (type, size, nodes)."""
    field = dra_kubelet.field
    text = field(1, name) + numbers(3, cpus) + memory(4, memories)
    for resource, ids, nodes in devices:
        text += field(2, field(1, resource) + b"".join(field(2, one) for one in ids) + field(3, topology(nodes)))
    for namespace, claim, parts in claims:
        text += field(5, field(2, claim) + field(3, namespace) + b"".join(
            field(4, field(2, driver) + field(3, pool) + field(4, device)) for driver, pool, device in parts))
    return text


def pod(namespace, name, containers, cpus=(), memories=()):
    """An element of the answer to List."""
    field = dra_kubelet.field
    return field(1, field(1, name) + field(2, namespace) + b"".join(field(3, one) for one in containers) +
                 numbers(4, cpus) + memory(5, memories))
