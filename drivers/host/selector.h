/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Conditions on a device of /sys and on devices above and below it, like rules of udev(7) with
 * ATTR, ATTRS, DRIVER, ENV, KERNEL, SUBSYSTEM, TAG and their plurals. All conditions of one
 * selector are about one and the same device.
 */

#include "drivers/host/scan.h"
#include "drivers/host/sysfs.h"

/* A condition on a file of the device's directory or on a property. */
struct attribute_rule {
	struct origin origin;
	char *file;     /* NULL: `property` instead */
	char *property; /* of the uevent file or from udev's rules */
	struct strings is, is_not;
	bool exists;
};

struct selector {
	struct origin origin;
	char *subsystem; /* pattern; NULL: any */
	struct strings name, devtype, driver, path;
	struct groups attributes; /* struct attribute_rule */
	bool exists;              /* false: no such device may be there */
};

extern const struct option_table attribute_rule_table;

/* Selector of other devices, which must or must not exist. */
extern const struct option_table selector_table;
/* A selector without `exists`. */
extern const struct option_table plain_selector_table;

/* The options of a selector that is part of a larger structure. */
/* clang-format off */
#define SELECTOR_OPTIONS(base)                                                                     \
	{                                                                                          \
		.key = "name",                                                                     \
		.type = OPTION_STRINGS,                                                            \
		.offset = (base) + offsetof(struct selector, name),                                \
		.help = "Its name in the kernel, such as \"wq0.*\"; several are alternatives.",    \
	},                                                                                         \
	{                                                                                          \
		.key = "devtype",                                                                  \
		.type = OPTION_STRINGS,                                                            \
		.offset = (base) + offsetof(struct selector, devtype),                             \
		.help = "DEVTYPE of its uevent file, such as \"disk\"; several are "               \
			"alternatives.",                                                           \
	},                                                                                         \
	{                                                                                          \
		.key = "driver",                                                                   \
		.type = OPTION_STRINGS,                                                            \
		.offset = (base) + offsetof(struct selector, driver),                              \
		.help = "Its driver, or the driver of the device whose interface it is; "          \
			"several are alternatives.",                                               \
	},                                                                                         \
	{                                                                                          \
		.key = "path",                                                                     \
		.type = OPTION_STRINGS,                                                            \
		.offset = (base) + offsetof(struct selector, path),                                \
		.check = form_device_directory,                                                    \
		.help = "Its directory, such as \"/sys/devices/pci*/0000:03:00.0/*\"; here a "     \
			"\"*\" also matches slashes; several are alternatives.",                   \
	},                                                                                         \
	{                                                                                          \
		.key = "attributes",                                                               \
		.type = OPTION_GROUPS,                                                             \
		.offset = (base) + offsetof(struct selector, attributes),                          \
		.table = &attribute_rule_table,                                                    \
		.help = "Its files and properties must match all of these.",                       \
	}
/* clang-format on */

/* The name of a subsystem (a directory of /sys/class or /sys/bus), or a pattern. */
int form_subsystem(const char *value, struct error *error);

/* A shell pattern of a directory below /sys/devices, where all devices are. */
int form_device_directory(const char *value, struct error *error);

/* Adds the problems of a list of attribute rules; `prefix` precedes the list's key: "parents[0]."
 * or nothing. */
void attribute_rules_check(const struct groups *rules, const char *prefix, struct report *report);
/* Adds the problems of a list of selectors, the value of `key` (at most 15 letters). */
void selectors_check(const struct groups *selectors, const char *key, struct report *report);

/* Whether all rules hold for the device. Adds notes about values that may not be read. Returns an
 * enum condition_answer, or a shortage (sysroot.h). */
int attribute_rules_match(struct scan *scan, const struct groups *rules, const char *directory);

/* Whether the device meets the first of several rules but not all: it is most likely the one that
 * is meant. */
bool attribute_rules_near(struct scan *scan, const struct groups *rules, const char *directory);

/* Writes which of the rules does not hold for the device, and what was found, as a phrase: "has
 * "1" in its file enable". */
void attribute_rules_describe(struct scan *scan, const struct groups *rules, const char *directory,
	char ret_found[static CONDITION_FOUND_MAX]);

/* A device that selectors are tested on. */
struct selected {
	struct scan *scan;
	const char *directory;        /* which sysfs_resolve() gave */
	const char *name;             /* the last part of it */
	const char *devtype, *driver; /* NULL: it has none; read for the first condition on them */
	char texts[2][SYSFS_VALUE_MAX + 1];
};

void selected_init(struct selected *selected, struct scan *scan, const char *directory);

/* The conditions of a selector without `subsystem`, at the beginning of an entry's structure, on a
 * struct selected: those that need no file, and the others. */
/* clang-format off */
#define SELECTOR_NAME_CONDITIONS                                                                   \
	{ CONDITION_OF_STRING("name", struct selector, name, struct selected, name) },             \
	{ CONDITION_OF_STRING("path", struct selector, path, struct selected, directory) }
#define SELECTOR_READ_CONDITIONS                                                                   \
	{ CONDITION_OF_STRING("devtype", struct selector, devtype, struct selected, devtype),      \
		.read = selected_read_devtype },                                                   \
	{ CONDITION_OF_STRING("driver", struct selector, driver, struct selected, driver),         \
		.read = selected_read_driver },                                                    \
	{                                                                                          \
		.key = "attributes",                                                               \
		.test = selected_test_attributes,                                                  \
		.found = selected_found_attributes,                                                \
		.near = selected_near_attributes,                                                  \
	}
/* clang-format on */

int selected_read_devtype(const struct condition *condition, void *candidate);
int selected_read_driver(const struct condition *condition, void *candidate);
int selected_test_attributes(const void *entry, void *candidate);
void selected_found_attributes(const void *entry, const void *candidate, char *ret_found);
bool selected_near_attributes(const void *entry, const void *candidate);

/* Whether the device meets none of the selectors. Returns an enum condition_answer, or a shortage
 * (sysroot.h). */
int selectors_match_none(struct scan *scan, const struct groups *selectors, const char *directory);

/* Whether for each of the selectors there is a device above this one that matches (or, with `own`,
 * the device itself), or none where `exists` is false. Returns as selectors_match_none(). */
int selectors_match_above(
	struct scan *scan, const struct groups *selectors, const char *directory, bool own);

/* As selectors_match_above(), for the devices below this one. */
int selectors_match_below(struct scan *scan, const struct groups *selectors, const char *directory);
