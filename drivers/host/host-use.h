/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds hardware that the host uses itself: disks with a mounted file system or swap space, network
 * interfaces with its default routes, the display adapter that the firmware chose. A reason is a
 * clause with its own subject: "nvme0n1p2 is mounted at /".
 */

#include "common/map.h"
#include "drivers/host/scan.h"
#include "drivers/host/sysfs.h"

#define HOST_USE_MAX 160

/* What one scan has read. Initialize `scan`, and zero the rest. */
struct host_use {
	struct scan *scan;
	bool knows_disks, knows_uplinks;
	struct map disks; /* block device to what uses it, both in `texts` */
	struct strings texts;
	struct strings uplinks;
};

/* Whether the host uses a block device (its name in the kernel, "nvme0n1") or a partition of it.
 * Returns 1 with the reason, 0 if that is not known, or -ENOMEM. */
int host_use_of_disk(struct host_use *use, const char *name, char ret_reason[static HOST_USE_MAX]);

/* Whether the host uses the device in a directory of /sys, or one below it; PCI functions below it
 * do not count. Returns as host_use_of_disk(), or another shortage (sysroot.h). */
int host_use_below(
	struct host_use *use, const char *directory, char ret_reason[static HOST_USE_MAX]);

void host_use_done(struct host_use *use);
#define _cleanup_host_use_ _cleanup_(host_use_done)
