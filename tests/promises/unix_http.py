# SPDX-License-Identifier: Apache-2.0
"""HTTP over a socket in the file system, as devplugd-exporter serves it."""
import http.client
import socket

from node import LIMIT


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, address):
        super().__init__("localhost", timeout=LIMIT)
        self.address = address

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LIMIT)
        self.sock.connect(self.address)


def get(address, url="/metrics", method="GET"):
    """The response and its text."""
    connection = UnixConnection(address)
    try:
        connection.request(method, url)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()
