/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Records which files of the host a scan reads, and prints them as a tree that a test can plant
 * again: `devplugctl discover --dump-tree`.
 */

#include "common/error.h"

/* Begins to record what this process reads through sysroot.h. */
void dump_tree_begin(void);

/* Stops, and prints the files below the root, one a line, sorted (tests/peers/test_peers.py reads
 * them):
 *
 *   PATH = TEXT      a file; "\n" is a line break. Only files of /sys and /proc have their text.
 *   PATH -> TARGET   a symbolic link
 *   PATH c 240 0     a device node, or "b"
 *   PATH/            a directory
 *
 * Serial numbers, UUIDs and MAC addresses are replaced by others, the same for the same value.
 * Returns 0, or negative errno with the error filled. */
int dump_tree_print(const char *root, struct error *error);
