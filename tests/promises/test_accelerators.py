# SPDX-License-Identifier: Apache-2.0
"""Presets of accelerators, each on a host with two devices: what is found, what a container gets, what stays when the driver is
loaded again, and what is refused or explained on a host that lacks something. No accelerator was there: the trees are made from the
drivers' sources and documents.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from accelerator_hosts import ADDRESSES, HOSTS, AcceleratorHost
from dra_node import DraTest
from node import NodeTest, program, until

PEERS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../peers")
sys.path.insert(0, PEERS)
from test_peers import plant, plant_line  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/examples/exec")
DRI = ("dri/card{1}", "dri/renderD{129}")
ASCEND = ("davinci{0}", "davinci_manager", "devmm_svm", "hisi_hdc")
VOID = {"ASCEND_VISIBLE_DEVICES": "void"}
NPU_SMI = ["/usr/local/bin/npu-smi"]

# Ids: {bdf} is the address. Nodes: {N} is the device's number plus N; a path after ">" is another one in the container.
FOUND = {
    "amd-xdna": ("{bdf}:accel.0", ("accel/accel{0}",), {}, []),
    "ascend-310": ("{bdf}", ASCEND, VOID, NPU_SMI),
    "ascend-310b": ("devdrv-class:davinci{0}", ("davinci{0}", "davinci_manager_docker>davinci_manager", "svm0", "ts_aisle", "vdec"), VOID, []),
    "ascend-310p": ("{bdf}", ASCEND, VOID, NPU_SMI),
    "ascend-910": ("{bdf}", ASCEND, VOID, NPU_SMI),
    "ascend-950": ("devdrv-class:davinci{0}", ("davinci{0}", "davinci_manager", "hisi_hdc", "uburma", "ummu"), VOID, []),
    "aws-neuron": ("neuron_device:neuron{0}", ("neuron{0}",), {"AWS_NEURON_VISIBLE_DEVICES": "{0}"}, []),
    "cambricon-mlu": ("{bdf}", ("cambricon_ctl", "cambricon_dev{0}", "cambricon_gdr", "cambricon_ipcm{0}"), {}, ["/usr/bin/cnmon"]),
    "enflame-gcu": ("{bdf}", ("gcu{0}", "gcuctl"), {"ENFLAME_VISIBLE_DEVICES": "{0}"}, []),
    "furiosa": ("{bdf}", tuple(f"rngd/npu{{0}}{part}" for part in ("bar0", "ch0", "ch0r", "dmar", "mgmt", "pe0", "pe0-3")), {}, []),
    "google-tpu": ("{bdf}", ("vfio/{20}", "vfio/{21}", "vfio/vfio"), {"TPU_SKIP_MDS_QUERY": "true"}, []),
    "hailo": ("{bdf}", ("{hailo}",), {}, []),
    "hygon-dcu": ("{bdf}", (*DRI, "kfd", "mkfd"), {}, ["/opt/hyhal"]),
    "iluvatar-gpu": ("iluvatar{0}", ("iluvatar{0}", "itrctl"), {}, []),
    "intel-gaudi": ("{bdf}", ("accel/accel{1}", "accel/accel_controlD{1}", "infiniband/uverbs{0}"),
                    {"HABANA_VISIBLE_DEVICES": "{1}", "HL_VISIBLE_DEVICES": "/dev/accel/accel{1}", "HABANA_VISIBLE_MODULES": "{module}"}, []),
    "kunlunxin-xpu": ("xpu{0}", ("xpu{0}", "xpuctrl"), {}, []),
    "metax-gpu": ("{bdf}", (*DRI, "mxcd", "mxnd"), {}, ["/opt/maca"]),
    "mthreads-gpu": ("{bdf}", (*DRI, "mtgpu.{0}"), {}, []),
    "qualcomm-aic": ("{bdf}:accel.0", ("accel/accel{0}",), {}, []),
    "rebellions": ("{bdf}", ("rbln{0}", "rsd0"), {}, []),
    "tenstorrent": ("{bdf}", ("tenstorrent/{0}",), {"TT_VISIBLE_DEVICES": "{0}"}, ["/dev/hugepages-1G"]),
}
# Names that pods of the vendors' plugins request.
NAMES = {
    "ascend-310": "huawei.com/Ascend310", "ascend-310b": "huawei.com/Ascend310B", "ascend-310p": "huawei.com/Ascend310P",
    "ascend-910": "huawei.com/Ascend910", "ascend-950": "huawei.com/npu", "aws-neuron": "aws.amazon.com/neuron",
    "cambricon-mlu": "cambricon.com/mlu", "enflame-gcu": "enflame.com/gcu", "furiosa": "furiosa.ai/rngd", "google-tpu": "google.com/tpu",
    "hailo": "hailo.ai/npu", "hygon-dcu": "hygon.com/dcu", "iluvatar-gpu": "iluvatar.com/gpu", "intel-gaudi": "habana.ai/gaudi",
    "kunlunxin-xpu": "kunlunxin.com/xpu", "metax-gpu": "metax-tech.com/gpu", "mthreads-gpu": "mthreads.com/gpu",
    "qualcomm-aic": "qualcomm.com/qaic", "rebellions": "rebellions.ai/npu",
}
# Devices whose function the driver does not show, so that their ids are the names of their nodes.
BY_NUMBER = {"ascend-310b", "ascend-950", "aws-neuron", "iluvatar-gpu", "kunlunxin-xpu"}

FIRST = f"sys/devices/pci0000:00/{ADDRESSES[0]}"


def without(*names):
    return lambda host: [host.remove(name) for name in names]


def with_file(name, text):
    return lambda host: host.file(name, text)


def with_driver(name):
    """Both functions are bound to another driver."""
    def change(host):
        for address in ADDRESSES:
            host.remove(f"sys/devices/pci0000:00/{address}/driver")
            host.bind(f"pci0000:00/{address}", name)
            host.file(f"sys/devices/pci0000:00/{address}/uevent", f"DRIVER={name}")

    return change


def with_value(file, text):
    """Both functions have another value."""
    return lambda host: [host.file(f"sys/devices/pci0000:00/{address}/{file}", text) for address in ADDRESSES]


def with_virtual_functions(host):
    """Both functions are virtual ones, whose cards the host does not offer."""
    for address in ADDRESSES:
        host.link(f"sys/devices/pci0000:00/{address}/physfn", "sys/devices/pci0000:00/0000:00:1f.0")


# What a host lacks, and what is shown: of a device that is found, as its reason; else in a note.
NEAR_MISSES = {
    "amd-xdna": ((with_driver("vfio-pci"), 'driver refused 2 (accel0 has "vfio-pci")'),
                 (without("dev/accel/accel0"), "its node /dev/accel/accel0 is missing")),
    "ascend-310": ((with_value("device", "0xd802"), 'has "0xd802" in file device'), (without("dev/davinci_manager"), "/dev/davinci_manager")),
    "ascend-310b": ((without("dev/davinci_manager_docker"), "/dev/davinci_manager_docker"),
                    (without("sys/class/devdrv-class"), "none is in /sys/class/devdrv-class")),
    "ascend-310p": ((with_driver("vfio-pci"), '(0000:03:00.0 has "vfio-pci" in property DRIVER)'), (without("dev/davinci0"), "its node /dev/davinci0 is missing")),
    "ascend-910": ((with_value("device", "0xd500"), 'has "0xd500" in file device'), (without("dev/davinci_manager"), "/dev/davinci_manager"),
                   (without(f"{FIRST}/dev_id"), '"${attr:dev_id}" has no value here')),
    "ascend-950": ((without("dev/uburma/udma0"), "/dev/uburma"), (without("dev/hisi_hdc"), "/dev/hisi_hdc")),
    "aws-neuron": ((without("sys/class/neuron_device"), "none is in /sys/class/neuron_device"), (without("dev/neuron0"), "its node /dev/neuron0 is missing")),
    "cambricon-mlu": ((with_value("class", "0x030000"), 'has "0x030000" in file class'), (without("dev/cambricon_ctl"), "/dev/cambricon_ctl"),
                      (without(f"proc/driver/cambricon/mlus/{ADDRESSES[0]}/information"), "information is missing"),
                      (with_file(f"proc/driver/cambricon/mlus/{ADDRESSES[0]}/information", "Device name: x"), 'has no line "Device inode path:"')),
    "enflame-gcu": ((with_value("vendor", "0x1e37"), "vendor refused"), (without(f"{FIRST}/enflame"), "created no device node")),
    "furiosa": ((without("sys/class/rngd_mgmt"), "none is in /sys/class/rngd_mgmt"),
                (without("dev/rngd/npu0mgmt"), "its node /dev/rngd/npu0mgmt is missing")),
    "google-tpu": ((with_driver("tpu"), "is bound to tpu, not to vfio-pci"), (without("dev/vfio/20"), "/dev/vfio/20"),
                   (without(f"{FIRST}/iommu_group"), "has no IOMMU group")),
    "hailo": ((without("sys/class/hailo_chardev", "sys/class/hailo1x"), "none is in /sys/class/hailo_chardev"),
              (without("dev/hailo0"), "its node /dev/hailo0 is missing")),
    "hygon-dcu": ((with_driver("vfio-pci"), 'driver refused 2'), (without("dev/kfd"), "/dev/kfd"),
                  (without("sys/class/drm"), "the host has no GPU")),
    "iluvatar-gpu": ((without("dev/iluvatar0", "dev/iluvatar1"), 'nothing matches "/dev/iluvatar[0-9]*"'),),
    "intel-gaudi": ((with_value("vendor", "0x1da4"), "in file vendor)"), (with_driver("vfio-pci"), 'has "vfio-pci"'),
                    (without(f"{FIRST}/module_id"), '"${attr:module_id}" has no value here')),
    "kunlunxin-xpu": ((without("dev/xpuctrl"), "/dev/xpuctrl"), (without("dev/xpu0", "dev/xpu1"), 'nothing matches "/dev/xpu[0-9]*"')),
    "metax-gpu": ((with_driver("vfio-pci"), "driver refused 2"), (without("dev/mxcd"), "/dev/mxcd")),
    "mthreads-gpu": ((with_value("class", "0x120000"), "class refused"), (with_driver("vfio-pci"), "driver refused 2"),
                     (with_virtual_functions, "attributes refused 2 (0000:03:00.0 has file physfn)")),
    "qualcomm-aic": ((with_driver("vfio-pci"), 'has "vfio-pci"'), (with_value("vendor", "0x17cc"), 'has "0x17cc" in file device/vendor')),
    "rebellions": ((without("sys/class/rebellions"), "none is in /sys/class/rebellions"), (without("dev/rbln0"), "its node /dev/rbln0 is missing")),
    "tenstorrent": ((without("sys/class/tenstorrent"), "none is in /sys/class/tenstorrent"),
                    (without("dev/tenstorrent/0"), "its node /dev/tenstorrent/0 is missing")),
}


class Device:
    """What is expected of a device of a preset."""

    def __init__(self, preset, place, number):
        values = {str(n): str(n + number + (number if preset == "google-tpu" and n else 0)) for n in (0, 1, 20, 21, 129)}
        names = {"bdf": ADDRESSES[place], "module": ADDRESSES[place][6], "hailo": f"{('hailo', 'h1x-')[place]}{number}"}

        def fill(text):
            for name, value in {**values, **names}.items():
                text = text.replace("{%s}" % name, value)
            return text

        name, nodes, env, mounts = FOUND[preset]
        self.id = fill(name)
        self.nodes = sorted((f"/dev/{host}", f"/dev/{path or host}") for host, _, path in (fill(node).partition(">") for node in nodes))
        self.env = {key: fill(value) for key, value in env.items()}
        self.mounts = mounts


HERE = os.path.dirname(os.path.realpath(__file__))
PAGES = os.path.join(HERE, "../../docs/peers")


def table(page, heading):
    """The rows of the first table below a heading, each as {column: cell}."""
    with open(os.path.join(PAGES, page)) as file:
        section = file.read().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(head, row)) for row in rows]


def presets_with(column, pattern):
    """Presets of the vendors of HAMi whose cell matches, without NVIDIA's, which has tests of its own."""
    return [preset for row in table("hami.md", "Vendors") if re.match(pattern, row[column])
            for preset in re.findall(r"`([\w-]+)`", row["preset"]) if preset in HOSTS]


