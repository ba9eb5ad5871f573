/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * DRA drivers of other programs on this host, by their sockets for the kubelet's plugin watcher.
 */

#include <limits.h>
#include <stdbool.h>

/* The name of a socket in the directory under which another program has registered the driver, or
 * will; false: there is none, or the directory cannot be read. */
bool foreign_driver_find(const char *directory, const char *driver, char ret[static NAME_MAX + 1]);
