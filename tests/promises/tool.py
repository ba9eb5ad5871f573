# SPDX-License-Identifier: Apache-2.0
"""What a person runs beside the daemon, with a node around it."""
import contextlib
import fcntl
import json
import os
import re
import socket
import subprocess
import threading

from node import NodeTest, program

NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}


def run_as_nobody(name, *words):
    """Nobody need not be able to enter the folder of the programs, which may be in root's home."""
    fd = os.open(program(name), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return subprocess.run([name, *words], executable=f"/proc/self/fd/{fd}", pass_fds=[fd], capture_output=True, text=True,
                              timeout=60, **NOBODY)
    finally:
        os.close(fd)


def sealed(content):
    fd = os.memfd_create("devices", os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return fd


@contextlib.contextmanager
def fake_daemon(run, answer, documents):
    """In the place of devplugd, answers each request with these bytes, and behind them the documents (bytes) by resource. The
    requests."""
    requests = []

    def serve():
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            with client, contextlib.suppress(ConnectionError):
                requests.append(json.loads(client.recv(4096)))
                client.send(answer)
                for name, document in documents.items():
                    fd = sealed(document)
                    socket.send_fds(client, [json.dumps({"resource": name}).encode()], [fd])
                    os.close(fd)
                client.send(b"{}")

    os.makedirs(run, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(os.path.join(run, "control"))
        listener.listen()
        server = threading.Thread(target=serve)
        server.start()
        try:
            yield requests
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()
    os.unlink(os.path.join(run, "control"))


class ToolTest(NodeTest):
    def run_tool(self, name, *words, config=True, environment=None):
        return subprocess.run([program(name), *(("-c", self.node.config) if config else ()), *words],
                              capture_output=True, text=True, timeout=60, env={**os.environ, **(environment or {})})

    def ctl(self, *words):
        return self.run_tool("devplugctl", *words)

    def diff(self):
        answer = self.run_tool("devplugd", "--diff")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout.splitlines()

    def plan_in_log(self, before):
        """The lines of a plan that devplugd has logged since."""
        lines = self.node.output()[before:].splitlines()
        return [m.group(1) for line in lines if (m := re.match(r"devplugd: ([-=+~!] .*)", line))]

    def health(self, name):
        resource = self.node.resource(f"vendor.example/{name}") or {"devices": []}
        return {d["id"]: (d["health"], d["reason"]) for d in resource["devices"]}

    def serve(self, *resources, text=""):
        self.node.configure(*resources, text=text)
        self.node.start_kubelet()
        self.node.start()
        return self.node.await_serving()

    def change_checkpoint(self, change):
        """Writes the kubelet's checkpoint as a kubelet does; this one does not notice."""
        path = os.path.join(self.node.plugins, "kubelet_internal_checkpoint")
        with open(path) as file:
            document = json.load(file)
        change(document["Data"]["PodDeviceEntries"])
        with open(path + ".new", "w") as file:
            json.dump(document, file)
        os.rename(path + ".new", path)

    def breaks(self):
        with open(self.node.config, "a") as file:
            file.write("\nzork = ;\n")
