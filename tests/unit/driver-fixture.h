/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a driver finds on the host of the test.
 */

#include "inventory-fixture.h"

#include <sys/resource.h>

#include "drivers/host/scan-run.h"

static struct scan scan;

static inline int driver_teardown(void **state)
{
	scan_done(&scan);
	return inventory_teardown(state);
}

#define HOST_TEST(function) cmocka_unit_test_setup_teardown(function, host_setup, driver_teardown)

/* Scans with "driver = ...; match = ...;". */
static inline void list(const char *text)
{
	struct error error;

	scan_done(&scan);
	inventory = inventory_free(inventory);
	config = config_free(config);
	config = declare(text);
	scan.root = host_root;
	if (declaration_of(config)->driver->list(declaration_of(config), &scan, &error) < 0)
		fail_msg("%s", error.message);
}

/* Ids in the order found, with a space behind each. */
static inline void expect_found(const char *text, const char *expected)
{
	char ids[8192] = "";

	list(text);
	for (size_t i = 0; i < scan.n_devices; i++) {
		(void)strcat(ids, scan.devices[i]->id);
		(void)strcat(ids, " ");
	}
	assert_string_equal(ids, expected);
}

static inline const struct device *found(const char *id)
{
	for (size_t i = 0; i < scan.n_devices; i++)
		if (streq(scan.devices[i]->id, id))
			return scan.devices[i];
	fail_msg("no device \"%s\"", id);
	return NULL;
}

/* The same for the entries of `match` alone. */
static inline void list_entries(const char *driver, const char *match)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "driver = \"%s\"; match = ( %s );", driver, match) > 0);
	list(text);
}

static inline void expect_ids(const char *driver, const char *match, const char *expected)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "driver = \"%s\"; match = ( %s );", driver, match) > 0);
	expect_found(text, expected);
}

/* "host>path host" of all nodes in the order found, with a space behind each. */
static inline void expect_nodes(const char *id, const char *expected)
{
	const struct device *device = found(id);
	char nodes[8192] = "";

	for (size_t i = 0; i < device->n_nodes; i++) {
		(void)strcat(nodes, device->nodes[i].host);
		if (!streq(device->nodes[i].host, device->nodes[i].path)) {
			(void)strcat(nodes, ">");
			(void)strcat(nodes, device->nodes[i].path);
		}
		(void)strcat(nodes, " ");
	}
	assert_string_equal(nodes, expected);
}

static inline void expect_variable(const char *id, const char *name, const char *expected)
{
	const char *value = device_variable(found(id), name);

	if (!value || !expected) {
		assert_true(value == expected);
		return;
	}
	assert_string_equal(value, expected);
}

/* However few descriptors can be opened, a scan finds the same devices, or fails. */
static inline void expect_whole_or_failure(const char *text)
{
	struct rlimit limit, few;
	struct scan whole;
	unsigned failures = 0;

	list(text);
	whole = scan;
	scan = (struct scan){ 0 };
	assert_true(whole.n_devices > 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	for (few.rlim_cur = 3; few.rlim_cur < 32; few.rlim_cur++) {
		struct error error;
		int r;

		scan_done(&scan);
		scan.root = host_root;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		r = declaration_of(config)->driver->list(declaration_of(config), &scan, &error);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		if (r < 0) {
			failures++;
			continue;
		}
		assert_int_equal(scan.n_devices, whole.n_devices);
		for (size_t i = 0; i < scan.n_devices; i++)
			assert_true(device_equal(scan.devices[i], whole.devices[i]));
	}
	assert_true(failures > 0);
	scan_done(&whole);
}
