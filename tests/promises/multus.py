# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Multus: it learns from PodResources which devices a pod has, and calls the CNI plugins of its networks with
them, as Multus does (multus-cni 4, pkg/kubeletclient and pkg/types/conf.go), and as a runtime calls a list of plugins.
"""
import json
import os
import shutil
import subprocess

from pod_resources import ask, fields

RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
NETWORKS = "k8s.v1.cni.cncf.io/networks"


class Failed(Exception):
    """What a plugin has answered instead of a result."""


class Multus:
    def __init__(self, node, info_dir, path, enter=()):
        """`path`: directories of plugins. `enter`: what a command begins with to run where plugins do."""
        self.socket = os.path.join(node.kubelet_state, "pod-resources/kubelet.sock")
        self.info_dir, self.path, self.enter = info_dir, path, list(enter)
        self.cni_info_dir = node.path("cni-info")
        os.makedirs(self.cni_info_dir, exist_ok=True)

    def devices(self, pod, resource):
        """The pod's device ids of the resource, container by container, and within each sorted."""
        message, _ = ask(self.socket, "List")
        found = []
        for entry in map(fields, fields(message).get(1, [])):
            for container in map(fields, entry.get(3, []) if entry[1][0] == pod.encode() else []):
                devices = [d for d in map(fields, container.get(2, [])) if d[1][0] == resource.encode()]
                found += sorted(device_id.decode() for d in devices for device_id in d[2])
        return found

    def delegate(self, network, device, wanted, container):
        """The configurations of the network's plugins, with what belongs to the pod."""
        conf = json.loads(network["spec"]["config"])
        plugins = conf.get("plugins", [conf])
        info = os.path.join(self.cni_info_dir, f"{conf['name']}-{container}_{wanted['interface']}")
        for plugin in plugins:
            plugin.update(cniVersion=conf["cniVersion"], name=conf["name"])
            runtime = {}
            if device:
                plugin.update(deviceID=device, pciBusID=device)
                runtime.update(deviceID=device, CNIDeviceInfoFile=info)
            for key in ("portMappings", "bandwidth", "ips", "mac"):
                if key in wanted:
                    runtime[key] = wanted[key]
            runtime = {key: value for key, value in runtime.items() if plugin.get("capabilities", {}).get(key)}
            if runtime:
                plugin["runtimeConfig"] = runtime
        return plugins, info

    def call(self, verb, plugin, container, netns, interface, previous):
        programs = [os.path.join(directory, plugin["type"]) for directory in self.path]
        program = next((path for path in programs if os.access(path, os.X_OK)), None)
        if not program:
            raise Failed(f"no plugin {plugin['type']} in {self.path}")
        conf = {**plugin, **({"prevResult": previous} if previous else {})}
        environment = {"PATH": os.environ["PATH"], "CNI_COMMAND": verb, "CNI_CONTAINERID": container, "CNI_NETNS": netns,
                       "CNI_IFNAME": interface, "CNI_PATH": ":".join(self.path)}
        answer = subprocess.run([*self.enter, program], input=json.dumps(conf), capture_output=True, text=True,
                                env=environment, timeout=60)
        if answer.returncode != 0:
            raise Failed(f"{plugin['type']} {verb}: {answer.stdout} {answer.stderr}")
        return json.loads(answer.stdout) if answer.stdout.strip() and verb == "ADD" else previous

    def attach(self, pod, netns, networks):
        """ADD of all networks that the pod's manifest names. Returns what detach() needs."""
        wanted = json.loads(pod["metadata"]["annotations"][NETWORKS])
        name, used, attached = pod["metadata"]["name"], {}, []
        for number, entry in enumerate(wanted, 1):
            entry.setdefault("interface", f"net{number}")
            network = networks[entry["name"]]
            resource = network["metadata"].get("annotations", {}).get(RESOURCE)
            device = None
            if resource:
                ids = self.devices(name, resource)
                position = used.get(resource, 0)
                if position >= len(ids):
                    raise Failed(f"{entry['name']}: the pod has {len(ids)} devices of {resource}, and needs one more")
                device, used[resource] = ids[position], position + 1
            container = f"sandbox-{name}"
            plugins, info = self.delegate(network, device, entry, container)
            if device:
                file = os.path.join(self.info_dir, f"{resource}-{device}-device.json".replace("/", "-"))
                if os.path.exists(file):
                    shutil.copy(file, info)
            result = None
            for plugin in plugins:
                result = self.call("ADD", plugin, container, netns, entry["interface"], result)
            attached.append((plugins, info, container, netns, entry["interface"], result))
        return attached

    def check(self, attached):
        for plugins, _, container, netns, interface, result in attached:
            for plugin in plugins:
                self.call("CHECK", plugin, container, netns, interface, result)

    def detach(self, attached):
        for plugins, info, container, netns, interface, result in reversed(attached):
            for plugin in reversed(plugins):
                self.call("DEL", plugin, container, netns, interface, result)
            if os.path.exists(info):
                os.unlink(info)

    @staticmethod
    def info(attached):
        """The device information of each network, which Multus puts into the pod's network-status."""
        infos = []
        for _, path, *_ in attached:
            with open(path) as file:
                infos.append(json.load(file))
        return infos
