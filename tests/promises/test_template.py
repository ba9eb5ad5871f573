# SPDX-License-Identifier: Apache-2.0
"""The template that children are copied from: it may die, hang or never have been there, and nobody notices; and
a copy is what an executed child would be.

complaints.md: R21, W12.
"""
import os
import shutil
import signal
import unittest

from node import NodeTest, children_of, client_of, command_line, process_status, program, static, template_of, until

# Fields of /proc/PID/status: a child's rights and settings.
SAME = ("Uid", "Gid", "Groups", "NoNewPrivs", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Seccomp",
        "SigBlk", "SigIgn", "SigCgt", "Name", "Umask", "CoreDumping")


def portrait(pid):
    """What the kernel knows of a child and must not depend on how it was made."""
    fields = {name: process_status(pid).get(name) for name in SAME}
    fields["command"] = command_line(pid)
    fields["program"] = os.readlink(f"/proc/{pid}/exe")
    fields["directory"] = os.readlink(f"/proc/{pid}/cwd")
    fields["owner of its files"] = os.stat(f"/proc/{pid}/environ").st_uid
    with open(f"/proc/{pid}/environ") as file:
        # A variable of the template leaves nothing but its room.
        fields["environment"] = file.read().rstrip("\0")
    with open(f"/proc/{pid}/limits") as file:
        fields["limits"] = file.read()
    with open(f"/proc/{pid}/timerslack_ns") as file:
        fields["timer slack"] = file.read()
    for name in ("oom_score_adj", "cgroup", "sessionid", "loginuid"):
        with open(f"/proc/{pid}/{name}") as file:
            fields[name] = file.read()
    descriptors = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        kind = os.readlink(f"/proc/{pid}/fd/{number}").split(":")[0]
        with open(f"/proc/{pid}/fdinfo/{number}") as file:
            flags = next(line.split()[1] for line in file if line.startswith("flags"))
        descriptors[int(number)] = (kind, flags)
    fields["descriptors"] = descriptors
    with open(f"/proc/{pid}/stat") as file:
        parent, group, session = file.read().rpartition(")")[2].split()[1:4]
    fields["parent"] = parent
    fields["leads its group and session"] = (group == str(pid), session == str(pid))
    return fields


