# SPDX-License-Identifier: Apache-2.0
"""What the kernel knows of processes: memory, CPU, switches, threads."""
import os
import time


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


def cpu_usec(pids):
    """What all threads have used, those that ended too; nanoseconds are counted, not ticks."""
    # The CPU clock of a process, as clock_getcpuclockid(3) makes it.
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in pids) / 1000


def switches(pids):
    """How often the live threads have slept or been put off."""
    count = 0
    for pid in pids:
        for thread in threads(pid):
            try:
                with open(f"/proc/{pid}/task/{thread}/status") as file:
                    count += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
            except FileNotFoundError:
                continue
    return count
