# SPDX-License-Identifier: Apache-2.0
"""devplugd --watch: files that change are reloaded once, however they are changed; a broken one changes nothing."""
import os
import signal
import subprocess
import time

from node import NodeTest, program, static, until


class Watch(NodeTest):
    def begin(self, *resources):
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start("--watch")
        self.node.await_serving()

    def accepted(self):
        return self.node.output().count("accepted as generation")

    def test_file(self):
        self.begin(static("a", 1))
        pid = self.node.find("vendor.example/a")["pid"]
        self.node.configure(static("a", 2))
        self.node.await_allocatable(a=2)
        with open(self.node.config, "a") as file:
            file.write("nonsense = 1;\n")
        until(lambda: 'unknown key "nonsense"' in self.node.output(), "the broken file to be told")
        self.assertEqual(self.node.generation(), 2)
        # Nothing that concerns the configuration.
        with open(self.node.path(".devplugd.conf.swp"), "w"):
            pass
        self.node.configure(static("a", 3))
        self.node.await_allocatable(a=3)
        until(lambda: self.accepted() == 2, "both to be logged")
        self.assertEqual((self.node.generation(), self.node.find("vendor.example/a")["pid"]), (3, pid))

    def test_drop_ins(self):
        """Watches a directory that appears, disappears and appears again."""
        self.begin(static("a", 1))
        for round_ in range(2):
            os.mkdir(self.node.config + ".d")
            with open(self.node.config + ".d/b.conf", "w") as file:
                file.write(f"resources = ( {static('b', 4)} );\n")
            self.node.await_allocatable(a=1, b=4)
            os.unlink(self.node.config + ".d/b.conf")
            os.rmdir(self.node.config + ".d")
            until(lambda: self.node.resource("vendor.example/b") is None, "the resource to be removed")

    def test_configuration_map(self):
        """As a kubelet puts a ConfigMap in place: links to a directory that a link is turned to."""
        volume = self.node.path("volume")
        os.mkdir(volume)
        real = self.node.config

        def publish(generation, count, real):
            self.node.config = f"{volume}/..{generation}"
            os.mkdir(self.node.config)
            self.node.config += "/devplugd.conf"
            self.node.configure(static("a", count))
            os.symlink(f"..{generation}", f"{volume}/..data_tmp")
            os.rename(f"{volume}/..data_tmp", f"{volume}/..data")
            self.node.config = real

        publish(1, 1, real)
        os.symlink("..data/devplugd.conf", f"{volume}/devplugd.conf")
        os.symlink(f"{volume}/devplugd.conf", real)
        # Elsewhere than the log, whose directory is busy.
        os.mkdir(self.node.path("etc"))
        os.rename(real, self.node.path("etc/devplugd.conf"))
        self.node.config = self.node.path("etc/devplugd.conf")
        self.node.start_kubelet()
        self.node.start("--watch")
        self.node.await_allocatable(a=1)
        real = self.node.config
        for generation in range(2, 5):
            publish(generation, generation, real)
            self.node.await_allocatable(a=generation)

    def test_links_that_are_turned(self):
        """The file, a drop-in and a directory on the way to it lead to other files than at the start, and these change."""
        # Elsewhere than the log, whose directory is busy.
        folders = [self.node.path(name) for name in ("etc", "one", "two", "drop-ins")]
        for folder in folders:
            os.mkdir(folder)
        etc, one, two, drop_ins = folders

        def turn(link, target):
            os.symlink(target, f"{link}.new")
            os.rename(f"{link}.new", link)

        def write(path, count, name):
            with open(f"{path}.new", "w") as file:
                file.write(text.replace("{count}", str(count)) if name == "a" else f"resources = ( {static(name, count)} );\n")
            os.rename(f"{path}.new", path)

        self.node.configure(static("a", 8))
        with open(self.node.config) as file:
            text = file.read().replace("count = 8", "count = {count}")
        self.assertIn("{count}", text)
        write(f"{one}/main", 1, "a")
        write(f"{one}/b", 1, "b")
        self.node.config = f"{etc}/devplugd.conf"
        turn(self.node.config, f"{one}/main")
        turn(self.node.config + ".d", drop_ins)
        turn(f"{drop_ins}/b.conf", f"{one}/b")
        self.node.start_kubelet()
        self.node.start("--watch")
        self.node.await_allocatable(a=1, b=1)
        write(f"{one}/b", 2, "b")
        self.node.await_allocatable(a=1, b=2)
        write(f"{two}/main", 2, "a")
        turn(self.node.config, f"{two}/main")
        self.node.await_allocatable(a=2, b=2)
        write(f"{two}/main", 3, "a")
        self.node.await_allocatable(a=3, b=2)
        write(f"{two}/b", 3, "b")
        turn(f"{drop_ins}/b.conf", f"{two}/b")
        self.node.await_allocatable(a=3, b=3)
        write(f"{two}/b", 4, "b")
        self.node.await_allocatable(a=3, b=4)

    def test_cordon(self):
        """It is applied once, by the command, and later changes are still noticed."""
        self.begin(static("a", 2))
        before = self.node.generation()
        for verb, left in (("cordon", 1), ("uncordon", 2)):
            result = subprocess.run([program("devplugctl"), "-c", self.node.config, verb, "vendor.example/a/a-0"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.node.await_allocatable(a=left)
            # Otherwise a second reload would be one with that of the next change.
            time.sleep(1)
        self.assertEqual(self.node.generation(), before + 2)
        self.node.configure(static("a", 3))
        self.node.await_allocatable(a=3)
        self.assertEqual(self.node.generation(), before + 3)

    def test_asked_for_as_well(self):
        """A reload that was asked for is not done twice."""
        self.begin(static("a", 1))
        before = self.node.generation()
        # It sees both at once when it goes on.
        self.node.daemon.send_signal(signal.SIGSTOP)
        self.addCleanup(self.node.daemon.send_signal, signal.SIGCONT)
        self.node.configure(static("a", 2))
        self.node.daemon.send_signal(signal.SIGHUP)
        self.node.daemon.send_signal(signal.SIGCONT)
        self.node.await_allocatable(a=2)
        # Otherwise a second reload would be one with that of the next change.
        time.sleep(1)
        self.node.configure(static("a", 2), static("b", 1))
        self.node.await_allocatable(a=2, b=1)
        self.assertEqual(self.node.generation(), before + 2)


if __name__ == "__main__":
    import unittest
    unittest.main()
