/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a child found out about the health of its devices, kept for its successor: in memory while
 * the daemon lives, and as a file in runtime_dir for the next daemon. Only children understand it
 * (drivers/memory.h).
 */

#include "child.h"
#include "state.h"

/* Finds what an earlier daemon left about the resource. */
void child_memory_open(struct child *child);

/* Keeps what the child sent; takes the descriptor, -EBADF: it has nothing to remember. `grown`: it
 * is the file that it sent before, with more in it. Returns false if it is not what a child may
 * send. */
bool child_memory_take(struct child *child, int fd, bool grown);

/* Writes what is new to its file. */
void child_memory_write(struct child *child, struct state *state);

/* The descriptor for a new process, or -EBADF; stays the child's. */
int child_memory_fd(const struct child *child);

/* The resource is no longer declared: nothing of it is kept. */
void child_memory_forget(struct child *child);
