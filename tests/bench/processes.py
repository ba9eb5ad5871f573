# SPDX-License-Identifier: Apache-2.0
"""What the kernel knows of processes: memory, CPU, switches, threads."""
import os


def memory(pid):
    """(PSS, USS) in kB."""
    fields = {}
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            words = line.split()
            if words[-1] == "kB":
                fields[words[0]] = int(words[1])
    return fields["Pss:"], fields["Private_Clean:"] + fields["Private_Dirty:"]


def threads(pid):
    return os.listdir(f"/proc/{pid}/task")


def _each_thread(pid, name):
    for thread in threads(pid):
        try:
            with open(f"/proc/{pid}/task/{thread}/{name}") as file:
                yield file.read()
        except FileNotFoundError:
            continue


def cpu_usec(pids):
    """What the live threads have used; nanoseconds are counted, not ticks."""
    return sum(int(text.split()[0]) for pid in pids for text in _each_thread(pid, "schedstat")) / 1000


def switches(pids):
    """How often the live threads have slept or been put off."""
    return sum(int(line.split()[1]) for pid in pids for text in _each_thread(pid, "status")
               for line in text.splitlines() if "ctxt_switches" in line)
