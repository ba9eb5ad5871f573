# SPDX-License-Identifier: Apache-2.0
"""The row of DRA: how long the kubelet waits for a claim to be prepared, and how much of that is the API server's answer."""
import os
import statistics

from api_server import ApiServer
from node import until
from subjects import Devplugd, Resource

DRIVER = "d.example"


class Claimed(Devplugd):
    """With a DRA driver, and the scheduler's part played."""

    def configure(self, resources):
        super().configure(resources)
        self.registry, kubeconfig = self.node.path("registry"), self.node.path("kubeconfig")
        self.node.kubelet_options = ["--plugins-registry", self.registry]
        self.api = ApiServer(self.node.path("api"), node="n")
        self.api.kubeconfig(kubeconfig)
        with open(self.node.config) as file:
            text = file.read()
        with open(self.node.config, "w") as file:
            file.write(text.replace("kubelet = {", f'kubelet = {{ plugins_registry_dir = "{self.registry}";', 1) +
                       f'cdi_dir = "{self.node.path("cdi")}"; '
                       f'dra = {{ driver = "{DRIVER}"; kubeconfig = "{kubeconfig}"; node = "n"; }};\n')

    @staticmethod
    def keys(resource):
        return Devplugd.keys(resource) + ' serve = "dra";'

    def close(self):
        self.api.stop()
        super().close()


def prepare(subject, quick):
    if subject.kind != "devplugd" or not os.path.exists(os.path.join(subject.folder, "devplugd-dra")):
        return {}
    count, took, answer = 30 if quick else 200, [], []
    with Claimed(subject, [Resource("gpu", count, None)]) as run:
        run.start()
        pool = until(lambda: (found := run.api.pool()) and len(found) == count and found, "the slices")
        until(lambda: (status := run.node.status()) and status["dra"]["registered"], "the driver to be registered")
        for number, device in enumerate(sorted(pool)):
            run.api.allocate(f"c{number}", DRIVER, [("r", device)])
            pod = run.node.call_kubelet("pod", name=f"p{number}", namespace="default", limits={},
                                        claims=[run.api.claims["default", f"c{number}"]])
            assert not pod.get("reason"), pod
            took.append(run.events("prepare")[-1]["took_usec"] / 1000)
            answer.append(until(lambda: [s for _, path, s in run.api.spent if path.endswith(f"/c{number}")], "its end")[0] * 1000)
    besides = [whole - part for whole, part in zip(took, answer)]
    return {"prepare a claim, p50": (statistics.median(took), "ms"),
            "prepare a claim: the API server's answer, p50": (statistics.median(answer), "ms"),
            "prepare a claim: besides that answer, p50": (statistics.median(besides), "ms"),
            "prepare a claim: besides that answer, most": (max(besides), "ms")}
