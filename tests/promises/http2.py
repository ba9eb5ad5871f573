# SPDX-License-Identifier: Apache-2.0
"""As much HTTP/2 as a hostile gRPC client needs: frames are made by hand, answers are read as bytes or not at all."""
import contextlib
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
FRAME_MAX = 16384  # without a setting of the peer
LIST_AND_WATCH = "/v1beta1.DevicePlugin/ListAndWatch"
ALLOCATE = "/v1beta1.DevicePlugin/Allocate"
PRE_START = "/v1beta1.DevicePlugin/PreStartContainer"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def send_without_end(peer, data, stopping):
    """Until `stopping` is set or the peer is cut off; it needs a timeout."""
    rest = memoryview(b"")
    try:
        while not stopping.is_set():
            rest = rest or memoryview(data)
            try:
                rest = rest[peer.send(rest):]
            except socket.timeout:
                pass
    except OSError:
        pass


def literal(name, value):
    """A header field without compression, index or Huffman code; both shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def literal_head(name, size):
    """The beginning of such a field, with a value of 127 bytes or more (RFC 7541, 5.1 and 6.2.2)."""
    rest = size - 127
    length = b"\x7f"
    while rest > 127:
        length += bytes([128 + rest % 128])
        rest //= 128
    return b"\0" + bytes([len(name)]) + name.encode() + length + bytes([rest])


def headers(stream, path, flags=END_HEADERS, *more):
    fields = ((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
              ("content-type", "application/grpc"), ("te", "trailers"), *more)
    return frame(HEADERS, flags, stream, b"".join(literal(*field) for field in fields))


def message(stream, payload=b"", flags=END_STREAM):
    return frame(DATA, flags, stream, b"\0" + struct.pack(">I", len(payload)) + payload)


def call(stream, path, payload=b"", limit=None):
    """`limit`: seconds, sent as the call's deadline."""
    more = [("grpc-timeout", f"{limit}S")] if limit else []
    return headers(stream, path, END_HEADERS, *more) + message(stream, payload)


def connect(path, *frames):
    """A connection that has said hello and sent the frames."""
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.connect(path)  # before the limit: with one it does not wait for room in the listener's queue
        peer.settimeout(60)
        peer.sendall(PREFACE + frame(SETTINGS, 0, 0) + b"".join(frames))
    except OSError:
        peer.close()
        raise
    return peer


def send_reply(peer, *frames):
    """A peer that has gone is found by the next read."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        peer.sendall(b"".join(frames))


def receive_exactly(peer, size):
    """None if the peer closes before, or is killed, which resets the connection if it had not read all of it."""
    data = b""
    while len(data) < size:
        try:
            piece = peer.recv(size - len(data))
        except ConnectionResetError:
            return None
        if not piece:
            return None
        data += piece
    return data


def answer_call(peer, payload):
    """Plays the server: answers the first call on the connection, with up to 64 KiB. Returns whether there was one."""
    send_reply(peer, frame(SETTINGS, 0, 0))
    if receive_exactly(peer, len(PREFACE)) is None:
        return False
    while True:
        head = receive_exactly(peer, 9)
        if head is None:
            return False
        size, kind, flags, stream = int.from_bytes(head[:3], "big"), head[3], head[4], struct.unpack(">I", head[5:])[0]
        if receive_exactly(peer, size) is None:
            return False
        if kind == SETTINGS and flags == 0:
            send_reply(peer, frame(SETTINGS, 1, 0))
        if kind == DATA and flags & END_STREAM:
            break
    fields = literal(":status", "200") + literal("content-type", "application/grpc")
    data = b"\0" + struct.pack(">I", len(payload)) + payload
    parts = [frame(DATA, 0, stream, data[at:at + FRAME_MAX]) for at in range(0, len(data), FRAME_MAX)]
    peer.sendall(frame(HEADERS, END_HEADERS, stream, fields) + b"".join(parts) +
                 frame(HEADERS, END_HEADERS | END_STREAM, stream, literal("grpc-status", "0")))
    return True
