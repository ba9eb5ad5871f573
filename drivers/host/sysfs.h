/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the kernel's devices in /sys (Documentation/ABI, Documentation/filesystems/sysfs) through
 * the root. A tree that is not the kernel's may be hostile, and any entry may disappear between two
 * reads: every function is bounded and reports what it cannot read. A directory is a path on the
 * host, with or without symbolic links in it.
 */

#include <limits.h>

#include "drivers/model/device.h"
#include "drivers/model/form.h"

/* Maximum length of an attribute that is read as a value; names are far shorter. */
#define SYSFS_VALUE_MAX 1023

/* Maximum number of entries read of one directory. */
#define SYSFS_ENTRIES_MAX 100000

/* Whether it is plain (text_is_plain()), as everything from /sys must be. */
bool sysfs_is_text(const char *text);

/* Copies a value that was read in another way. Returns 0, -EFBIG (longer than SYSFS_VALUE_MAX), or
 * -EBADMSG if it is not such text. */
int sysfs_copy_value(const char *value, char ret_value[static SYSFS_VALUE_MAX + 1]);

/* Reads an attribute without the white space around it. Returns 0, -EFBIG (longer than
 * SYSFS_VALUE_MAX), -EBADMSG (not such text), -EBUSY (the kernel has the reader wait for a lock,
 * see sysfs-locked.h), or the error of reading it. */
int sysfs_read(const char *root, const char *directory, const char *file,
	char ret_value[static SYSFS_VALUE_MAX + 1]);

/* Reads a file of several lines, and joins them by spaces; otherwise as sysfs_read(). -EBUSY also
 * if reading any other file takes long: a sensor's driver may have to ask the hardware. */
int sysfs_read_lines(const char *root, const char *directory, const char *file,
	char ret_value[static SYSFS_VALUE_MAX + 1]);

/* Reads a whole number, decimal or with "0x". Returns 0, -EBADMSG if the value is not a number, or
 * as sysfs_read(). */
int sysfs_read_number(const char *root, const char *directory, const char *file, int64_t *ret);

/* Reads the value of a key of the device's `uevent` file ("DEVNAME"). -ENOENT: no such key. */
int sysfs_read_uevent(const char *root, const char *directory, const char *key,
	char ret_value[static SYSFS_VALUE_MAX + 1]);

/* Path on the host of the device's node, from DEVNAME or, for a device of neither a class nor a
 * bus, from its name and number. -ENOENT: it has none, -EBADMSG: the value is not a valid path. */
int sysfs_read_node(const char *root, const char *directory, char **ret);

/* Last part of the target of a link in the directory: "driver", "subsystem", "iommu_group",
 * "physfn". */
int sysfs_read_link(const char *root, const char *directory, const char *link,
	char ret_name[static NAME_MAX + 1]);

/* Names of the entries, sorted; those that begin with a dot or hold control characters are left
 * out. -E2BIG: more than SYSFS_ENTRIES_MAX. */
int sysfs_list(const char *root, const char *directory, struct strings *ret_names);

/* As sysfs_list(), only entries that are directories and not links. */
int sysfs_list_directories(const char *root, const char *directory, struct strings *ret_names);

/* Names the files below the directory that match a relative pattern ("rom?/VBNV"), in order; a
 * leading dot only explicitly. A path without * ? [ is the answer itself, whether it exists or not;
 * the part after the last of these need not exist either. -E2BIG: more than SYSFS_MATCHES_MAX. */
#define SYSFS_MATCHES_MAX 1000
int sysfs_expand(
	const char *root, const char *directory, const char *pattern, struct strings *ret_files);

/* Writes the directory without symbolic links. -EXDEV: it is not below /sys. */
int sysfs_resolve(const char *root, const char *directory, char **ret);

/* Shortens a path that sysfs_resolve() gave to the device's parent directory, in place. Returns
 * whether there is one below /sys/devices. */
bool sysfs_ascend(char *directory);

/* Address of the nearest PCI device at or above the directory; of an NVMe namespace that several
 * controllers could share, the address of its controller if it has one only. */
int sysfs_pci_address(
	const char *root, const char *directory, char ret_address[static PCI_ADDRESS_SIZE]);

/* Whether the PCI function has virtual functions. Its sriov_numvfs would be read with its lock,
 * which is held while they are made. */
bool sysfs_has_vfs(const char *root, const char *directory);

/* Addresses of the virtual functions of a PCI function, by number: the targets of the links
 * "virtfn0" and so on, "" if one cannot be read. Returns 0 or a shortage (sysroot.h). */
int sysfs_list_vfs(const char *root, const char *directory, struct strings *ret_addresses);

/* Adds the NUMA node of the nearest device from the directory up the buses that has one; for an
 * NVMe namespace that several controllers could share, those of its controllers. Returns 0 or a
 * shortage (sysroot.h). */
int sysfs_add_numa(const char *root, const char *directory, struct device *device);

/* Adds to a device what the core reads from /sys: the variables ${sysfs} (without symbolic links,
 * in which ${attr:FILE} reads) and ${bdf} where there is one, and the NUMA node. Returns 0 or
 * negative errno. */
int sysfs_describe(const char *root, const char *directory, struct device *device);
