# SPDX-License-Identifier: Apache-2.0
"""The control socket: what is answered is in force, a daemon that hangs is seen, and clients cannot harm it.

The bounds themselves are in unit/test-request-server, any bytes in fuzz/request.
"""
import contextlib
import os
import signal
import subprocess
import sys
import time
import unittest

from node import Client, scaled, static, until
from tool import ToolTest, run_as_nobody

STATUS = b'{"version": 1, "verb": "status"}'


# 600 threads: more wait for a place in the queue than devplugd accepts in two seconds.
CONNECT_IN_A_LOOP = """
import os, socket, sys, threading
os.setgroups([]), os.setgid(65534), os.setuid(65534)
path = os.path.join(sys.argv[1], "control-view")
path = path if os.path.exists(path) else os.path.join(sys.argv[1], "control")

def attack():
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(path)

threading.stack_size(64 << 10)
for _ in range(600):
    threading.Thread(target=attack).start()
full = 0
while not full:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.setblocking(False)
        try:
            client.connect(path)
        except BlockingIOError:
            full = 1
print("the queue is full", flush=True)
threading.Event().wait()
"""


class ControlSocket(ToolTest):
    def connect(self, name="control"):
        client = Client(self.node.run, name)
        self.addCleanup(client.close)
        return client

    def as_nobody(self, *words):
        return run_as_nobody("devplugctl", "-c", self.node.config, *words)


class Start(ControlSocket):
    def test_directories_in_the_way(self):
        for name in ("control", "lock"):
            os.makedirs(os.path.join(self.node.run, name), 0o755)
        self.serve(static("a", 1))
        self.node.stop()
        file = os.path.join(self.node.run, "control", "file")
        os.mkdir(os.path.dirname(file))
        with open(file, "w"):
            pass
        self.node.start()
        self.assertNotEqual(self.node.daemon.wait(), 0)
        self.assertIn(f"cannot listen on {self.node.run}/control: Directory not empty", self.node.output())


class InForce(ControlSocket):
    def test_status_after_a_change(self):
        """No old state is shown after a verb has returned."""
        self.serve(static("a", 3), static("b", 1))
        for i in range(scaled(10)):
            self.assertEqual(self.ctl("cordon", "vendor.example/a/a-1", f"round {i}").returncode, 0)
            self.assertEqual(self.health("a")["a-1"], ("Unhealthy", f"cordoned: round {i}"))
            self.assertEqual(self.ctl("uncordon", "vendor.example/a/a-1").returncode, 0)
            self.assertEqual(self.health("a")["a-1"][0], "Healthy")
        for count in (5, 2, 4):
            self.node.configure(static("a", count), static("b", 1))
            self.assertEqual(self.ctl("reload").returncode, 0)
            self.assertEqual(len(self.health("a")), count)
        self.node.configure(static("b", 1), static("c", 2))
        self.assertEqual(self.ctl("reload").returncode, 0)
        self.assertEqual([r["name"] for r in self.node.status()["resources"]],
                         ["vendor.example/b", "vendor.example/c"])
        self.assertEqual(len(self.health("c")), 2)

    def test_a_resource_that_fails_holds_up_nothing(self):
        self.serve(static("a", 1))
        self.node.configure(static("a", 2), static("f", 1, 'user = "nobody-of-that-name";'))
        self.assertEqual(self.ctl("reload").returncode, 0)
        self.assertEqual(len(self.health("a")), 2)


class Liveness(ControlSocket):
    def test_a_daemon_that_hangs(self):
        self.serve(static("a", 1))
        self.node.daemon.send_signal(signal.SIGSTOP)
        self.addCleanup(self.node.daemon.send_signal, signal.SIGCONT)
        for words in (["status"], ["devices"], ["status", "--json"], ["explain", "vendor.example/a"]):
            with self.subTest(words):
                before = time.monotonic()
                # The answer comes although the daemon does not go on.
                answer = self.ctl(*words)
                # 5 s are promised; the rest is for a busy machine.
                self.assertLess(time.monotonic() - before, 15)
                self.assertEqual(answer.returncode, 1)
                self.assertEqual(answer.stderr, "devplugctl: devplugd runs, but does not answer within 4 s; see its log, and if "
                                                'that continues, run "systemctl restart devplugd"\n')
                self.assertNotIn("vendor.example/a", answer.stdout)
        self.node.daemon.send_signal(signal.SIGCONT)
        self.assertEqual(self.ctl("status").returncode, 0)

    def test_a_daemon_that_was_killed(self):
        self.serve(static("a", 1))
        self.node.stop(signal.SIGKILL)
        for words in (["status"], ["devices"], ["explain", "vendor.example/a"]):
            answer = self.ctl(*words)
            self.assertEqual((answer.returncode, answer.stdout, answer.stderr),
                             (3, "", f"devplugctl: devplugd is not running: nothing answers in {self.node.run}\n"))
        self.node.start()
        until(lambda: self.ctl("status").returncode == 0, "the daemon to answer")


