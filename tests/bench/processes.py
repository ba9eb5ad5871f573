# SPDX-License-Identifier: Apache-2.0
"""What the kernel knows of processes: memory, CPU, switches, threads."""
import os
import time


def memory(pid):
    """kB: {"pss", "dirty": its part of dirty pages, "private dirty", "private"}."""
    fields = {}
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            words = line.split()
            if words[-1] == "kB":
                fields[words[0]] = int(words[1])
    return {"pss": fields["Pss:"], "dirty": fields["Pss_Dirty:"], "private dirty": fields["Private_Dirty:"],
            "private": fields["Private_Clean:"] + fields["Private_Dirty:"]}


def memory_of_all(pids, kind):
    return sum(memory(pid)[kind] for pid in pids)


def threads(pid):
    return os.listdir(f"/proc/{pid}/task")


def cpu_usec(pids):
    """What all threads have used, those that ended too; nanoseconds are counted, not ticks."""
    # The CPU clock of a process, as clock_getcpuclockid(3) makes it.
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in pids) / 1000


def ended_children_cpu_msec(pid):
    """What children of a process have used that have ended and were waited for; in ticks of 10 ms."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) * 1000 / os.sysconf("SC_CLK_TCK")


def wakeups(pids):
    """How often the live threads have slept."""
    count = 0
    for pid in pids:
        for thread in threads(pid):
            try:
                with open(f"/proc/{pid}/task/{thread}/status") as file:
                    count += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
            except FileNotFoundError:
                continue
    return count
