/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides whether a container would get a device with the path of a device node. containerd refuses
 * to start a container with any other file (ErrNotADevice), CRI-O starts it without the file, and
 * both replace a directory by the device nodes in it.
 */

#include "drivers/host/scan.h"

enum node_state {
	NODE_DEVICE, /* a character or block device, or unknown: the path may not be read */
	NODE_MISSING,
	NODE_OTHER,     /* a file of another kind, which a program or a mount has left there */
	NODE_DIRECTORY, /* a directory with device nodes */
	NODE_EMPTY,     /* a directory without device nodes */
};

/* Finds the state of a path on the host. With a scan, the directories in it that decide the answer
 * are watched; the one that contains it is not. Returns 0 or a shortage (sysroot.h). */
int node_state_read(const char *root, const char *path, struct scan *scan, enum node_state *ret);

/* Whether a container gets a device. `directories`: the path may be that of a directory. */
bool node_state_is_usable(enum node_state state, bool directories);

/* What is wrong with a state that is not usable, as a phrase ("is missing"), and the beginning of
 * the remedy ("remove it and "), which may be empty. */
const char *node_state_phrase(enum node_state state);
const char *node_state_remedy(enum node_state state);

/* Visits the device nodes in a directory and in those below it, as container runtimes do: symbolic
 * links and the directories of pseudo-terminals and the like are left out. With a scan, each
 * directory is watched before it is read. The visitor returns 0 to go on, or another value to end
 * the walk, which is returned. Also returns 0 or a shortage. */
typedef int (*node_visitor)(const char *path, void *userdata);
int node_walk(const char *root, const char *directory, struct scan *scan, node_visitor visitor,
	void *userdata);
