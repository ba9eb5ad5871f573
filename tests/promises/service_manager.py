# SPDX-License-Identifier: Apache-2.0
"""What systemd does for devplugd: reads $NOTIFY_SOCKET, keeps descriptors (FDSTORE=1), and passes them to the next start."""
import os
import queue
import socket
import sys
import threading

from node import LIMIT

# Moves the descriptors to 3 and on, as sd_listen_fds(3) expects them, and becomes devplugd.
LAUNCHER = """
import fcntl, os, sys
fds = [int(word) for word in sys.argv[1].split(",") if word]
copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + len(fds)) for fd in fds]
for fd in fds:
    os.close(fd)
for number, fd in enumerate(copies, 3):
    os.dup2(fd, number)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execvp(sys.argv[2], sys.argv[2:])
"""


def is_same(one, other):
    return os.path.sameopenfile(one, other)


class Kept:
    """A descriptor in the store."""

    def __init__(self, name, fd):
        self.name, self.fd = name, fd

    def close(self):
        os.close(self.fd)

    def replace(self, fd):
        self.close()
        self.fd = fd


class ServiceManager:
    def __init__(self, test, node):
        self.node, self.messages, self.lock, self.store = node, queue.Queue(), threading.Lock(), []
        address = node.path("notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        reader = threading.Thread(target=self.read)
        reader.start()
        test.addCleanup(self.close)
        test.addCleanup(reader.join)
        test.addCleanup(self.socket.shutdown, socket.SHUT_RD)
        node.environment["NOTIFY_SOCKET"] = address

    def close(self):
        self.socket.close()
        self.pass_on([])
        for kept in self.store:
            kept.close()

    def read(self):
        """At once: a full socket would stop devplugd."""
        while True:
            data, fds, _, _ = socket.recv_fds(self.socket, 65536, 16)
            if not data:
                return
            message = dict(line.split("=", 1) for line in data.decode().splitlines())
            with self.lock:
                self.follow(message, fds)
            self.messages.put(message)

    def follow(self, message, fds):
        name = message.get("FDNAME", "stored")
        for fd in fds:
            if message.get("FDSTORE") == "1" and not any(is_same(fd, kept.fd) for kept in self.store):
                self.store.append(Kept(name, fd))
            else:
                os.close(fd)
        if message.get("FDSTOREREMOVE") == "1":
            for kept in [kept for kept in self.store if kept.name == name]:
                self.store.remove(kept)
                kept.close()

    def names(self):
        with self.lock:
            return sorted(kept.name for kept in self.store)

    def put(self, name, fd):
        """Takes the descriptor."""
        with self.lock:
            self.store.append(Kept(name, fd))

    def pass_on(self, passed):
        self.node.fds = [kept.fd for kept in passed]
        self.node.prefix = [sys.executable, "-c", LAUNCHER, ",".join(map(str, self.node.fds))] if passed else []
        self.node.environment.update(LISTEN_FDS=str(len(passed)), LISTEN_FDNAMES=":".join(kept.name for kept in passed))

    def start(self):
        """Starts devplugd with what is kept."""
        with self.lock:
            self.pass_on(list(reversed(self.store)))
            self.node.start()

    def await_message(self, *keys, limit=LIMIT):
        """The next message that has all the keys, as a dictionary; others are left aside."""
        while True:
            message = self.messages.get(timeout=limit)
            if all(key in message for key in keys):
                return message
