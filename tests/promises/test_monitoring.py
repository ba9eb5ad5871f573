# SPDX-License-Identifier: Apache-2.0
"""What packaging/monitoring has works: Prometheus scrapes a running devplugd, alerts fire, the dashboard's queries answer."""
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from node import NodeTest, path, program, static, until

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
MONITORING = os.path.join(ROOT, "packaging/monitoring")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read(name):
    with open(os.path.join(MONITORING, name), encoding="utf-8") as file:
        return file.read()


def queries():
    """The queries of the dashboard, with its variables filled in."""
    for panel in json.loads(read("grafana-dashboard.json"))["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "1m")
            yield panel["title"], re.sub(r"\$\w+", ".*", query)


class Rules(unittest.TestCase):
    def setUp(self):
        if not shutil.which("promtool"):
            self.skipTest("needs promtool, of the package prometheus")

    def run_promtool(self, *words):
        answer = subprocess.run(["promtool", *words], cwd=MONITORING, capture_output=True, text=True)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def test_rules(self):
        self.run_promtool("check", "rules", "devplugd.rules.yaml")
        self.run_promtool("test", "rules", "devplugd.rules.test.yaml")

    def test_every_alert_is_tested(self):
        tests = read("devplugd.rules.test.yaml")
        alerts = re.findall(r"- alert: (\w+)", read("devplugd.rules.yaml"))
        self.assertGreater(len(alerts), 10)
        self.assertEqual([name for name in alerts if name not in tests], [])


class Families(unittest.TestCase):
    """Names that rules and dashboard use, and the table of docs/metrics.md, are those of the exporter."""

    def setUp(self):
        self.families = set()
        for source in glob.glob(ROOT + "/exporter/families*.c"):
            with open(source, encoding="utf-8") as file:
                self.families |= set(re.findall(r'"(devplugd_[a-z_]+)"', file.read()))
        self.assertGreater(len(self.families), 30)

    def test_used_names(self):
        for name in ("devplugd.rules.yaml", "devplugd.rules.test.yaml", "grafana-dashboard.json"):
            for used in set(re.findall(r"\bdevplugd_[a-z_]+", read(name))):
                with self.subTest(f"{name}: {used}"):
                    self.assertIn(re.sub(r"_(bucket|sum|count)$", "", used), self.families)

    def test_runbooks(self):
        """Each alert names a heading of a page that the package installs."""
        alerts = re.findall(r"alert: (\w+)\n(.*?)(?=\n\n|\Z)", read("devplugd.rules.yaml"), re.S)
        self.assertGreater(len(alerts), 15)
        for name, text in alerts:
            with self.subTest(name):
                page, anchor = re.search(r"^ +runbook: /usr/share/doc/devplugd/(\S+)#(\S+)$", text, re.M).groups()
                with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
                    headings = re.findall(r"^#+ (.*)$", file.read(), re.M)
                self.assertIn(anchor, [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings])

    def test_manual(self):
        with open(os.path.join(ROOT, "docs/metrics.md"), encoding="utf-8") as file:
            documented = re.findall(r"^\| `(devplugd_[a-z_]+)` \|", file.read(), re.M)
        self.assertEqual(sorted(documented), sorted(self.families))


class SocketUnit(unittest.TestCase):
    def test_mode(self):
        """The manual documents one mode for both sockets at a path."""
        for name, words in (("docs/monitoring.md", "A socket at a path has mode 0660;"), ("units/devplugd-metrics.socket", "\nSocketMode=0660\n"),
                            ("supervisor/helpers/metrics-socket.c", "#define SOCKET_MODE 0660\n")):
            with self.subTest(name), open(os.path.join(ROOT, name), encoding="utf-8") as file:
                self.assertIn(words, file.read())


class PodMonitor(unittest.TestCase):
    def test_it_selects_the_daemonset(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("needs python3-yaml")
        monitor = yaml.safe_load(read("podmonitor.yaml"))
        with open(os.path.join(ROOT, "packaging/container/base/daemonset.yaml"), encoding="utf-8") as file:
            pods = yaml.safe_load(file)["spec"]["template"]
        for key, value in monitor["spec"]["selector"]["matchLabels"].items():
            self.assertEqual(pods["metadata"]["labels"][key], value)
        endpoint = monitor["spec"]["podMetricsEndpoints"][0]
        with open(os.path.join(ROOT, "packaging/container/components/metrics/daemonset.yaml"), encoding="utf-8") as file:
            component = yaml.safe_load(file)["spec"]["template"]
        ports = [port["name"] for container in component["spec"]["containers"] for port in container["ports"]]
        self.assertIn(endpoint["port"], ports)
        self.assertTrue(endpoint["honorLabels"])
        for label in ("node", "instance"):
            self.assertIn({"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": label}, endpoint["relabelings"])


class NodeProblemDetector(NodeTest):
    def test_the_rule_that_is_shipped(self):
        """Its program with its arguments, where the daemon's directory is the default one."""
        document = json.loads(read("node-problem-detector.json"))
        rule = document["rules"][0]
        failed = self.node.path("health")
        self.node.configure(static("gpu", 2, f'health = ( {{ probe = "file"; path = "{failed}"; healthy = "ok"; '
                                   'missing = "healthy"; } );'))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=2)

        def check():
            # A file system of its own for /run, in which only the directory of this node is.
            script = f'mount -t tmpfs tmpfs /run && mkdir /run/devplugd && mount --bind {self.node.run} /run/devplugd && exec "$@"'
            answer = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
                                     program(os.path.basename(rule["path"])), *rule["args"]],
                                    capture_output=True, text=True, timeout=60)
            self.assertEqual((answer.stderr, answer.stdout.count("\n")), ("", 1))
            self.assertLessEqual(len(answer.stdout.rstrip()), document["pluginConfig"]["max_output_length"])
            return answer.returncode, answer.stdout

        self.assertEqual(check(), (0, "1 resource, 2 devices: no problem\n"))
        with open(failed, "w") as file:
            file.write("hot")
        status, line = until(lambda: (c := check())[0] and c, "the problem")
        self.assertEqual(status, 1)
        self.assertRegex(line, "^2 problems: vendor.example/gpu/gpu-0: ")
        self.node.stop()
        self.assertEqual(check(), (2, "devplugd is not running: nothing answers in /run/devplugd\n"))


