# SPDX-License-Identifier: Apache-2.0
"""What costs something while nothing happens: memory, and the processors' time."""
import contextlib
import statistics
import time

import processes
from subjects import open_run, tokens

EARLY = 2  # seconds after the last registration
REST, REST_QUICK = 60, 8  # the same, for an old process
IDLE_COUNT, IDLE_SECONDS = 8, 600


def sizes(run, count, when):
    everybody = run.everybody()
    names = {"pss": f"PSS of all, {count} resources, {when}", "dirty": f"dirty memory of all, {count} resources, {when}",
             "private dirty": f"private dirty memory of all, {count} resources, {when}"}
    row = {name: (processes.memory_of_all(everybody, kind), "kB") for kind, name in names.items()}
    row[f"threads of a child, {count} resources"] = statistics.median(
        len(processes.threads(pid)) for pid in run.plugins()), ""
    row[f"USS of a child, {count} resources, {when}"] = statistics.median(
        processes.memory(pid)["private"] for pid in run.plugins()), "kB"
    if run.kubelet_client():
        row[f"dirty memory of the kubelet client, {count} resources"] = (
            processes.memory_of_all([run.kubelet_client()], "dirty"), "kB")
    return row


def sleep_until(time_):
    time.sleep(max(0, time_ - time.monotonic()))


def memory(subjects, quick):
    """All subjects at a time: they share no file but the C library, and waiting is most of it. Returns the figures of each."""
    rows = {subject.name: {} for subject in subjects}
    for count in (1, 8, 32):
        with contextlib.ExitStack() as stack:
            runs = []
            for subject in subjects:
                run = stack.enter_context(open_run(subject, tokens(count)))
                run.serve()
                began = time.monotonic()
                sleep_until(began + EARLY)
                rows[subject.name] |= sizes(run, count, "early")
                runs.append((run, began))
            for run, began in runs:
                sleep_until(began + (REST_QUICK if quick else REST))
                rows[run.subject.name] |= sizes(run, count, "at rest")
    return rows


class Idle:
    """Resources that nobody asks for anything, beside all that is measured meanwhile."""

    def __init__(self, subjects):
        self.stack, self.runs = contextlib.ExitStack(), []
        for subject in subjects:
            run = self.stack.enter_context(open_run(subject, tokens(IDLE_COUNT)))
            run.serve()
            self.runs.append(run)
        time.sleep(REST_QUICK)
        self.began = time.monotonic()
        self.before = [self.look(run) for run in self.runs]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    @staticmethod
    def look(run):
        return processes.cpu_usec(run.everybody()), processes.wakeups(run.plugins())

    def finish(self, quick):
        """The figures of each subject."""
        sleep_until(self.began + (60 if quick else IDLE_SECONDS))
        seconds, rows = time.monotonic() - self.began, {}
        for run, (cpu, wakeups) in zip(self.runs, self.before):
            now = self.look(run)
            rows[run.subject.name] = {
                f"idle, {IDLE_COUNT} resources: CPU of one processor": ((now[0] - cpu) / seconds / 1e4, "%"),
                "idle: wakeups a minute of a child": ((now[1] - wakeups) * 60 / seconds / len(run.plugins()), ""),
                "idle: seconds": (seconds, "s"),
            }
        return rows
