/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Closes descriptors that an untrusted process sent. The last close of a socket that lingers, or
 * any close of a file of a server that hangs, can take hours, so it must not happen in a process
 * that must not block. Only for single-threaded processes.
 */

#include "common/util.h"

/* Whether it is memory (a memfd, or a file on tmpfs): reading and closing it never waits. */
bool foreign_is_memory(int fd);

/* Closes the descriptor in another process, without waiting. Keeps errno. Returns the value of "no
 * descriptor". If no process can be made, the descriptor stays open. */
int foreign_close(int fd);

/* As foreign_close(), for an array with one process. Elements may be negative; their values are
 * undefined afterwards.
 */
void foreign_close_all(int *fds, size_t n);

/* Closes our end of a socket pair whose other end belongs to an untrusted process; descriptors in
 * messages that were not received are closed in another process, too. Returns -EBADF. */
int foreign_close_socket(int fd);
