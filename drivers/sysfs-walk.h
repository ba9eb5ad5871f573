/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices below a device: what the kernel has made a directory of their own in its directory
 * (Documentation/filesystems/sysfs), at whatever depth. Links are not followed, so the way down has
 * an end; it is bounded all the same, because the tree need not be the kernel's.
 */

#include "drivers/sysfs.h"

/* Directories that one walk enters at most, and how deep. */
#define SYSFS_WALK_MAX       4096
#define SYSFS_WALK_DEPTH_MAX 24

/* What the visitor wants next. */
enum sysfs_walk_step {
	SYSFS_WALK_ON = 0,
	SYSFS_WALK_NOT_BELOW = 1, /* go on, but not below this one */
	SYSFS_WALK_STOP = 2,
};

/* Told of each device, parents first, in natural order of the names. Returns a step, or negative
 * errno to end the walk with. */
typedef int (*sysfs_visitor)(const char *directory, void *userdata);

/* Visits all devices below the directory (which sysfs_resolve() gave), without itself. What cannot
 * be read has nothing below it. Returns SYSFS_WALK_STOP if the visitor said so, 0, -E2BIG beyond
 * SYSFS_WALK_MAX, or what the visitor failed with. */
int sysfs_walk(const char *root, const char *directory, sysfs_visitor visitor, void *userdata);

/* Whether the directory is a device's: it has a `uevent` file. */
bool sysfs_is_device(const char *root, const char *directory);
