# SPDX-License-Identifier: Apache-2.0
"""The promises of DRA with the programs and libraries of the container image, in its root directory.

The tests start devplugd and devplugctl as from a build; each of them is executed below the image's root, where this host's /dev, /proc,
/run, /sys and /tmp are. The privileges are those of the tests: pod.py shows that the container's suffice.
"""
import os
import shutil
import subprocess
import sys

from waiting import check

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "../../tests/promises")
PROGRAMS = {"devplugd": "/usr/sbin/devplugd", "devplugctl": "/usr/bin/devplugctl"}
SHARED = ("dev", "proc", "run", "sys", "tmp")
# Makes calls fail or kills at them; loaded from its path into what is executed there.
FAULTS = "libdevplugd-faults.so"
# These use programs that are not in the image (the demonstration), the user of the unit, or a /run of their own.
NOT_IN_IMAGE = ("test_dra_tutorial.py", "test_dra_unit.py", "test_dra_identity.py")


def enter_image(image_root, work):
    """A root directory with the image's files and the host's directories. Returns its path."""
    root, upper, inner = (os.path.join(work, name) for name in ("root", "root-upper", "root-work"))
    for path in (root, upper, inner):
        os.makedirs(path, exist_ok=True)
    # What a test mounts below /tmp is to be there, too.
    subprocess.run(["mount", "--make-rshared", "/"], check=True)
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={image_root},upperdir={upper},workdir={inner}", root], check=True)
    for name in SHARED:
        subprocess.run(["mount", "--rbind", "/" + name, f"{root}/{name}"], check=True)
    return root


def make_programs(bin_folder, root, work):
    """A folder like that of a build, whose devplugd and devplugctl are the image's."""
    folder = os.path.join(work, "bin")
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    for name in os.listdir(bin_folder):
        if name not in PROGRAMS:
            os.symlink(os.path.join(bin_folder, name), os.path.join(folder, name))
    for name, path in PROGRAMS.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(f'#!/bin/sh\nexec chroot "{root}" {path} "$@"\n')
        os.chmod(os.path.join(folder, name), 0o755)
    os.makedirs(root + folder, exist_ok=True)
    shutil.copy(os.path.join(bin_folder, FAULTS), root + folder)
    return folder


def run_tests(podman, image, bin_folder, work):
    """`podman` runs a command of it and returns what that prints. Needs a mount namespace of its own."""
    root = enter_image(podman("image", "mount", image).strip(), work)
    environment = {**os.environ, "DEVPLUGD_IN_IMAGE": "1", "DEVPLUGD_BIN": make_programs(bin_folder, root, work)}
    failed = []
    for name in sorted(os.listdir(TESTS)):
        if name.startswith("test_dra") and name not in NOT_IN_IMAGE:
            print(f"  {name}", flush=True)
            answer = subprocess.run([sys.executable, "-B", os.path.join(TESTS, name)], env=environment, capture_output=True, text=True)
            if answer.returncode != 0:
                failed.append(f"{name}:\n{answer.stderr}")
    check(not failed, "\n".join(failed))
