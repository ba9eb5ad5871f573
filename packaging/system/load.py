# SPDX-License-Identifier: Apache-2.0
"""Pods that come and go while something is done to devplugd."""
import threading
import time

from waiting import until


class Load(threading.Thread):
    """`serve`: a function that runs one pod, given its name, and returns (exit status, output)."""

    def __init__(self, serve):
        super().__init__()
        self.serve, self.end, self.results = serve, threading.Event(), []

    def run(self):
        while not self.end.is_set():
            started = time.monotonic()
            status, output = self.serve(f"load-{len(self.results)}")
            self.results.append((started, status, output, time.monotonic() - started))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.end.set()
        self.join()

    def gap(self):
        """The longest time in which pods were refused."""
        longest, since = 0.0, None
        for started, status, *_ in self.results:
            if status != 0:
                since = since or started
            elif since:
                longest, since = max(longest, started - since), None
        return longest

    def summary(self):
        refused = len([status for _, status, *_ in self.results if status != 0])
        slowest = max(took for *_, took in self.results)
        return f"{len(self.results)} pods, {refused} refused in at most {self.gap():.1f} s, the slowest took {slowest:.1f} s"


def pod(machine, *words):
    """A function for Load: a pod with these words, which is removed when it runs."""
    def serve(name):
        answer = machine.run("devplug-kubelet", "pod", name, *words, "--json")
        until(lambda: machine.run("devplug-kubelet", "pod", "rm", name).returncode == 0, f"the removal of {name}")
        return answer.returncode, answer.stdout + answer.stderr

    return serve
