/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Disks of the tree that stands for a machine, and what the host uses of it.
 */

#include "host-fixture.h"

/* A block device in a directory of /sys/devices, with a number, and its node if we may make it. */
static inline void plant_block(const char *parent, const char *name, unsigned major, unsigned minor)
{
	char path[400], link[512];

	(void)snprintf(path, sizeof(path), "%s/%s", parent, name);
	host_mkdir(path);
	(void)snprintf(link, sizeof(link), "%s/subsystem", path);
	host_symlink("/sys/class/block", link);
	(void)snprintf(link, sizeof(link), "%s/uevent", path);
	host_write(link, "");
	host_mkdir("/sys/class/block");
	host_mkdir("/sys/dev/block");
	(void)snprintf(link, sizeof(link), "/sys/class/block/%s", name);
	host_symlink(path, link);
	(void)snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major, minor);
	host_symlink(path, link);
}

/* The first lines of the table have no device of their own. */
#define MOUNTS                                                  \
	"22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n" \
	"95 1 0:52 / /run/x rw - overlay overlay rw,lowerdir=/a:/b:/dev/c\n"