class Pages(unittest.TestCase):
    def test_vendors_of_hami(self):
        """Presets, names and health in the table are those of the presets."""
        health = {"PCI": 'probe = "pci"', "NVML": 'probe = "nvml"', "file": 'probe = "exists"', "ECC counters": "ecc_uncorrected", "node": None}
        rows = table("hami.md", "Vendors")
        self.assertEqual(len(rows), 10)
        for row in rows:
            presets = re.findall(r"`([\w-]+)`", row["preset"])
            names = re.findall(r"`([\w./-]+)`", row["names that pods keep"])
            self.assertEqual(len(presets), len(names), row)
            for preset, name in zip(presets, names):
                text = subprocess.run([program("devplugctl"), "presets", preset], capture_output=True, text=True, check=True, timeout=60).stdout
                if preset in NAMES:
                    self.assertEqual(NAMES[preset], name)
                    self.assertIn(f"# Resource name: {name}\n", text)
                wanted = health[row["health"]]
                self.assertTrue(wanted in text if wanted else "health" not in text, row)

    def test_each_cell_of_hami_has_a_test_or_a_fact(self):
        vendors = {row["vendor"]: row for row in table("hami.md", "Vendors")}
        reasons = {row["vendor"]: row for row in table("../contributing/peers-tests.md", "The vendors of HAMi")}
        self.assertEqual(list(vendors), list(reasons))
        sources = ""
        for name in os.listdir(HERE):
            if name.endswith(".py"):
                with open(os.path.join(HERE, name)) as file:
                    sources += file.read()
        for vendor, row in reasons.items():
            for column, cell in row.items():
                if column == "vendor":
                    continue
                with self.subTest(vendor, column=column):
                    tests = re.findall(r"`(test_\w+)`", cell)
                    trees = re.findall(r"tree `([\w-]+)`", cell)
                    self.assertTrue(tests or trees or re.search(r"fact: `[\w.-]+/[\w.-]+` \w", cell), cell)
                    for test in tests:
                        self.assertIn(f"def {test}(", sources)
                    for tree in trees:
                        self.assertTrue(os.path.exists(os.path.join(PEERS, tree + ".tree")))
                    # What devplugd does is tested; only what it lacks may be a fact alone.
                    if column != "lost" and not vendors[vendor][column].startswith("no"):
                        self.assertTrue(tests or trees, cell)

    def test_every_preset_is_described(self):
        listed = {name for row in table("accelerators.md", "Presets") for name in re.findall(r"`([\w-]+)`", row["preset"])}
        self.assertEqual(listed, set(HOSTS))
        self.assertLessEqual(os.path.getsize(os.path.join(PAGES, "accelerators.md")), 12 * 1024)


