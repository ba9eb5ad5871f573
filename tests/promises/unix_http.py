# SPDX-License-Identifier: Apache-2.0
"""HTTP over a socket in the file system, as devplugd-exporter serves it."""
import http.client
import socket
import struct

from node import LIMIT


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, address):
        super().__init__("localhost", timeout=LIMIT)
        self.address = address

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        # With a timeout of Python's, a full queue would be an error.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(LIMIT), 0))
        self.sock.connect(self.address)
        self.sock.settimeout(LIMIT)


def get(address, url="/metrics", method="GET"):
    """The response and its text."""
    connection = UnixConnection(address)
    try:
        connection.request(method, url)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()
