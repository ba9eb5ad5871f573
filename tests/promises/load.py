# SPDX-License-Identifier: Apache-2.0
"""An allocation load: pods that are admitted and removed all the time, and what became of each."""
import collections
import random
import threading
import time

Attempt = collections.namedtuple("Attempt", "begin end limits reply")


class Load:
    """Keeps up to `held` pods in each of `workers` threads. `choose(random)` returns the limits of the next pod
    by full resource name."""

    def __init__(self, node, choose, seed, workers=2, held=3, pause=0.005):
        self.node, self.choose, self.held, self.pause = node, choose, held, pause
        self.attempts = []
        self.error = None
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(i, random.Random(seed + i)))
                        for i in range(workers)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        if self.error and not error[0]:
            raise self.error

    def work(self, number, choice):
        pods = []
        try:
            for count in range(1000000):
                if self.stopping.wait(self.pause):
                    break
                if len(pods) >= self.held or (pods and choice.random() < 0.3):
                    self.remove(pods.pop(choice.randrange(len(pods))))
                    continue
                name = f"load-{number}-{count}"
                limits = self.choose(choice)
                begin = time.monotonic()
                reply = self.node.call_kubelet("pod", name=name, namespace="default", limits=limits)
                self.attempts.append(Attempt(begin, time.monotonic(), limits, reply))
                pods.append(name)
            for name in pods:
                self.remove(name)
        except Exception as error:  # told by the thread that ends the load
            self.error = error

    def remove(self, name):
        self.node.call_kubelet("pod-rm", name=name, namespace="default")

    def failures(self):
        """Attempts that did not start a container with all that was wanted."""
        return [a for a in list(self.attempts) if "container" not in a.reply or a.reply["ignored"]]