class Template(NodeTest):
    def begin(self, *resources):
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start()
        return self.node.await_serving()

    def template(self):
        return template_of(self.node.daemon.pid)

    def respawn(self, name):
        """Kills a child and waits for the next one."""
        before = self.node.resource(name)
        os.kill(before["pid"], signal.SIGKILL)
        return until(lambda: (r := self.node.resource(name))["state"] == "serving" and r["pid"] != before["pid"]
                     and r, "the killed child to serve again")

    def replace_plugin(self, file):
        """Lets devplugd find another program where it looks for devplugd-plugin."""
        folder = self.node.path("bin")
        os.mkdir(folder)
        shutil.copy(program("devplugd"), folder)
        shutil.copy(file, os.path.join(folder, "devplugd-plugin"))
        self.node.daemon_program = os.path.join(folder, "devplugd")

    def test_children_are_copies_of_it(self):
        resources = self.begin(static("a", 1), static("b", 1))
        template = self.template()
        self.assertIsNotNone(template)
        status = process_status(template)
        self.assertEqual(status["Threads"], "1")
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        # When memory runs out, children go first.
        adjustment = {}
        for pid in (self.node.daemon.pid, template, resources["vendor.example/a"]["pid"]):
            with open(f"/proc/{pid}/oom_score_adj") as file:
                adjustment[pid] = int(file.read())
        own = adjustment.pop(self.node.daemon.pid)
        self.assertEqual(set(adjustment.values()), {min(own + 100, 1000)})
        self.assertEqual(sorted(map(int, os.listdir(f"/proc/{template}/fd"))), [0, 1, 2, 3])
        with open(f"/proc/{template}/maps") as maps, open(f"/proc/{resources['vendor.example/a']['pid']}/maps") as own:
            # Code lies at other addresses in a process that has executed the program.
            places, own_places = ({line.split("-")[0] for line in lines if " r-xp " in line} for lines in (maps, own))
            self.assertTrue(places)
            self.assertEqual(places, own_places)

    def test_a_copy_is_like_an_executed_child(self):
        users = {"a": "", "root": 'user = "0";', "other": 'user = "12345";'}
        resources = self.begin(*(static(name, 1, more) for name, more in users.items()))
        copies = {name: portrait(r["pid"]) for name, r in resources.items()}
        os.kill(self.template(), signal.SIGSTOP)
        for name in resources:
            executed = portrait(self.respawn(name)["pid"])
            for key, value in executed.items():
                if key != "descriptors":
                    self.assertEqual(copies[name][key], value, f"{name}: {key}")
            # Further ones are of sessions and gRPC.
            for number in range(4):
                self.assertEqual(copies[name]["descriptors"][number], executed["descriptors"][number], (name, number))
            self.assertEqual(len(copies[name]["descriptors"]), len(executed["descriptors"]))

    def test_killed_template(self):
        before = self.begin(*(static(f"r{i}", 1) for i in range(3)))
        first = self.template()
        os.kill(first, signal.SIGKILL)
        until(lambda: self.template() is None, "the template to be gone")
        # One that does not come in 2 s is given up, and the next child has another one made.
        until(lambda: self.respawn("vendor.example/r1") and self.template() not in (None, first), "another template")
        after = self.node.await_serving()
        for name in ("vendor.example/r0", "vendor.example/r2"):
            self.assertEqual((after[name]["pid"], after[name]["session"]), (before[name]["pid"], before[name]["session"]))

    def test_template_that_hangs(self):
        self.begin(static("a", 1), static("b", 1))
        os.kill(self.template(), signal.SIGSTOP)
        self.respawn("vendor.example/a")
        until(lambda: self.template() is None, "the hung template to be gone")
        self.respawn("vendor.example/b")
        self.assertIn("executing the program instead", self.node.output())

    def test_late_answer(self):
        """A child that the template has made when devplugd does not wait for it any more is reaped."""
        self.node.prepare_children()
        late = os.path.join(os.path.dirname(self.node.daemon_program), "late")
        with open(late, "w"):
            pass
        self.begin(static("a", 1))
        self.assertIn("executing the program instead", self.node.output())
        with open(late) as file:
            made = int(file.read())
        until(lambda: made not in children_of(self.node.daemon.pid), "the other child to be reaped")
        until(lambda: {*children_of(self.node.daemon.pid)} - {client_of(self.node.daemon.pid)} ==
              {self.node.find("vendor.example/a")["pid"]}, "the template to be reaped")

    def test_program_that_is_no_template(self):
        self.replace_plugin(program("devplugd-plugin"))
        plugin = os.path.join(os.path.dirname(self.node.daemon_program), "devplugd-plugin")
        with open(plugin, "rb") as file:
            code = file.read()
        self.assertIn(b"--template\0", code)
        with open(plugin, "wb") as file:
            file.write(code.replace(b"--template\0", b"--tamplate\0"))
        self.begin(*(static(f"r{i}", 1) for i in range(3)))
        self.respawn("vendor.example/r1")
        self.assertIsNone(self.template())
        self.assertEqual(self.node.output().count("the template process (pid"), 2)

    def test_template_dies_with_the_supervisor(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            self.begin(static("a", 1))
            template = self.template()
            self.node.stop(number)
            until(lambda: not os.path.exists(f"/proc/{template}/exe"), "the template to be gone")
            self.assertNotIn("the template process (pid", self.node.output())
            self.node.stop_kubelet()

    def test_P7_copies_die_with_the_supervisor(self):
        child = self.begin(static("a", 1))["vendor.example/a"]["pid"]
        # Now it cannot read that its control socket has ended.
        os.kill(child, signal.SIGSTOP)
        self.node.stop(signal.SIGKILL)
        until(lambda: not os.path.exists(f"/proc/{child}/exe"), "the child to be gone")

    def test_upgrade_on_disk_mixes_nothing(self):
        self.replace_plugin(program("devplugd-plugin"))
        self.begin(static("a", 1))
        plugin = os.path.join(os.path.dirname(self.node.daemon_program), "devplugd-plugin")
        shutil.copy("/bin/false", plugin + ".new")
        os.rename(plugin + ".new", plugin)
        os.kill(self.template(), signal.SIGKILL)
        until(lambda: self.template() is None, "the template to be gone")
        self.respawn("vendor.example/a")
        self.assertIsNotNone(self.template())

    def test_children_are_reaped(self):
        self.begin(static("a", 1))
        for _ in range(5):
            self.respawn("vendor.example/a")
        client = client_of(self.node.daemon.pid)
        states = [process_status(pid)["State"][0] for pid in children_of(self.node.daemon.pid) if pid != client]
        self.assertEqual(len(states), 2)
        self.assertNotIn("Z", states)

    def test_process_that_hangs_before_it_runs(self):
        """As in a file system that does not answer: neither the template nor a child stops devplugd for long."""
        self.node.inject("hang-entry")
        self.node.configure(static("a", 1))
        self.node.start()
        until(lambda: self.node.output().count("was not executed within 2 s") > 1, "devplugd to give up a child")
        self.assertIsNotNone(self.node.status())

        def hung():
            return [pid for pid in children_of(self.node.daemon.pid)
                    if process_status(pid)["State"][0] == "Z" or len(os.listdir(f"/proc/{pid}/fd")) > 0]

        self.node.configure()
        self.node.reload()
        until(lambda: not hung(), "those that hung to be ended and reaped")


if __name__ == "__main__":
    unittest.main()
