/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "sysfs": a match entry as it was declared, shared by sysfs-driver.c (keys,
 * checks), sysfs-driver-list.c (the scan) and sysfs-driver-device.c (the values of a device).
 */

#include "common/map.h"
#include "drivers/host/selector.h"
#include "drivers/model/declaration.h"

enum sysfs_group { GROUP_NONE, GROUP_PARENT };

struct sysfs_match {
	struct selector own; /* its subsystem is below; first, so that origin is */
	char *subsystem;     /* pattern */
	struct groups not, upwards, parents, children; /* struct selector */
	int group;                                     /* enum sysfs_group */
	char *id;                                      /* template, NULL: by where it sits */
	struct strings nodes;                          /* templates; none: the device's own */
	bool child_nodes;
	char *permissions;
};

/* The conditions of an entry on a device that is found in a subsystem. */
extern const struct conditions sysfs_driver_conditions;

/* Adds the devices of all entries to the scan. */
int sysfs_driver_list(
	const struct declaration *declaration, struct scan *scan, struct error *error);

/* A future device. */
struct candidate {
	const struct sysfs_match *match;
	char *directory;        /* its own, or of the parent of a group */
	char *subsystem;        /* where it was found */
	struct strings members; /* directories of the devices found */
	char id[DEVICE_ID_MAX + 1];
	char default_id[DEVICE_ID_MAX + 1];
	bool shares_id;
};

/* All of one scan. */
struct candidates {
	const struct declaration *declaration;
	struct scan *scan;
	const char *subsystem; /* that is being searched */
	struct candidate **items;
	size_t count;
	struct map by_directory;
	struct map seen; /* directories of members */
};

/* Computes the device's name, and the one to use if others would have the same. Values that cannot
 * be read are noted. Returns 0 or a shortage (sysroot.h). */
int candidate_make_ids(const struct candidates *candidates, struct candidate *candidate);

/* Sets the known values of the device: variables, NUMA, nodes, and its problem. Returns 0 or a
 * shortage (sysroot.h). */
int candidate_describe(const struct candidates *candidates, const struct candidate *candidate,
	struct device *device);
