/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the kernel says of its devices in /sys (Documentation/ABI, Documentation/filesystems/sysfs),
 * read through the root. Any of it may be hostile in a tree that is not the kernel's, and any of
 * it may vanish between two looks: every function is bounded, and one that cannot tell says so. A
 * directory is a path on the host, with or without symbolic links in it.
 */

#include <limits.h>

#include "drivers/driver.h"

/* Longest attribute that is taken for a value; those that name something are far shorter. */
#define SYSFS_VALUE_MAX 1023

/* Entries of one directory that are looked at. */
#define SYSFS_ENTRIES_MAX 100000

/* Whether it is UTF-8 without control characters, as everything that comes from there must be. */
bool sysfs_is_text(const char *text);

/* Takes over a value that was read otherwise. Returns 0, -EFBIG (longer than SYSFS_VALUE_MAX), or
 * -EBADMSG if it is not such text. */
int sysfs_copy_value(const char *value, char ret_value[static SYSFS_VALUE_MAX + 1]);

/* Reads an attribute without the white space around it. Returns 0, -EFBIG (longer than
 * SYSFS_VALUE_MAX), -EBADMSG (control characters, or not UTF-8), or what reading it gave. */
int sysfs_read(const char *root, const char *directory, const char *file,
	char ret_value[static SYSFS_VALUE_MAX + 1]);

/* Reads a whole number, decimal or with "0x". Returns 0, -EBADMSG if it is none, or as
 * sysfs_read(). */
int sysfs_read_number(const char *root, const char *directory, const char *file, int64_t *ret);

/* Reads the value of a key of the device's `uevent` file ("DEVNAME"). -ENOENT: no such key. */
int sysfs_read_uevent(const char *root, const char *directory, const char *key,
	char ret_value[static SYSFS_VALUE_MAX + 1]);

/* Path on the host of the device's node, from DEVNAME. -ENOENT: it has none, -EBADMSG: what is
 * there cannot be one. */
int sysfs_read_node(const char *root, const char *directory, char **ret);

/* Last part of what a link in the directory leads to: "driver", "subsystem", "iommu_group",
 * "physfn". */
int sysfs_read_link(const char *root, const char *directory, const char *link,
	char ret_name[static NAME_MAX + 1]);

/* Names of the entries, sorted; those that begin with a dot or hold control characters are left
 * out. -E2BIG: more than SYSFS_ENTRIES_MAX. */
int sysfs_list(const char *root, const char *directory, struct strings *ret_names);

/* The same for entries that are directories and no links. */
int sysfs_list_directories(const char *root, const char *directory, struct strings *ret_names);

/* Writes the directory without symbolic links. -EXDEV: it is not below /sys. */
int sysfs_resolve(const char *root, const char *directory, char **ret);

/* Shortens a path that sysfs_resolve() gave to the device's parent directory, in place. Returns
 * whether there is one below /sys/devices. */
bool sysfs_ascend(char *directory);

/* "0000:03:00.0" (and "10000:03:00.0" behind a VMD), lower case, ended by a NUL. */
#define PCI_ADDRESS_SIZE 17
bool pci_address_is_valid(const char *text);

/* Address of the PCI device that the directory is, or is below of; of several the nearest. */
int sysfs_pci_address(
	const char *root, const char *directory, char ret_address[static PCI_ADDRESS_SIZE]);

/* Adds the NUMA node that the nearest device from the directory up the buses belongs to, if any
 * says so. Returns 0 or -ENOMEM. */
int sysfs_add_numa(const char *root, const char *directory, struct device *device);

/* Gives a device what the core takes from /sys: the variables ${sysfs} (without symbolic links,
 * which ${attr:FILE} reads in) and ${bdf} where there is one, and the NUMA node. Returns 0 or
 * negative errno. */
int sysfs_describe(const char *root, const char *directory, struct device *device);
