# SPDX-License-Identifier: Apache-2.0
"""A service sees the host through mounts of its own: where they are read-only, devplugd names the command that changes it, and
where the kubelet's directory was removed and made again, it ends to be started with a new view."""
import os
import shutil
import stat
import subprocess
import unittest

from node import LIMIT, program, remove_tree, static, until
from tool import ToolTest

# As ProtectSystem=strict does: all of HOST read-only, what is named behind it writable.
SANDBOX = """set -e
host=$1 writable=$2
shift 2
mount --bind "$host" "$host"
mount -o remount,bind,ro "$host"
[ -z "$writable" ] || { mount --bind "$writable" "$writable"; mount -o remount,bind,rw "$writable"; }
exec "$@"
"""


class HostView(ToolTest):
    def setUp(self):
        super().setUp()
        self.host = self.node.path("host")
        self.root = os.path.join(self.host, "kubelet")
        self.node.plugins = os.path.join(self.root, "device-plugins")
        os.makedirs(self.node.plugins)

    def start(self, writable):
        self.node.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SANDBOX, "sandbox", self.host, writable]
        self.node.start()

    def test_read_only(self):
        self.node.configure(static("a", 1), static("b", 1, 'registration = "watcher";'), kubelet=f'root_dir = "{self.root}";')
        registry = os.path.join(self.root, "plugins_registry")
        os.makedirs(registry)
        self.node.start_kubelet("--plugins-registry", registry)
        until(lambda: os.path.isdir(registry) and os.path.exists(self.node.plugins + "/kubelet.sock"), "the kubelet")
        self.start("")
        for name, directory in (("a", self.node.plugins), ("b", registry)):
            remedy = f'run "devplugctl allow {directory} && systemctl restart devplugd"'
            until(lambda: remedy in self.ctl("explain", f"vendor.example/{name}").stdout, "the remedy in explain")
            self.assertIn(f"{directory} is read-only for devplugd, so there will be no sockets for the kubelet", self.node.output())
            # Outside of the sandbox, by the eyes of the daemon.
            answer = self.run_tool("devplugd", "--check")
            self.assertEqual(answer.returncode, 0)
            self.assertIn(remedy, answer.stderr)
        self.node.stop()
        self.start(self.root)
        self.node.await_serving()
        self.assertEqual(self.run_tool("devplugd", "--check").stderr, "")

    def test_read_only_for_files(self):
        cdi = os.path.join(self.host, "cdi")
        os.makedirs(cdi)
        nic = '{ name = "vendor.example/nic"; driver = "net"; match = ( { vendor = 0xffff; } ); }'
        self.node.configure(static("a", 1, 'serve = "dra";'), nic, kubelet=f'root_dir = "{self.root}";',
                            text=f'cdi_dir = "{cdi}"; device_info_dir = "{self.host}/dp"; dra = {{ driver = "devices.vendor.example"; kubeconfig = "{self.host}/x"; }};')
        self.start(self.root)
        for words in (f"{cdi} is read-only for devplugd, so there will be no CDI files (cdi_dir): ",
                      f"{self.host}/dp is read-only for devplugd, so there will be no information about network devices for CNI plugins "
                      "(device_info_dir): "):
            until(lambda: words in self.node.output(), "the warning")
            until(self.node.status, "the daemon")
            self.assertIn(words, self.run_tool("devplugd", "--check").stderr)

    def test_read_only_runtime_dir(self):
        """Of a file that is edited while devplugd runs with another directory, and of the restart that applies it."""
        other = os.path.join(self.host, "run")
        remedy = f'run "devplugctl allow {other} && systemctl restart devplugd"'
        self.node.configure(static("a", 1))
        self.start(self.root)
        until(self.node.status, "the daemon")
        with open(self.node.config) as file:
            text = file.read()
        with open(self.node.config, "w") as file:
            file.write(text.replace(f'runtime_dir = "{self.node.run}"', f'runtime_dir = "{other}"'))
        # The file and the directory of the service are the default ones.
        script = (f'mount -t tmpfs tmpfs /run && mkdir /run/devplugd && mount --bind {self.node.run} /run/devplugd && '
                  f'mount -t tmpfs tmpfs /etc && cp {self.node.config} /etc/devplugd.conf && exec "$@"')
        answer = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
                                 program("devplugd"), "--check"], capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn(f"{other} is read-only for devplugd, so there will be no start of devplugd (runtime_dir): ", answer.stderr)
        self.assertIn(remedy, answer.stderr)
        self.node.stop()
        self.start(self.root)
        self.assertEqual(self.node.daemon.wait(timeout=LIMIT), 1)
        self.assertRegex(self.node.output(), f"cannot open the directory {other}: .*: for the service of the package, {remedy}")

    def test_read_only_for_a_program(self):
        """The example that writes leases, without "devplugctl allow", and with it."""
        examples = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/examples/exec")
        leases = os.path.join(self.host, "leases")
        seats = self.node.path("seats")
        os.mkdir(seats)
        with open(os.path.join(seats, "one"), "w") as file:
            file.write("ok")
        poll, lease = (shutil.copy(os.path.join(examples, name), self.node.dir) for name in ("seats-poll", "seats-lease"))
        self.node.configure(f'{{ name = "vendor.example/seat"; driver = "exec"; match = ( {{ command = [ "{poll}", "{seats}" ]; '
                            f'allocate = [ "{lease}", "{leases}" ]; }} ); }}', kubelet=f'root_dir = "{self.root}";')
        self.node.start_kubelet()
        self.start(self.root)
        self.node.await_allocatable(seat=1)
        self.assertIn(f"the licence server has no directory {leases}", self.node.pod("missing", seat=1)[1]["message"])
        os.mkdir(leases)
        os.chmod(leases, 0o777)
        self.assertRegex(self.node.pod("refused", seat=1)[1]["message"], f"cannot write to {leases} as uid [0-9]+: allow it")
        self.node.stop()
        self.start(self.host)
        self.node.await_allocatable(seat=1)
        self.assertIn("SEAT_LEASES", self.node.pod("p", seat=1)[0]["env"])

    def test_private_tmp(self):
        """With PrivateTmp=, a mount that may be in the host's /var/tmp is not missing."""
        private = os.path.join(self.host, "systemd-private-1/tmp")
        os.makedirs(private)
        name = os.path.basename(self.node.dir)
        mounts = (f'{{ host = "/var/tmp/{name}"; path = "/a"; }}', f'{{ host = "/var/tmp/{name}"; path = "/b"; optional = true; }}',
                  f'{{ host = "{self.host}/missing"; path = "/c"; optional = true; }}')
        self.node.configure(static("a", 1, f'container = {{ mounts = ( {", ".join(mounts)} ); }};'))
        self.node.start_kubelet()
        self.node.start()
        until(lambda: f"needs /var/tmp/{name}, which is missing on the host" in self.ctl("explain", "vendor.example/a").stdout,
              "the missing mount")
        self.node.stop()
        self.node.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                            f'mount --bind {private} /var/tmp && exec "$@"', "sh"]
        self.node.start()
        self.node.await_allocatable(a=1)
        given, _ = self.node.pod("p", a=1)
        self.assertEqual([mount["container_path"] for mount in given["mounts"]], ["/a", "/b"])

    def test_state_of_another_user(self):
        """The node had the package, whose state belongs to its user; a container has no CAP_DAC_OVERRIDE."""
        state = self.node.path("state")
        os.makedirs(os.path.join(state, "claims"), mode=0o700)
        os.chmod(state, 0o700)
        os.chown(state, 65534, 65534)
        self.node.environment["STATE_DIRECTORY"] = state
        self.node.configure(static("a", 1, 'serve = "dra";'), kubelet=f'root_dir = "{self.root}";',
                            text=f'dra = {{ driver = "devices.vendor.example"; kubeconfig = "{self.host}/x"; }};')
        self.node.prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
        self.node.start()
        until(lambda: f'Permission denied: run "chown -R 0: {state}"' in self.node.output(), "the remedy")

    def test_read_only_configuration(self):
        """A ConfigMap is mounted itself, writable for all. What is read-only in the service, others may write to."""
        folder = os.path.join(self.host, "etc")
        path = os.path.join(folder, "devplugd.conf")
        os.makedirs(folder)
        with open(path, "w") as file:
            file.write("resources = ( );\n")
        os.chmod(folder, 0o777)
        for host, status in ((self.host, 78), (folder, 0)):
            answer = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", SANDBOX, "sandbox", host, "",
                                     program("devplugd"), "-c", path, "--check"], capture_output=True, text=True)
            self.assertEqual(answer.returncode, status, answer.stderr)

    def test_replaced(self):
        self.node.configure(static("a", 2))
        self.node.start_kubelet()
        self.start(self.root)
        self.node.await_serving()
        self.node.stop_kubelet()
        remove_tree(self.root)
        # Nobody has made it again yet.
        self.node.await_state("vendor.example/a", "waiting")
        self.assertIsNone(self.node.daemon.poll())
        os.makedirs(self.node.plugins)
        self.node.start_kubelet()
        self.assertEqual(self.node.daemon.wait(timeout=LIMIT), 1)
        self.assertIn(f"{self.node.plugins} was removed on the host and created again", self.node.output())
        # As Restart=always does.
        self.start(self.root)
        self.node.await_serving()
        self.node.await_allocatable(a=2)

    def test_removed_mount(self):
        """A container: the directory itself is mounted, and the host has another one now."""
        self.node.configure(static("a", 2))
        self.node.start_kubelet()
        self.start(self.node.plugins)
        self.node.await_serving()
        self.node.stop_kubelet()
        remove_tree(self.root)
        os.makedirs(self.node.plugins)
        self.assertEqual(self.node.daemon.wait(timeout=LIMIT), 1)


