/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What udev stores about a device in /run/udev/data (its own format, stable since systemd 183): the
 * properties that rules set (E:), its tags (G:) and the links to its node (S:). Without udev there
 * is none. It is read through the root and as untrusted as /sys.
 */

#include "drivers/host/sysfs.h"

#define UDEV_DATABASE "/run/udev/data"

/* Reads a property of the device: a key of its `uevent` file, or what udev's rules gave it; "TAGS"
 * is ":first:second:". Returns 0, -ENOENT, -ENODATA if the host has no UDEV_DATABASE to read it
 * from, or as sysfs_read(). */
int udev_read_property(const char *root, const char *directory, const char *key,
	char ret_value[static SYSFS_VALUE_MAX + 1]);

/* Adds the paths of the links to the device's node ("/dev/serial/by-id/..."). Returns 0, -ENODATA
 * as above, or a shortage (sysroot.h). */
int udev_read_links(const char *root, const char *directory, struct strings *links);

/* Whether udev runs and has not processed the device yet, so that its name may change. Returns 1, 0
 * or a shortage (sysroot.h). */
int udev_is_pending(const char *root, const char *directory);