class Prometheus(NodeTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("prometheus"):
            self.skipTest("needs prometheus")
        self.exporter, self.prometheus = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.health = self.node.path("health")
        os.mkdir(self.health)
        self.node.configure(
            static("gpu", 3, f'health = ( {{ probe = "file"; path = "{self.health}/${{id}}"; healthy = "ok"; '
                             'missing = "healthy"; } );'),
            path("null", "/dev/null"),
            text=f'metrics = {{ listen = "{self.exporter}"; pods = true; }};',
            kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock";')

    def start_prometheus(self):
        # As shipped, but nobody waits for minutes here.
        with open(self.node.path("rules.yaml"), "w") as file:
            file.write(re.sub(r"for: \w+", "for: 1s", read("devplugd.rules.yaml")))
        with open(self.node.path("prometheus.yaml"), "w") as file:
            file.write("global: { scrape_interval: 500ms, evaluation_interval: 500ms }\n"
                       "rule_files: [ rules.yaml ]\n"
                       "scrape_configs:\n- job_name: devplugd\n  static_configs:\n"
                       f'  - targets: [ "{self.exporter}" ]\n')
        with open(self.node.path("prometheus.log"), "wb") as log:
            process = subprocess.Popen(
                ["prometheus", "--config.file", self.node.path("prometheus.yaml"), "--storage.tsdb.path",
                 self.node.path("tsdb"), f"--web.listen-address={self.prometheus}"], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def query(self, query):
        url = f"http://{self.prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []  # it starts
            self.fail(f"{query}: {error.read().decode()}")
        except OSError:
            return []
        self.assertEqual(document["status"], "success", query)
        return document["data"]["result"]

    def test_from_a_failure_to_its_pod(self):
        self.node.start_kubelet()
        self.node.start()
        self.start_prometheus()
        self.node.await_allocatable(gpu=3, null=1)
        given, _ = self.node.pod("train-0", gpu=1)
        held = given["resources"]["vendor.example/gpu"][0]
        until(lambda: self.query(f'devplugd_device_assigned{{device="{held}"}}'), "the pod to be known")
        self.assertEqual(self.query("up")[0]["value"][1], "1")
        self.assertEqual([a["metric"]["alertname"] for a in self.query('ALERTS{alertstate="firing"}')], [])

        with open(os.path.join(self.health, held), "w") as file:
            file.write("too hot")
        alert = until(lambda: self.query('ALERTS{alertname="DevplugdDeviceUnhealthy",alertstate="firing"}'), "the alert")
        self.assertEqual(alert[0]["metric"]["device"], held)
        joined = until(lambda: self.query("devplugd_device_assigned and on (instance, resource, device) "
                                          "devplugd_device_healthy == 0"), "the pod of the failed device")
        self.assertEqual([(row["metric"]["device"], row["metric"]["pod"]) for row in joined], [(held, "train-0")])

        # Every query of the dashboard is valid, and those that must find something do.
        silent = set()
        for title, query in queries():
            if not self.query(query):
                silent.add(title)
        # No resource is served by DRA.
        self.assertLessEqual(silent, {"Allocation time, 99 %", "Health changes", "Claims of DRA", "Time of a claim, mean",
                                      "ResourceSlices and API errors"})

        # A cordoned device raises no alert: somebody meant it.
        os.unlink(os.path.join(self.health, held))
        until(lambda: not self.query('ALERTS{alertstate="firing"}'), "the alert to end")
        subprocess.run([program("devplugctl"), "-c", self.node.config, "cordon", held], check=True, capture_output=True)
        until(lambda: self.query(f'devplugd_device_unhealthy_reason_info{{device="{held}",reason="cordoned"}}'), "the cordon")
        self.assertEqual(self.query('ALERTS{alertname="DevplugdDeviceUnhealthy"}'), [])


if __name__ == "__main__":
    unittest.main()
