/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "example" finds sensors of the kernel's class iio, by the name that their chip has. It is
 * a minimal driver of /sys to copy, and not part of devplugd: replace "example", CLASS, the keys
 * and the variables. tests/unit/test-example-driver.c builds and tests it.
 */
#include "drivers/host/scan.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"
#include "drivers/model/node-permissions.h"

#define SUBSYSTEM "iio"
#define DIRECTORY "/sys/bus/iio/devices"

/* The keys of an entry of `match`. */
struct example_match {
	struct origin origin; /* first */
	struct strings chip;
	char *permissions;
};

static const struct option example_options[] = {
	{
		.key = "chip",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct example_match, chip),
		.help = "Name of the sensor's chip, such as \"bme280\"; a shell pattern.",
	},
	PERMISSIONS_OPTION(struct example_match),
};

static const struct option_table example_match_table = {
	.name = "match entry",
	.shorthand = "chip", /* match = "bme280" */
	.size = sizeof(struct example_match),
	.options = example_options,
	.count = ARRAY_SIZE(example_options),
};

/* What conditions are about. */
struct candidate {
	const char *chip;
};

static const struct condition example_table[] = {
	{ CONDITION_OF_STRING("chip", struct example_match, chip, struct candidate, chip) },
};

static const struct conditions example_conditions = CONDITIONS("sensor", example_table);

/* The first entry that selects the sensor, if `exclude` leaves it in. Returns 1, 0 or negative
 * errno. */
static int find_match(const struct declaration *declaration, struct scan *scan,
	struct candidate *candidate, const char *name, const struct example_match **ret_match)
{
	int r;

	for (size_t i = 0; i < declaration->match.count; i++) {
		*ret_match = groups_get(&declaration->match, i);
		r = conditions_hold(&example_conditions, *ret_match, candidate, name,
			scan_tally(scan, i, &example_conditions));
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		r = scan_excludes(scan, declaration, &example_conditions, candidate, name, name);
		return r < 0 ? r : r == 0;
	}
	return 0;
}

/* Adds what a container gets, and what the core reads from /sys: ${sysfs}, ${bdf}, the NUMA node.
 */
static int describe(const char *root, const char *directory, const char *chip,
	const char *permissions, struct device *device)
{
	_cleanup_free_ char *node = NULL;
	int r;

	r = sysfs_read_node(root, directory, &node);
	if (r == -ENOENT)
		r = device_set_lack(device, "it has no device node: load its driver");
	else if (r >= 0)
		r = device_add_node(device, node, node, permissions);
	if (r >= 0)
		r = device_add_variable(device, "chip", chip);
	if (r >= 0)
		r = sysfs_describe(root, directory, device);
	return r;
}

static int list_one(const struct declaration *declaration, struct scan *scan, const char *name)
{
	char directory[sizeof(DIRECTORY) + NAME_MAX + 1], chip[SYSFS_VALUE_MAX + 1];
	const struct example_match *match;
	char id[DEVICE_ID_MAX + 1];
	struct device *device;
	int r;

	(void)snprintf(directory, sizeof(directory), DIRECTORY "/%.255s", name);
	r = sysfs_read(scan_root(scan), directory, "name", chip);
	if (r >= 0)
		r = find_match(declaration, scan, &(struct candidate){ chip }, name, &match);
	/* A sensor that is removed meanwhile is no failure; too little memory is one. */
	if (r <= 0)
		return sysroot_is_shortage(r) ? r : 0;
	/* An id should be the same after a reboot: a serial number or identity_of() is better. */
	device_id_make(name, id);
	r = scan_add(scan, id, &device);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	r = describe(scan_root(scan), directory, chip, match->permissions, device);
	return sysroot_is_shortage(r) ? r : 0;
}

static int example_list(
	const struct declaration *declaration, struct scan *scan, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	/* Before the directory is read, so that no change is lost. */
	r = scan_events(scan, SUBSYSTEM);
	if (r >= 0)
		r = sysfs_list(scan_root(scan), DIRECTORY, &names);
	/* The class appears with its first driver. */
	if (r == -ENOENT)
		return 0;
	for (size_t i = 0; i < names.count && r >= 0; i++)
		r = list_one(declaration, scan, names.items[i]);
	if (r < 0)
		return error_set(error, r, "sensors cannot be listed: %s", strerror(-r));
	return 0;
}

static const struct driver_variable example_variables[] = {
	{ "chip", "Name of the sensor's chip.", .permanent = true, .names_model = true },
	{ 0 },
};

extern const struct driver example_driver; /* a line in driver.h */

const struct driver example_driver = {
	.name = "example",
	.summary = "sensors of the kernel's class iio",
	.noun = "sensor",
	.match = &example_match_table,
	.conditions = (const struct conditions *const[]){ &example_conditions, NULL },
	.variables = example_variables,
	.list = example_list,
};
