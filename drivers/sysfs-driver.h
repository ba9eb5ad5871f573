/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "sysfs": a match entry as it was declared, shared by sysfs-driver.c (keys,
 * checks) and sysfs-driver-list.c (what the host has of it).
 */

#include "drivers/selector.h"

enum sysfs_group { GROUP_NONE, GROUP_PARENT };

struct sysfs_match {
	struct selector own; /* its subsystem is below; first, so that origin is */
	char *subsystem;
	struct groups parents, children; /* struct selector */
	int group;                       /* enum sysfs_group */
	char *id;                        /* template, NULL: by where it sits */
	struct strings nodes;            /* templates; none: the device's own */
	bool child_nodes;
	char *permissions;
};

/* Adds the devices of all entries to the scan. */
int sysfs_driver_list(
	const struct declaration *declaration, struct scan *scan, struct error *error);
