# SPDX-License-Identifier: Apache-2.0
"""The container images: the pod of the DaemonSet with device plugins and with DRA, with the image for this processor, and the contents of
the other one.

Usage: container.py BIN_FOLDER WORK_FOLDER IMAGE [IMAGE_FOR_ARM64]. Exit status 77: podman cannot run containers here.
"""
import sys

import architecture
import dra_pod
import pod
import promises
from waiting import Failure


def run(tested, steps):
    try:
        result = tested.podman("run", "--rm", "--pull=never", "--network", "none", tested.image, "--version")
        if result.returncode != 0 or not result.stdout.startswith("devplugd "):
            print(f"test-container: skipped: podman cannot run containers here: {result.stderr}{result.stdout}")
            return 77
        tested.start()
        for function in steps:
            print(function.__name__.replace("_", " "), flush=True)
            function(tested)
    except Failure as failure:
        print(f"FAILED: {failure}\n{tested.log()}", file=sys.stderr)
        return 1
    finally:
        tested.close()
    return 0


def main():
    (bin_folder, work, image), other = sys.argv[1:4], sys.argv[4:]
    for kind, steps in ((pod.Pod, pod.steps), (dra_pod.DraPod, dra_pod.steps)):
        status = run(kind(bin_folder, work, image), steps)
        if status != 0:
            return status
    do = pod.Podman(work).do
    try:
        for foreign in other:
            print("the image for arm64", flush=True)
            architecture.examine(do, foreign)
        print("the promises of DRA in the image", flush=True)
        promises.run_tests(do, image, bin_folder, work)
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    print("all passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
