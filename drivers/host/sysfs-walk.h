/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Walks the devices below a device: the directories that the kernel has made for them in its
 * directory (Documentation/filesystems/sysfs), at any depth. Links are not followed, so the walk
 * ends; its depth is also limited, because the tree may not be the kernel's.
 */

#include "drivers/host/sysfs.h"

/* The maximum number of directories that one walk enters, and its maximum depth. */
#define SYSFS_WALK_MAX       4096
#define SYSFS_WALK_DEPTH_MAX 24

/* The next step that the visitor wants. */
enum sysfs_walk_step {
	SYSFS_WALK_ON = 0,
	SYSFS_WALK_NOT_BELOW = 1, /* go on, but not below this one */
	SYSFS_WALK_STOP = 2,
};

/* Called for each device, parents first, in natural order of the names. Returns a step, or negative
 * errno to end the walk. */
typedef int (*sysfs_visitor)(const char *directory, void *userdata);

/* Visits all devices below the directory (from sysfs_resolve()), without the device itself.
 * Directories that cannot be read are empty. Returns SYSFS_WALK_STOP if the visitor did, 0, -E2BIG
 * for more than SYSFS_WALK_MAX, or the visitor's error. */
int sysfs_walk(const char *root, const char *directory, sysfs_visitor visitor, void *userdata);

/* Whether the directory is a device's: it has a `uevent` file. */
bool sysfs_is_device(const char *root, const char *directory);
