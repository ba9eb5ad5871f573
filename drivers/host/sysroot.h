/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the host through a directory that stands for "/", so that a tree can be a machine in tests
 * and a container can mount the host. Paths are those of the host; symbolic links in them are
 * followed within the root and cannot leave it. An empty root is the process's own.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "common/util.h"

/* Calls a function with each path that is opened, inspected or resolved from now on, in any thread;
 * NULL ends that. */
void sysroot_observe(void (*observer)(const char *path));

/* Opens with `flags` and O_CLOEXEC. Returns a descriptor or negative errno. */
int sysroot_open(const char *root, const char *path, int flags);

/* Type and mode of the file at the path, behind symbolic links. */
int sysroot_stat(const char *root, const char *path, struct stat *ret);

/* The path without symbolic links, as the host sees it. */
int sysroot_resolve(const char *root, const char *path, char **ret);

/* As many links on the way to a path as the kernel follows. */
#define SYSROOT_LINKS_MAX 40U

/* Replaces the first symbolic link on the way to the path by its target, which may be missing.
 * `ret`: the new path, or NULL if there is no link. Returns 0 or -ENOMEM. */
int sysroot_follow_link(const char *root, const char *path, char **ret);

/* As sysroot_resolve(), for a path below /dev/ that is not trusted: every directory on the way must
 * be on the file system of /dev, so that no file system can block the caller. -EXDEV: it is not. */
int sysroot_resolve_node(const char *root, const char *path, char **ret);

/* Opens a directory for reading. */
int sysroot_opendir(const char *root, const char *path, DIR **ret);

/* Reads a regular file up to `size` - 1 bytes and ends it with a NUL; a longer file is cut. Never
 * blocks; anything but a regular file is -EINVAL. Returns the length. */
ssize_t sysroot_read(const char *root, const char *path, char *buffer, size_t size);

/* Opens a regular file as a stream for reading; anything else is -EINVAL. */
int sysroot_fopen(const char *root, const char *path, FILE **ret);

/* Whether the error means that the file does not exist; after other errors, this is unknown. */
bool sysroot_is_absent(int error);

/* Whether the path is below /tmp or /var/tmp, and the process has these for itself (PrivateTmp=),
 * so that it cannot see the host's. */
bool sysroot_hides(const char *root, const char *path);

/* Whether it means that this process lacks memory or descriptors, so that nothing is known about
 * the file. */
bool sysroot_is_shortage(int error);
