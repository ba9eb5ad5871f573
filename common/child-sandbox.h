/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Confines a child, for every user and every program it executes, such as a health probe: it cannot
 * use the parts of the kernel that a device plugin does not need, nor reach other processes, even
 * those of the same user. Under systemd this adds to the sandbox of the unit.
 */

#include <stdbool.h>

/* Confines the process permanently; no-new-privileges must be set. `filtered`: it is a copy of a
 * confined process, whose filter of system calls it has inherited. Restrictions that the kernel
 * lacks, or that the parent's sandbox forbids, are left out. Async-signal-safe. Returns 0 or
 * negative errno. */
int sandbox_enter(bool filtered);

/* For a process that executes no programs: allows only the system calls that serving a resource
 * needs. Where the kernel has Landlock, files can be made, removed, executed or written only
 * through descriptors that are already open. Without `network`, it can open local and netlink
 * sockets only. It keeps its limit of open files and its parent-death signal. Call it before
 * threads start. Returns 0 or negative errno. */
int sandbox_give_up_programs(bool network);

/* Whether the kernel keeps processes of one user apart: 0 it has no Landlock, 1 it has, 2 it also
 * keeps signals and abstract sockets away (Linux 6.12). */
unsigned sandbox_isolation(void);