class Allow(ToolTest):
    def allow(self, *words):
        return self.run_tool("devplugctl", "allow", "--root", self.node.dir, *words, config=False)

    def test_drop_in(self):
        path = os.path.join(self.node.dir, "etc/systemd/system/devplugd.service.d/60-allow.conf")
        registry = "/var/lib/k0s/kubelet/plugins_registry"
        self.assertEqual(self.allow(registry + "/").stdout, f"{path} allows {registry}\n")
        self.assertEqual(self.allow(registry).stdout, f"{registry} is allowed already\n")
        self.assertEqual(self.allow("/srv/cdi").returncode, 0)
        with open(path) as file:
            self.assertEqual(file.read(), '# Written by "devplugctl allow".\n[Service]\n' + "".join(
                f"ExecStartPre=+/usr/bin/mkdir -p {directory}\nReadWritePaths=-{directory}\n" for directory in (registry, "/srv/cdi")))

    def test_nodes_that_systemd_does_not_know(self):
        """With some releases of runc, a reload of systemd takes them from containers."""
        os.makedirs(self.node.dir + "/dev/nvidia-caps")
        os.makedirs(self.node.dir + "/dev/char")
        for name, number in (("nvidia0", 0), ("nvidia-caps/nvidia-cap1", 1)):
            os.mknod(f"{self.node.dir}/dev/{name}", 0o600 | stat.S_IFCHR, os.makedev(195, number))
            answer = self.allow("/srv/cdi")
            self.assertEqual(answer.returncode, 0)
            self.assertIn(f"{self.node.dir}/dev/{name} has no link in /dev/char", answer.stderr)
            os.symlink("../" + name, f"{self.node.dir}/dev/char/195:{number}")
        self.assertEqual(self.allow("/srv/cdi").stderr, "")

    def test_directories_that_are_refused(self):
        for bad in ("/", "//", "var", "/a/../b", "/a/..", "/a b", "/a%b", "/a\nb"):
            answer = self.allow(bad)
            self.assertEqual((answer.returncode, answer.stdout), (1, ""), bad)


if __name__ == "__main__":
    unittest.main()
