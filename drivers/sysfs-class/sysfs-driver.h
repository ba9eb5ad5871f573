/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "sysfs": a match entry as it was declared, shared by sysfs-driver.c (keys,
 * checks), sysfs-driver-list.c (the scan), sysfs-driver-device.c (a device and its nodes) and
 * sysfs-driver-values.c (what is read about it outside of its directory).
 */

#include "common/map.h"
#include "drivers/host/selector.h"
#include "drivers/model/declaration.h"

enum sysfs_group { GROUP_NONE, GROUP_PARENT };

/* A value that a file outside of the device's directory has for it: ${value:NAME}. */
struct sysfs_value {
	struct origin origin;
	char *name;
	char *file; /* template of a path on the host */
	char *line; /* the beginning of the line, before the value; NULL: the whole file */
};

struct sysfs_match {
	struct selector own; /* its subsystem is below; first, so that origin is */
	char *subsystem;     /* pattern */
	struct groups not, upwards, parents, children; /* struct selector */
	int group;                                     /* enum sysfs_group */
	char *id;                                      /* template, NULL: by where it sits */
	char *function;       /* template of a PCI address; NULL: from where it sits */
	struct groups values; /* struct sysfs_value */
	struct strings nodes; /* templates of paths or patterns; none: the device's own */
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
	bool is_numbered; /* the default id is */
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

/* Expands a template for a device that is being made. Returns 0, -ENOENT with the error filled if
 * something in it has no value, -EBUSY if its value cannot be read now, or -ENOMEM. */
int candidate_expand(const struct candidates *candidates, const struct device *device,
	const char *template, char **ret, struct error *error);

/* Adds the variables that files outside of the device's directory give, the address of its function
 * and the NUMA node of that. What is missing is left out. Returns 0, -EBUSY, or a shortage
 * (sysroot.h). */
int candidate_add_values(const struct candidates *candidates, const struct sysfs_match *match,
	struct device *device);

/* Writes why a value that the template uses is missing, as a clause: "/proc/x has no line "Node"".
 * Leaves the text as it is if it uses none of that kind. */
void candidate_explain_value(const struct candidates *candidates, const struct sysfs_match *match,
	const struct device *device, const char *template, struct error *error);

/* Computes the device's name, and the one to use if others would have the same. Values that cannot
 * be read are noted. Returns 0 or a shortage (sysroot.h). */
int candidate_make_ids(const struct candidates *candidates, struct candidate *candidate);

/* Sets the known values of the device: variables, NUMA, nodes, and its problem. Returns 0 or a
 * shortage (sysroot.h). */
int candidate_describe(const struct candidates *candidates, const struct candidate *candidate,
	struct device *device);