class Trees(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("device nodes need root")
        self.dir = tempfile.mkdtemp(prefix="devplugd-test.")
        os.chmod(self.dir, 0o755)
        self.addCleanup(shutil.rmtree, self.dir)
        self.config = os.path.join(self.dir, "devplugd.conf")

    def host(self, preset, numbers=(0, 1)):
        return AcceleratorHost(tempfile.mkdtemp(prefix=preset + ".", dir=self.dir), preset, numbers)

    def ctl(self, *words):
        answer = subprocess.run([program("devplugctl"), *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def preview(self, preset, host, ids=(), more=""):
        with open(self.config, "w") as file:
            file.write(f'resources = ( {{ name = "vendor.example/a"; preset = "{preset}"; {more} }} );\n')
        return json.loads(self.ctl("preview", "-c", self.config, "--root", host.root, "--json", "vendor.example/a", *ids))

    def check_device(self, preset, host, device):
        answer = self.preview(preset, host, [device.id])["answer"]
        self.assertEqual(sorted((d["host_path"], d["container_path"]) for d in answer["devices"]), device.nodes)
        self.assertEqual(answer["envs"], device.env)
        self.assertEqual([m["host_path"] for m in answer["mounts"]], device.mounts)

    def check_found(self, preset, numbers):
        host = self.host(preset, numbers)
        devices = [Device(preset, place, number) for place, number in enumerate(numbers)]
        listed = self.preview(preset, host)
        self.assertEqual({d["id"]: d["reason"] for d in listed["devices"]}, {device.id: "" for device in devices})
        if preset not in BY_NUMBER:
            self.assertEqual([d["numa"] for d in listed["devices"]], [[1], [1]])
        for device in devices:
            self.check_device(preset, host, device)
        return listed

    def test_every_preset_is_here(self):
        self.assertEqual(set(HOSTS), set(FOUND))
        self.assertEqual(set(HOSTS), set(NEAR_MISSES))

    def test_found(self):
        for preset in HOSTS:
            with self.subTest(preset):
                self.check_found(preset, (0, 1))

    def test_numbered_in_another_order(self):
        """The ids stay with the hardware, and the nodes follow; where the function is not known, the id is the node."""
        for preset in HOSTS:
            with self.subTest(preset):
                self.check_found(preset, (1, 0))

    def test_shares(self):
        """Several containers get the same nodes."""
        presets = shared_presets()
        self.assertEqual(len(presets), 9)
        for preset in presets:
            host = self.host(preset)
            device = Device(preset, 0, 0)
            for share in ("#0", "#3"):
                answer = self.preview(preset, host, [device.id + share], "share = { replicas = 4; };")["answer"]
                self.assertEqual(sorted((d["host_path"], d["container_path"]) for d in answer["devices"]), device.nodes)

    def parts_of_hygon(self, kind):
        """A host with a file for each part of two cards and of one that is gone, and the ids that the program prints of it."""
        host = self.host("hygon-dcu")
        for number, address in ((0, ADDRESSES[0]), (3, ADDRESSES[1]), (4, "0000:99:00.0")):
            host.file(f"etc/vdev/vdev{number}.conf", f"PciBusId: {address}\nmem: 4096 MiB")
            host.file(f"etc/dmi_mig_config/ci/dev{number}gi3ci0.conf", f"pci: {address}\nmig_uuid: 4f2a6c1e-11ec-0000-0000-00000000000{number}")
        # Programs run as another user.
        os.chmod(host.root, 0o755)
        os.makedirs(host.path("usr/local/bin"))
        shutil.copy(os.path.join(EXAMPLES, "hygon-instances"), host.path("usr/local/bin"))
        with open(self.config, "w") as file:
            file.write('resources = ( { name = "vendor.example/a"; driver = "exec"; share = { max_per_container = 1; }; '
                       f'match = ( {{ command = ( "/usr/local/bin/hygon-instances", "{kind}", "{host.root}" ); }} ); '
                       'container = { mounts = ( { host = "/opt/hyhal"; read_only = true; optional = true; } ); }; } );')
        words = ("preview", "-c", self.config, "--root", host.root, "--json", "vendor.example/a")
        result = json.loads(self.ctl(*words))
        listed = result["devices"]
        self.assertEqual([d["reason"] for d in listed], ["", "", "0000:99:00.0 has no device node"], result["notes"])
        answer = json.loads(self.ctl(*words, listed[1]["id"]))["answer"]
        self.assertEqual(sorted(d["host_path"] for d in answer["devices"]), ["/dev/dri/card2", "/dev/dri/renderD130", "/dev/kfd", "/dev/mkfd"])
        self.assertTrue(all(mount["read_only"] for mount in answer["mounts"]))
        return [d["id"] for d in listed], {m["host_path"]: m["container_path"] for m in answer["mounts"]}, answer["envs"]

    def test_vdev(self):
        """Each vdevN.conf of Hygon is a device with the nodes of its card, and is mounted where DTK reads it."""
        self.assertEqual(self.parts_of_hygon("vdev"), (
            ["vdev0", "vdev3", "vdev4"], {"/opt/hyhal": "/opt/hyhal", "/etc/vdev/vdev3.conf": "/etc/vdev/docker/vdev3.conf"}, {}))

    def test_mig(self):
        """Each MIG instance of Hygon has its UUID as its id, and its file at the same path."""
        ids = [f"MIG-4f2a6c1e-11ec-0000-0000-00000000000{number}" for number in (0, 3, 4)]
        path = "/etc/dmi_mig_config/ci/dev3gi3ci0.conf"
        self.assertEqual(self.parts_of_hygon("mig"), (ids, {"/opt/hyhal": "/opt/hyhal", path: path}, {"DMI_MIG_VISIBLE_DEVICE": ids[1]}))

    def test_partitions_of_hygon(self):
        """The platform device of a partition belongs to the card by the compute driver's list; one that is not listed is not in use."""
        host = self.host("hygon-dcu")
        for number in (1, 2):
            host.device(f"platform/hyhcu_xcp_{number}", "bus/platform")
            host.child(f"platform/hyhcu_xcp_{number}", f"renderD{140 + number}", "drm", f"dri/renderD{140 + number}", 140 + number, 226)
        for part, (location, minor) in enumerate(((0x0300, 129), (0x0301, 141), (0x4100, 130))):
            host.file(f"sys/class/kfd/kfd/topology/nodes/{1 + part}/properties",
                      f"simd_count 40\nlocation_id {location}\ndomain 0\ndrm_render_minor {minor}")
        ids = [f"{ADDRESSES[0]}-p0", f"{ADDRESSES[0]}-p1", ADDRESSES[1]]
        self.assertEqual([(d["id"], d["reason"]) for d in self.preview("hygon-dcu", host)["devices"]], [(id, "") for id in ids])
        answer = self.preview("hygon-dcu", host, [ids[1]])["answer"]
        self.assertEqual(sorted(d["host_path"] for d in answer["devices"]), ["/dev/dri/renderD141", "/dev/kfd", "/dev/mkfd"])

    def test_whole_devices(self):
        """Where no instances are offered, nodes of instances beside those of the cards are no devices."""
        presets = presets_with("instances", "no$")
        self.assertEqual(len(presets), 5)
        for preset in presets:
            with self.subTest(preset):
                host = self.host(preset)
                host.nodes("vgcu0", "vxpu0", "vneuron0", "iluvatar_v0")
                self.assertEqual({d["id"] for d in self.preview(preset, host)["devices"]}, {Device(preset, n, n).id for n in (0, 1)})

    def test_virtual_functions(self):
        """MetaX's have their own nodes, and are devices under the name of the cards."""
        host = self.host("metax-gpu")
        virtual = host.function("0000:03:00.1", "metax", "0x9999", "0x4001", "0x030200")
        host.link(f"sys/devices/{virtual}/physfn", FIRST)
        host.drm(virtual, 2)
        self.assertEqual({d["id"]: d["reason"] for d in self.preview("metax-gpu", host)["devices"]},
                         dict.fromkeys((*ADDRESSES, "0000:03:00.1"), ""))
        answer = self.preview("metax-gpu", host, ["0000:03:00.1"])["answer"]
        self.assertEqual(sorted(d["host_path"] for d in answer["devices"]), ["/dev/dri/card3", "/dev/dri/renderD131", "/dev/mxcd", "/dev/mxnd"])

    def test_virtual_functions_of_moore_threads(self):
        """Those on the host of a card are for virtual machines; in the machine, one is the GPU."""
        host = self.host("mthreads-gpu")
        virtual = host.function("0000:03:02.0", "mtgpu", "0x1ed5", "0x03aa", "0x030000")
        host.drm(virtual, 2)
        ids = {d["id"] for d in self.preview("mthreads-gpu", host)["devices"]}
        self.assertEqual(ids, {*ADDRESSES, "0000:03:02.0"})
        host.link(f"sys/devices/{virtual}/physfn", FIRST)
        self.assertEqual({d["id"] for d in self.preview("mthreads-gpu", host)["devices"]}, set(ADDRESSES))

    def test_cost_of_unknown_functions(self):
        """Explained for each preset whose ids are numbers, and for no other."""
        nodes = {"ascend-310b": "davinci0", "ascend-950": "davinci0", "aws-neuron": "neuron0", "iluvatar-gpu": "/dev/iluvatar0",
                 "kunlunxin-xpu": "/dev/xpu0"}
        self.assertEqual(set(nodes), BY_NUMBER)
        for preset in HOSTS:
            with self.subTest(preset):
                notes = [note for note in self.preview(preset, self.host(preset))["notes"] if "does not show" in note]
                self.assertEqual(len(notes), preset in BY_NUMBER, notes)
                for note in notes:
                    self.assertIn(f"/sys does not show the hardware behind {nodes[preset]} and 1 more, so the name is the id", note)
                    self.assertIn("use the driver exec", note)

    def test_near_misses(self):
        for preset, cases in NEAR_MISSES.items():
            for i, (change, shown) in enumerate(cases):
                with self.subTest(preset, case=i):
                    host = self.host(preset)
                    change(host)
                    result = self.preview(preset, host)
                    reasons = [d["reason"] for d in result["devices"] if d["reason"]]
                    self.assertTrue(any(shown in text for text in reasons + result["notes"]), (reasons, result["notes"]))
                    self.assertTrue(reasons or not result["devices"])

    def check_refused(self, preset, host, shown=""):
        """No device is healthy, and the reason of each says why, or a note if there is none."""
        result = self.preview(preset, host)
        self.assertNotIn("Healthy", [d["health"] for d in result["devices"]])
        texts = [d["reason"] for d in result["devices"]] or result["notes"]
        self.assertTrue(texts and all(text and shown in text for text in texts), texts)

    def test_other_driver(self):
        """The functions are bound to another driver, so that what the right one made is gone."""
        for preset in HOSTS:
            with self.subTest(preset):
                host = self.host(preset)
                if preset not in ("ascend-310b", "ascend-950"):
                    with_driver("tpu" if preset == "google-tpu" else "vfio-pci")(host)
                for address in filter(lambda address: os.path.isdir(host.path(f"sys/devices/pci0000:00/{address}")), ADDRESSES):
                    for entry in os.scandir(host.path(f"sys/devices/pci0000:00/{address}")):
                        if entry.is_dir(follow_symlinks=False):
                            shutil.rmtree(entry.path)
                for name in ("sys/class", "proc"):
                    shutil.rmtree(host.path(name), ignore_errors=True)
                for number in (0, 1) if preset != "google-tpu" else ():
                    for name, _ in Device(preset, number, number).nodes:
                        if os.path.exists(host.path(name[1:])):
                            host.remove(name[1:])
                self.check_refused(preset, host)

    def test_required_nodes(self):
        """Each node that a preset requires for all its devices is named where it is missing."""
        required = {}
        for preset in HOSTS:
            container = self.ctl("presets", preset).partition("\ncontainer = {")[2]
            nodes = re.search(r"\n\s+nodes\s*=(.*?);\n", container, re.S)
            required[preset] = re.findall(r'(?<!path = )"/(dev/[^"]+)"', nodes[1]) if nodes else []
            for node in required[preset]:
                with self.subTest(preset, node=node):
                    host = self.host(preset)
                    host.remove(node)
                    self.check_refused(preset, host, f"/{node}")
        self.assertEqual({preset: len(nodes) for preset, nodes in required.items() if nodes},
                         {"ascend-310": 2, "ascend-310b": 1, "ascend-310p": 2, "ascend-910": 2, "ascend-950": 4, "cambricon-mlu": 1,
                          "hygon-dcu": 1, "kunlunxin-xpu": 1, "metax-gpu": 1})

    def test_other_class(self):
        """Presets that need a class refuse another one. The others know a card by its driver, number or node, as its driver does."""
        by_class = {"cambricon-mlu", "mthreads-gpu"}
        for preset in HOSTS:
            with self.subTest(preset):
                host = self.host(preset)
                with_value("class", "0x088000")(host)
                if preset in by_class:
                    self.check_refused(preset, host, "class")
                else:
                    self.assertEqual([d["reason"] for d in self.preview(preset, host)["devices"]], ["", ""])

    def test_other_hosts(self):
        """No preset finds another vendor's devices, but for drivers that more than one preset is about."""
        shared = {"ascend-310b", "ascend-950"}
        for preset in HOSTS:
            found = {p["name"] for p in json.loads(self.ctl("discover", "--json", "--root", self.host(preset).root))["presets"]}
            with self.subTest(preset):
                self.assertIn(preset, found)
                self.assertEqual(found & set(HOSTS) - {preset} - shared, set())
                if not preset.startswith("ascend"):
                    self.assertEqual(found & shared, set())

    def test_proposed(self):
        """With the name that pods use, before presets that find no healthy device."""
        for preset in HOSTS:
            with self.subTest(preset):
                root = self.host(preset).root
                first = json.loads(self.ctl("discover", "--json", "--root", root))["presets"][0]
                self.assertEqual((first["name"], first["problem"]), (preset, ""))
                self.assertEqual(first["resource"], NAMES.get(preset, f"vendor.example/{preset}"))
                self.assertEqual(len(first["ids"]), 2)
        self.assertIn('# None is healthy here: ', self.ctl("discover", "ascend-950", "--root", self.host("ascend-910").root))

    def test_dumped_tree(self):
        """A tree that is planted from the dump has the same devices, and no serial number."""
        for preset in HOSTS:
            with self.subTest(preset):
                host = self.host(preset)
                host.file(f"{FIRST}/serial", "SECRET-7")
                text = self.ctl("discover", preset, "--dump-tree", "--root", host.root)
                copy = tempfile.mkdtemp(prefix="copy.", dir=self.dir)
                for line in text.splitlines():
                    if not line.startswith("#"):
                        plant_line(copy, line)
                found = [json.loads(self.ctl("discover", preset, "--json", "--root", root)) for root in (host.root, copy)]
                self.assertEqual(found[0], found[1])
                self.assertEqual(len(found[0]["presets"][0]["ids"]), 2)
                self.assertNotIn("SECRET", text)

    def test_dump_hides_what_identifies_a_machine(self):
        """Equal values stay equal, and addresses and UUIDs keep their form."""
        host = self.host("tenstorrent")
        for place, serial in enumerate(("A7-SECRET", "A7-SECRET")):
            host.file(f"sys/devices/pci0000:00/{ADDRESSES[place]}/serial", serial)
        text = self.ctl("discover", "tenstorrent", "--dump-tree", "--root", host.root)
        hidden = re.findall(r"/serial = (.*)", text)
        self.assertEqual(hidden, ["hidden-1", "hidden-1"])
        host = self.host("cambricon-mlu")
        host.file(f"proc/driver/cambricon/mlus/{ADDRESSES[0]}/information",
                  "UUID: 4f2a6c1e-11ec-0000-0000-9fe7c2b1a0d3\\nBoard Serial Number: SN123456\\nDevice inode path: /dev/cambricon_dev0".replace("\\n", "\n"))
        text = self.ctl("discover", "cambricon-mlu", "--dump-tree", "--root", host.root)
        self.assertIn("UUID: 00000000-0000-0000-0000-000000000001\\nBoard Serial Number: hidden-2\\nDevice inode path: /dev/cambricon_dev0", text)
        root = tempfile.mkdtemp(prefix="amd-gpu.", dir=self.dir)
        plant(root, os.path.join(PEERS, "amd-gpu.tree"))
        with open(root + "/sys/class/kfd/kfd/topology/nodes/1/properties", "a") as file:
            file.write("unique_id 7430917423\nwwn_id 0\n")
        text = self.ctl("discover", "amd-gpu", "--dump-tree", "--root", root)
        self.assertRegex(text, r"unique_id 00000000\d\d\\nwwn_id 0\n")

    def test_heads(self):
        """Each preset says that it never ran on hardware."""
        for preset in HOSTS:
            head = self.ctl("presets", preset).split("\n\n")[0]
            self.assertIn("# Never ran on hardware", head)
            self.assertIn(f"devplugctl discover {preset} --dump-tree", head)


def host_of_one_node(root, place, swapped, preset):
    """Several hosts on one node: no device has the address or the number of another one's."""
    numbers = (2 * place, 2 * place + 1)
    AcceleratorHost(root, preset, numbers[::-1] if swapped else numbers, (f"0000:{16 + place}:00.0", f"0000:{60 + place}:00.0"))


# Ways in which several containers share a card by DRA.
SHARING = {"shares": "share = { replicas = 4; };",
           "amounts": 'capacity = ( { name = "memory"; value = "32Gi"; step = "1Gi"; default = "8Gi"; } ); container = { env = "MEMORY=${capacity:memory:Gi}"; };'}
AMOUNTS = {"memory": {"value": "32Gi", "requestPolicy": {"default": "8Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}}}


def shared_presets():
    return [*presets_with("equal shares", "yes|with "), "qualcomm-aic"]


class Slices(DraTest):
    def declare(self, name, preset, place, swapped, more=""):
        root = self.node.path(f"{name}-{swapped}")
        host_of_one_node(root, place, swapped, preset)
        return f'{{ name = "vendor.example/{name}"; preset = "{preset}"; serve = "dra"; host_root = "{root}"; {more} }}'

    def published(self, counts):
        """The devices of each resource, if there are as many."""
        answer = self.ctl("dra", "slices")
        if answer.returncode != 0:
            return None
        found = {}
        for item in json.loads(answer.stdout)["items"]:
            for device in item["spec"].get("devices") or []:
                name = device["attributes"]["resource"]["string"].split("/")[1]
                found.setdefault(name, []).append(device)
        return found if {name: len(devices) for name, devices in found.items()} == counts else None

    def compare(self, counts, declare, check=lambda: None):
        """Hosts whose kernels have numbered the same hardware in another order publish the same. Returns that."""
        found = []
        for swapped in (False, True):
            self.configure(*(declare(place, name, swapped) for place, name in enumerate(counts)))
            self.node.start()
            found.append(until(lambda: self.published(counts), lambda: f"the devices of all resources; {self.node.output()}"))
            check()
            self.node.stop()
        for name in counts:
            with self.subTest(name):
                self.assertEqual(found[0][name], found[1][name])
        return found[0]

    def test_nothing_that_changes(self):
        def check():
            for preset in HOSTS:
                explained = self.ctl("explain", f"vendor.example/{preset}").stdout
                self.assertEqual("so the name is the id" in explained, preset in BY_NUMBER, explained)

        self.compare(dict.fromkeys(HOSTS, 2), lambda place, preset, swapped: self.declare(preset, preset, place, swapped), check)

    def test_shares_and_amounts(self):
        """Each preset that can be shared: as equal shares, each of which is a device, and by amount."""
        names = {f"{preset}-{way}": (preset, way) for preset in shared_presets() for way in SHARING}

        def declare(place, name, swapped):
            preset, way = names[name]
            return self.declare(name, preset, place, swapped, SHARING[way])

        found = self.compare({name: 8 if way == "shares" else 2 for name, (_, way) in names.items()}, declare)
        for name, (preset, way) in names.items():
            with self.subTest(name):
                ids = [device["attributes"]["id"]["string"] for device in found[name]]
                self.assertEqual(len(set(ids)), 2)
                self.assertEqual([ids.count(id) for id in set(ids)], [4, 4] if way == "shares" else [1, 1])
                self.assertEqual([device.get("capacity") for device in found[name]], [AMOUNTS] * 2 if way == "amounts" else [None] * 8)

    def test_claims_with_an_amount(self):
        """Two claims share a card of each preset: each gets its nodes, and its own amount."""
        presets = shared_presets()
        for place, preset in enumerate(presets):
            host_of_one_node(self.node.path(preset), place, False, preset)
        self.serve_api()
        self.begin(*(f'{{ name = "vendor.example/{preset}"; preset = "{preset}"; serve = "dra"; host_root = "{self.node.path(preset)}"; {SHARING["amounts"]} }}'
                     for preset in presets))
        self.await_pool(lambda pool: len(pool) == 2 * len(presets))
        self.api.apply(self.ctl("dra", "classes").stdout)
        for place, preset in enumerate(presets):
            with self.subTest(preset):
                nodes = []
                for name, amount in (("a", 20), ("b", 12)):
                    claim = self.api.schedule(f"{preset}-{name}", [("r", f"{preset}.vendor.example", 1, {"capacity": {"requests": {"memory": f"{amount}Gi"}}})])
                    uid = claim["metadata"]["uid"]
                    (device,) = self.prepare(("default", f"{preset}-{name}", uid))[uid]
                    edits = [self.specification(uid)[name] for name in device["cdi"]]
                    self.assertIn(f"MEMORY={amount}", [text for edit in edits for text in edit.get("env", ())])
                    nodes.append(sorted(node["path"] for edit in edits for node in edit["deviceNodes"]))
                self.assertEqual(nodes[0], nodes[1])
                self.assertIn(nodes[0], [[path for _, path in Device(preset, n, 2 * place + n).nodes] for n in (0, 1)])


class ShareFlag(NodeTest):
    def test_ascend_share_flag(self):
        """An NPU that only one container can open is unhealthy as long as the page's program reports it."""
        host = AcceleratorHost(self.node.path("host"), "ascend-910")
        with open(os.path.join(PAGES, "hami.md")) as file:
            text = re.search(r"```conf hami-ascend\nresources = \(\n(.*?)\n\);\n```", file.read(), re.S)[1]
        self.assertIn("/run/ascend-share/", text)
        flags = host.path("run/ascend-share")
        tools = self.node.path("tools")
        os.mkdir(tools)

        def report(*flag):
            """What npu-smi prints: the table of all NPUs, and of each chip the flag."""
            table = "".join(f"| {npu}     910B3               | OK            | 95.6        45                0    / 0             |\n"
                            f"| 0                         | {address.upper()}  | 0           0    / 0          3387 / 65536         |\n"
                            for npu, address in zip((4, 5), ADDRESSES))
            answers = "".join(f'"info -t device-share -i {npu} -c 0") printf "\\tDevice-share Status            : {value}\\n" ;;\n'
                              for npu, value in zip((4, 5), flag))
            path = os.path.join(tools, "npu-smi")
            with open(path, "w") as file:
                file.write(f'#!/bin/sh\ncase "$*" in\ninfo) cat <<E\n| NPU   Name | Health | Power(W) |\n| Chip | Bus-Id | AICore(%) |\n{table}E\n;;\n'
                           f'{answers}*) exit 1 ;;\nesac\n')
            os.chmod(path, 0o755)
            subprocess.run([os.path.join(EXAMPLES, "ascend-share"), flags], check=True, timeout=60,
                           env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})

        def reasons():
            return {d["id"]: d["reason"] for d in self.node.resource("huawei.com/Ascend910")["devices"]}

        report("True", "False")
        self.node.configure(text, text=f'host_root = "{host.root}";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()
        until(lambda: not reasons()[ADDRESSES[0]], lambda: f"the NPU with the flag; {reasons()}")
        until(lambda: "device-share is off: run npu-smi set -t device-share -i 5 -c 0 -d 1" in reasons()[ADDRESSES[1]], lambda: f"the NPU without; {reasons()}")
        report("True", "")
        until(lambda: "no device-share status of NPU 5" in reasons()[ADDRESSES[1]], lambda: f"an answer that is not known; {reasons()}")
        report("True", "True")
        until(lambda: not any(reasons().values()), lambda: f"both NPUs; {reasons()}")
        os.unlink(os.path.join(flags, ADDRESSES[0]))
        until(lambda: reasons()[ADDRESSES[0]], "the NPU that the program has not reported")


def with_attribute(pattern, text):
    def change(root, address, _):
        (path,) = glob.glob(f"{root}/sys/devices/pci0000:00/{address}/{pattern}")
        with open(path, "w") as file:
            file.write(text)

    return change


def fallen_off(root, address, _):
    """A card that does not answer on the bus."""
    with open(f"{root}/sys/devices/pci0000:00/{address}/config", "wb") as file:
        file.write(b"\xff" * 64)


def uncorrected(root, _, number):
    with open(f"{root}/sys/devices/virtual/neuron_device/neuron{number}/stats/hardware/mem_ecc_uncorrected", "w") as file:
        file.write("3\n")


def without_info(root, _, number):
    os.unlink(f"{root}/proc/kunlun/dev{number}/info")


# Presets whose health is not, or not only, that of the bus: what is wrong, and what is shown.
FAILURES = {
    "aws-neuron": (uncorrected, "mem_ecc_uncorrected is 3"),
    "intel-gaudi": (with_attribute("status", "Malfunction"), "status is Malfunction"),
    "kunlunxin-xpu": (without_info, "/info is missing"),
    "rebellions": (with_attribute("rebellions/rbln*/status", "3"), "status is 3"),
}


class Health(NodeTest):
    def test_failures(self):
        """One of two devices of each preset with probes has failed, by what its driver shows, or else on the bus."""
        lines, shown = [], {}
        for place, preset in enumerate(HOSTS):
            head = subprocess.run([program("devplugctl"), "presets", preset], capture_output=True, text=True, check=True, timeout=60).stdout
            if "health" not in head:
                continue
            change, shown[preset] = FAILURES.get(preset, (fallen_off, "bus"))
            self.assertTrue(preset in FAILURES or 'probe = "pci"' in head)
            root = self.node.path(preset)
            host_of_one_node(root, place, False, preset)
            change(root, f"0000:{16 + place}:00.0", 2 * place)
            lines.append(f'{{ name = "vendor.example/{preset}"; preset = "{preset}"; host_root = "{root}"; }}')
        self.node.configure(*lines)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**dict.fromkeys(shown, 1))
        for preset, text in shown.items():
            with self.subTest(preset):
                reasons = [d["reason"] for d in self.node.resource(f"vendor.example/{preset}")["devices"]]
                self.assertIn(text, reasons[0])
                self.assertEqual(reasons[1], "")


class Renumbered(NodeTest):
    """P21: a pod's stored answer leads to its device, or the device is unhealthy with the reason."""

    def configure(self):
        self.node.configure(*(f'{{ name = "vendor.example/{preset}"; preset = "{preset}"; host_root = "{self.node.path(preset)}"; }}'
                              for preset in HOSTS))

    def reasons(self, preset):
        return {d["id"]: d["reason"] for d in self.node.resource(f"vendor.example/{preset}")["devices"]}

    def test_P21_driver_loaded_again(self):
        for place, preset in enumerate(HOSTS):
            host_of_one_node(self.node.path(preset), place, False, preset)
        self.configure()
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**{preset: 2 for preset in HOSTS})
        held = {}
        for preset in HOSTS:
            given, _ = self.node.pod(f"pod-{preset}", **{preset: 1})
            held[preset] = given["resources"][f"vendor.example/{preset}"][0]
        self.node.stop()
        for place, preset in enumerate(HOSTS):
            shutil.rmtree(self.node.path(preset))
            host_of_one_node(self.node.path(preset), place, True, preset)
        self.node.start()
        self.node.await_serving()
        for preset in HOSTS:
            device = held[preset]
            with self.subTest(preset):
                if preset in BY_NUMBER:
                    self.assertEqual(self.reasons(preset)[device], "")
                    continue
                until(lambda: "its pod uses /dev/" in self.reasons(preset)[device], lambda: f"the reason; {self.reasons(preset)}")
                # The nodes of its two kinds have different names.
                if preset == "hailo":
                    continue
                other = next(reason for name, reason in self.reasons(preset).items() if name != device)
                self.assertIn(f'a pod with device "{device}"', other)


if __name__ == "__main__":
    unittest.main()
