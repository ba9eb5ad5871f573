# SPDX-License-Identifier: Apache-2.0
"""P1 and P10 at start: a bad file starts nothing, exits 78 and says where and what.

complaints.md: R11, M8.
"""
import os
import subprocess
import unittest

from node import NodeTest, path, program, static

GOOD = static("good", 1)
BAD = {
    "declared twice": ([GOOD, GOOD], ["vendor.example/good"]),
    "unknown driver": (['{ name = "vendor.example/a"; driver = "statik"; match = ( { count = 1; } ); }'],
                       ["statik", '"static"']),
    "unknown key": (['{ name = "vendor.example/a"; driver = "static"; matc = ( { count = 1; } ); }'],
                    ["matc", '"match"']),
    "unknown key in a match entry": (
        ['{ name = "vendor.example/a"; driver = "static"; match = ( { cuont = 1; } ); }'], ["cuont", '"count"']),
    "name without a slash": (['{ name = "gpu"; driver = "static"; match = ( { count = 1; } ); }'], ["gpu"]),
    "name of kubernetes.io": (
        ['{ name = "kubernetes.io/gpu"; driver = "static"; match = ( { count = 1; } ); }'], ["kubernetes.io/gpu"]),
    "upper case": (['{ name = "Vendor.example/gpu"; driver = "static"; match = ( { count = 1; } ); }'],
                   ["Vendor.example/gpu"]),
    "too long": (['{ name = "vendor.example/' + "x" * 64 + '"; driver = "static"; match = ( { count = 1; } ); }'],
                 ["63"]),
    "wrong type": (['{ name = "vendor.example/a"; driver = "static"; match = ( { count = "many"; } ); }'], ["count"]),
    "out of bounds": (['{ name = "vendor.example/a"; driver = "static"; match = ( { count = 0; } ); }'], ["count"]),
    "no match": (['{ name = "vendor.example/a"; driver = "static"; }'], ["match"]),
    "syntax": (['{ name == "vendor.example/a"; driver = "static"; }'], ["syntax error"]),
    "same path twice": ([path("a", "/dev/null"), path("b", "/dev/null")], ["/dev/null"]),
    "relative path": ([path("a", "dev/null")], ["dev/null"]),
    "unknown variable": ([static("a", 1, 'container = { env = ( "A=${idd}" ); };')], ["idd", "id"]),
    "list beyond 4 MiB": ([static("a", 200000, "share = { replicas = 10; };")], ["4194304"]),
}


class BadConfiguration(NodeTest):
    def run_daemon(self, *options):
        return subprocess.run([program("devplugd"), "-c", self.node.config, *options],
                              capture_output=True, text=True, timeout=60)

    def test_nothing_is_started(self):
        for what, (resources, words) in BAD.items():
            with self.subTest(what):
                self.node.configure(*resources)
                for options in ([], ["--check"]):
                    answer = self.run_daemon(*options)
                    said = answer.stdout + answer.stderr
                    self.assertEqual(answer.returncode, 78, said)
                    self.assertRegex(said, rf"{self.node.config}:\d+: ")
                    for word in words:
                        self.assertIn(word, said)
                self.assertFalse(os.path.exists(self.node.run + "/control"))

    def test_every_problem_is_reported_at_once(self):
        self.node.configure('{ name = "gpu"; driver = "statik"; }', static("a", 0))
        said = self.run_daemon("--check").stderr
        self.assertGreaterEqual(said.count(self.node.config + ":"), 3, said)

    def test_file_that_is_not_there(self):
        answer = self.run_daemon()
        self.assertEqual(answer.returncode, 78)
        self.assertIn(self.node.config, answer.stderr)
        self.assertIn("does not exist", answer.stderr)

    def test_socket_path_limit(self):
        directory = self.node.path("x" * 90)
        with open(self.node.config, "w") as file:
            file.write(f'kubelet = {{ device_plugin_dir = "{directory}"; }};\nresources = ( {GOOD} );\n')
        answer = self.run_daemon("--check")
        self.assertEqual(answer.returncode, 78)
        self.assertIn("107", answer.stderr)

    def test_good_file(self):
        self.node.configure(GOOD)
        answer = self.run_daemon("--check")
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_usage(self):
        for options in (["--chek"], ["surplus"], ["-c"]):
            answer = subprocess.run([program("devplugd"), *options], capture_output=True, timeout=60)
            self.assertEqual(answer.returncode, 2, options)

    def test_supervisor_links_no_grpc(self):
        libraries = subprocess.run(["ldd", program("devplugd")], capture_output=True, text=True).stdout
        # The address sanitizer's own library is C++.
        forbidden = ["grpc", "gpr", "protobuf", "absl"] + ["stdc++"] * ("asan" not in libraries)
        for word in forbidden:
            self.assertNotIn(word, libraries)


if __name__ == "__main__":
    unittest.main()
