# SPDX-License-Identifier: Apache-2.0
"""Presets: what a resource has itself wins, mistakes in a preset are told with its file, discover prints what works."""
import os
import shutil
import subprocess
import tempfile
import unittest

from node import NodeTest, program

FPGA = """# SPDX-License-Identifier: Apache-2.0
# A card. Replaces nothing.
driver = "path";
match  = ( "/dev/fpga[0-9]*", "/dev/card[0-9]*" );
share  = { replicas = 4; max_per_container = 2; };
container = {
    env = ( "A=1", "B=2" );
    annotations = "vendor.example/a=1";
};
"""


class Presets(unittest.TestCase):
    """Programs find presets beside themselves, so copies of the programs have presets of the test."""

    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="devplugd-test."))
        self.addCleanup(shutil.rmtree, self.dir)
        os.chmod(self.dir, 0o755)
        self.presets = os.path.join(self.dir, "share/devplugd/presets")
        os.makedirs(self.presets)
        os.makedirs(self.dir + "/bin")
        for name in ("devplugd", "devplugctl"):
            shutil.copy(program(name), self.dir + "/bin")
        self.config = os.path.join(self.dir, "devplugd.conf")
        self.preset("fpga", FPGA)

    def preset(self, name, text):
        with open(f"{self.presets}/{name}.conf", "w") as file:
            file.write(text)

    def run_program(self, name, *arguments, **options):
        return subprocess.run([f"{self.dir}/bin/{name}", *arguments], capture_output=True, text=True, timeout=60, **options)

    def daemon(self, keys, *options):
        with open(self.config, "w") as file:
            file.write('resources = ( { name = "vendor.example/a"; %s } );\n' % keys)
        return self.run_program("devplugd", "-c", self.config, *options)

    def dump(self, keys):
        answer = self.daemon(keys, "--dump")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout.split("resources = (")[1]

    def problems(self, keys):
        answer = self.daemon(keys, "--check")
        self.assertEqual(answer.returncode, 78, answer.stdout)
        return answer.stderr.splitlines()[:-1]

    def test_cdi_spec_is_off(self):
        """A resource may switch the CDI file of its preset off, or declare one where its preset has none."""
        self.preset("with", 'driver = "path"; match = "/dev/a"; cdi_spec = { kind = "vendor.example/own"; gid = 44; };')
        self.preset("without", 'driver = "path"; match = "/dev/a"; cdi_spec = false;')
        self.assertIn("cdi_spec = false;", self.dump('preset = "with"; cdi_spec = false;'))
        self.assertIn("cdi_spec = false;", self.dump('preset = "without";'))
        merged = self.dump('preset = "with"; cdi_spec = { kind = "vendor.example/new"; };')
        self.assertIn('kind = "vendor.example/new"', merged)
        self.assertIn("gid = 44", merged)
        self.assertIn('kind = "vendor.example/new"', self.dump('preset = "without"; cdi_spec = { kind = "vendor.example/new"; };'))

    def test_same_as_written_out(self):
        self.assertEqual(self.dump('preset = "fpga";'), self.dump(FPGA))

    def test_own_keys_win(self):
        """Keys of groups one by one, lists as a whole."""
        self.assertEqual(
            self.dump('preset = "fpga"; match = "/dev/kvm"; share = { replicas = 7; }; container = { env = ( "B=3" ); };'),
            self.dump('driver = "path"; match = "/dev/kvm"; share = { replicas = 7; max_per_container = 2; };'
                      'container = { env = ( "B=3" ); annotations = "vendor.example/a=1"; };'))
        self.assertEqual(self.dump('preset = "fpga"; driver = "static"; match = "one"; share = { replicas = 1; };'),
                         self.dump('driver = "static"; match = "one"; share = { max_per_container = 2; };'
                                   'container = { env = ( "A=1", "B=2" ); annotations = "vendor.example/a=1"; };'))

    def test_unknown(self):
        self.assertEqual(self.problems('preset = "fpgs"; zork = 1;'), [
            f'{self.config}:1: resources[0] "vendor.example/a": preset: unknown preset "fpgs", did you mean "fpga"?'])
        for name in ("../fpga", "/fpga", ".", ".fpga"):
            self.assertIn("must be the name of a preset", self.problems(f'preset = "{name}";')[0])

    def test_mistakes_in_a_preset(self):
        """With the file and line of the preset, and the resource that uses it."""
        bad = f"{self.presets}/bad.conf"
        for text, line, problem in (
                ('driver = "path";\nmatch = "dev/x";\n', 2, "match.path: must be an absolute path"),
                ('driver = "path";\nmatch = "/x";\nshare = {\nreplicas = 0; };', 4, "share.replicas: must be from 1"),
                ('driver = "path"; match = "/x";\n\nzork = 1;', 3, 'unknown key "zork"'),
                ('driver = "path"; match = "/x";\nshare = 1;', 2, "share: must be a group"),
                ('driver = "path"; match = "/x";\nshare = {\nreplica = 1; };', 3, 'did you mean "replicas"?'),
                ('driver = "path";\nmatch = ( {\npath = "/x"; paths = ( "/y" ); } );', 2, "this one has both"),
                ('driver = "path"; match = "/x";\nname = "vendor.example/b";', 2, "belongs in the resource"),
                ('\npreset = "fpga";', 2, "belongs in the resource"),
                ('driver = "path";\nmatch = = "/x";', 2, "syntax error"),
                ('driver = "path";\nmatch = "/x;', 2, "quote")):
            with self.subTest(text):
                self.preset("bad", text)
                for keys in ('preset = "bad";', 'preset = "bad"; share = { max_per_container = 1; };'):
                    said = self.problems(keys)
                    self.assertTrue(said[0].startswith(f"{bad}:{line}: "), said)
                    self.assertIn(problem, said[0])
                    self.assertIn('"vendor.example/a"', said[0])

    def test_driver_without_match(self):
        self.assertEqual(self.problems('preset = "fpga";\ndriver = "static";')[0].split("driver: ")[1],
                         'is "static", but "match" of the preset is for driver "path": remove "driver", or also set "match"')

    def test_list(self):
        self.preset("plain", 'driver = "path";\n')
        self.assertEqual([line.split(None, 1) for line in self.run_program("devplugctl", "presets").stdout.splitlines()[1:]],
                         [["fpga", "A card. Replaces nothing."], ["plain"]])
        self.assertEqual(self.run_program("devplugctl", "presets", "fpga").stdout, FPGA)
        self.preset("empty", "")
        empty = self.run_program("devplugctl", "presets", "empty")
        self.assertEqual((empty.returncode, empty.stdout), (0, ""))
        answer = self.run_program("devplugctl", "presets", "fpgs")
        self.assertEqual(answer.returncode, 1)
        self.assertIn('did you mean "fpga"', answer.stderr)

    def test_unusable(self):
        """Each is reported, and the others are listed and tried."""
        self.preset("card", '# Cards.\ndriver = "path"; match = "/dev/nul[l]";\n')
        self.preset("malformed", 'driver = "pa\n')
        self.preset("secret", "")
        os.chmod(self.presets + "/secret.conf", 0)
        os.mkdir(self.presets + "/directory.conf")
        os.symlink("/nowhere", self.presets + "/dangling.conf")
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        unreadable = [f"devplugctl: cannot read {self.presets}/{name}.conf: {why}" for name, why in (
            ("dangling", "No such file or directory"), ("directory", "Is a directory"), ("secret", "Permission denied"))]
        listed = self.run_program("devplugctl", "presets", **user)
        self.assertEqual(listed.returncode, 1)
        self.assertEqual(listed.stderr.splitlines(), unreadable)
        self.assertEqual([line.split()[0] for line in listed.stdout.splitlines()[1:]], ["card", "fpga", "malformed"])
        found = self.run_program("devplugctl", "discover", **user)
        self.assertEqual(found.returncode, 1)
        self.assertIn('preset = "card"', found.stdout)
        for line in [*unreadable, f"devplugctl: {self.presets}/malformed.conf:1: "]:
            self.assertEqual(found.stderr.count(line), 1, found.stderr)
        for name in ("directory", "secret"):
            for command in ("presets", "discover"):
                one = self.run_program("devplugctl", command, name, **user)
                self.assertEqual((one.returncode, one.stdout), (1, ""))
                self.assertIn(one.stderr.strip(), unreadable)

    def test_discover(self):
        """What is printed is a valid configuration, and nobody special is needed to get it."""
        self.preset("card", '# Cards.\ndriver = "path"; match = "/dev/card*"; exclude = "card1";\n')
        self.preset("none", '# Nothing.\ndriver = "path"; match = "/dev/none*";\n')
        root = os.path.join(self.dir, "host")
        os.makedirs(root + "/dev")
        os.chmod(self.dir, 0o755)
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        nothing = self.run_program("devplugctl", "discover", "--root", root, **user)
        self.assertEqual(nothing.returncode, 0, nothing.stderr)
        self.assertNotIn("preset =", nothing.stdout)
        for name in [f"fpga{i}" for i in range(6)] + ["card1"]:
            os.mkfifo(f"{root}/dev/{name}")
        found = self.run_program("devplugctl", "discover", "--root", root, **user)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn("# A card. Replaces nothing.\n    # Here: card1, fpga0, fpga1, fpga2 and 3 more\n", found.stdout)
        self.assertEqual(found.stdout.count("preset ="), 1)
        self.assertEqual(self.run_program("devplugctl", "discover", "card", "--root", root).stdout, nothing.stdout)
        self.preset("bad", 'driver = "paht"; match = "/x";\n')
        beside = self.run_program("devplugctl", "discover", "--root", root)
        self.assertEqual((beside.returncode, beside.stdout), (1, found.stdout))
        self.assertIn(self.presets + "/bad.conf:1: ", beside.stderr)
        os.unlink(self.presets + "/bad.conf")
        for text in (nothing.stdout, found.stdout):
            with open(self.config, "w") as file:
                file.write(text)
            self.assertEqual(self.run_program("devplugd", "-c", self.config, "--check").returncode, 0)


class Served(NodeTest):
    def configure(self, replicas):
        self.node.configure('{ name = "vendor.example/a"; preset = "fuse"; match = "/dev/null"; share = { replicas = %d; }; }'
                            % replicas)

    def test_served_and_reloaded(self):
        """The process of the resource is sent its keys, wherever they came from."""
        self.configure(3)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=3)
        pid = self.node.find("vendor.example/a")["pid"]
        self.configure(5)
        self.node.reload()
        self.node.await_allocatable(a=5)
        self.assertEqual(self.node.find("vendor.example/a")["pid"], pid)


if __name__ == "__main__":
    unittest.main()