class Clients(ControlSocket):
    def test_other_users(self):
        self.serve(static("a", 1))
        for words in (["status"], ["devices"], ["explain", "vendor.example/a"]):
            answer = self.as_nobody(*words)
            self.assertEqual((answer.returncode, answer.stdout), (1, ""))
            self.assertIn("only root and members of the group devplugd-view", answer.stderr)
        for words in (["reload"], ["cordon", "a-0"], ["uncordon", "a-0"]):
            answer = self.as_nobody(*words)
            self.assertEqual(answer.returncode, 1, answer.stdout)
            self.assertEqual(answer.stderr, f'devplugctl: "{words[0]}" needs root\n')
        self.assertEqual(self.health("a")["a-0"][0], "Healthy")

    def test_others_that_connect_in_a_loop(self):
        """Users who may only read fill the queue of their socket, and root is served as before."""
        self.serve(static("a", 1))
        # As members of the group.
        path = os.path.join(self.node.run, "control-view")
        os.chmod(path if os.path.exists(path) else os.path.join(self.node.run, "control"), 0o666)
        attack = subprocess.Popen([sys.executable, "-c", CONNECT_IN_A_LOOP, self.node.run], stdout=subprocess.PIPE,
                                  text=True)
        self.addCleanup(attack.communicate)
        self.addCleanup(attack.kill)
        self.assertEqual(attack.stdout.readline(), "the queue is full\n")
        for _ in range(scaled(10)):
            answer = self.ctl("status")
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertIsNone(attack.poll())

    def test_clients_that_misbehave(self):
        """One that is silent, one that floods, one that does not read, one that leaves while it waits."""
        self.serve(static("a", 1))
        self.connect()
        flood, leaves = self.connect().socket, self.connect()
        flood.setblocking(False)
        leaves.send("reload")
        leaves.close()
        for _ in range(scaled(20)):
            try:
                for _ in range(1000):
                    flood.send(STATUS)
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass
            answer = self.ctl("status")
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertEqual(self.node.ask("dance")[0]["errno"], "EOPNOTSUPP")
        self.node.await_allocatable(a=1)

    def test_devices_that_are_not_read(self):
        """Each client gets the devices of many resources when it reads. Others are answered meanwhile, and only some
        descriptors wait in a socket."""
        count = scaled(600)
        self.serve(*(static(f"r{i}", 1) for i in range(count)))
        os.chmod(os.path.join(self.node.run, "control-view"), 0o666)
        before = len(os.listdir(f"/proc/{self.node.daemon.pid}/fd"))
        lazy = [self.connect(name) for name in ["control"] * 8 + ["control-view"] * 8]
        for client in lazy:
            client.send("status", devices=True)
        for _ in range(scaled(20)):
            answer = self.ctl("devices", f"vendor.example/r{count - 1}")
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            self.assertEqual(len(answer.stdout.splitlines()), 2)
        # What waits in a socket is no descriptor of devplugd.
        self.assertLess(len(os.listdir(f"/proc/{self.node.daemon.pid}/fd")) - before, 20)
        # They are disconnected after a while; one that reads at once gets all.
        reader = self.connect("control")
        reader.send("status", devices=True)
        answer, document = reader.receive()
        self.assertEqual(len((document or answer)["resources"]), count)
        names = []
        while (packet := reader.receive())[1]:
            self.assertEqual([d["health"] for d in packet[1]["devices"]], ["Healthy"])
            names.append(packet[0]["resource"])
        self.assertEqual(names, [f"vendor.example/r{i}" for i in range(count)])
        # One that asks again and again, and never reads.
        with contextlib.suppress(OSError):
            while True:
                lazy[0].send("status", devices=True)
        self.assertEqual(self.ctl("status").returncode, 0)


if __name__ == "__main__":
    unittest.main()
