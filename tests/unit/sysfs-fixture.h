/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Devices in the /sys of the tree that stands for a machine, linked as the kernel links them, and
 * what a driver finds of them.
 */

#include "host-fixture.h"

#include "drivers/scan.h"

static struct scan scan;
static struct config *config;

static inline int sysfs_teardown(void **state)
{
	scan_done(&scan);
	config = config_free(config);
	return host_teardown(state);
}

/* Makes a device below /sys/devices of a class ("class/tty") or bus ("bus/usb"), whose entries lead
 * to it. `uevent` is the content of that file. */
static inline void sys_device(const char *directory, const char *subsystem, const char *uevent)
{
	const char *name = strrchr(directory, '/') + 1;
	bool is_bus = strncmp(subsystem, "bus/", 4) == 0;
	char path[440], up[256] = "", target[700];

	(void)snprintf(path, sizeof(path), "/sys/devices/%s", directory);
	host_mkdir(path);
	(void)snprintf(path, sizeof(path), "/sys/devices/%s/uevent", directory);
	host_write(path, uevent);
	for (const char *p = directory; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
		(void)strcat(up, "../");
	(void)snprintf(path, sizeof(path), "/sys/devices/%s/subsystem", directory);
	(void)snprintf(target, sizeof(target), "%s../%s", up, subsystem);
	host_symlink(target, path);
	(void)snprintf(path, sizeof(path), "/sys/%s%s", subsystem, is_bus ? "/devices" : "");
	host_mkdir(path);
	(void)snprintf(
		path, sizeof(path), "/sys/%s%s/%s", subsystem, is_bus ? "/devices" : "", name);
	(void)snprintf(
		target, sizeof(target), "%s../../devices/%s", is_bus ? "../" : "", directory);
	host_symlink(target, path);
}

/* Writes a file of a device below /sys/devices. */
static inline void sys_write(const char *directory, const char *file, const char *text)
{
	char path[440];

	(void)snprintf(path, sizeof(path), "/sys/devices/%s/%s", directory, file);
	host_write(path, text);
}

/* A device node is what stat() can tell of it; without privilege it is a FIFO. */
static inline void host_node(const char *name)
{
	char directory[256];

	(void)snprintf(
		directory, sizeof(directory), "%.*s", (int)(strrchr(name, '/') - name), name);
	host_mkdir(directory);
	host_mknod(name);
}

/* Scans with "driver = ...; match = ...;". */
static inline void list(const char *text)
{
	struct error error;

	scan_done(&scan);
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
