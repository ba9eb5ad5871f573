# SPDX-License-Identifier: Apache-2.0
"""The container image for another processor, as far as it can be seen without one: each program and library is for it and has its
libraries, and the programs print their version in an emulation, which is too incomplete to serve."""
import os
import stat
import subprocess

from waiting import check

PROGRAMS = {"usr/sbin/devplugd": "devplugd ", "usr/bin/devplugctl": "devplugctl "}


def elf_files(root):
    for place, _, names in os.walk(root):
        for name in names:
            path = os.path.join(place, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path


def examine(podman, image):
    """`podman` runs a command of it and returns what that prints."""
    check(podman("image", "inspect", "--format", "{{.Architecture}}", image).strip() == "arm64", "the image's architecture")
    root = podman("image", "mount", image).strip()
    try:
        found = list(elf_files(root))
        for path in found:
            text = subprocess.run(["readelf", "-hdW", path], capture_output=True, text=True, check=True).stdout
            check("AArch64" in text, f"{path} is for another processor")
            for line in text.splitlines():
                if "(NEEDED)" in line:
                    name = line.split("[")[1].rstrip("]")
                    check(any(os.path.basename(other) == name for other in found), f"{path} needs {name}")
        for program, words in PROGRAMS.items():
            answer = subprocess.run(["qemu-aarch64-static", "-L", root, os.path.join(root, program), "--version"],
                                    capture_output=True, text=True)
            check(answer.returncode == 0 and answer.stdout.startswith(words), f"{program}: {answer}")
        names = {os.path.basename(path) for path in found}
        check({"devplugd", "devplugctl", "devplugd-plugin", "devplugd-exporter", "devplugd-cluster", "busybox"} <= names, f"{names}")
    finally:
        podman("image", "umount", image)
