/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Devices in the /sys of the tree that stands for a machine, linked as the kernel links them.
 */

#include "driver-fixture.h"

/* Makes a device below /sys/devices of a class ("class/tty") or bus ("bus/usb"), whose entries lead
 * to it. `uevent` is the content of that file. */
static inline void sys_device(const char *directory, const char *subsystem, const char *uevent)
{
	const char *slash = strrchr(directory, '/'), *name = slash ? slash + 1 : directory;
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

/* Makes a device node, and the directory for it. */
static inline void host_node(const char *name)
{
	char directory[256];

	(void)snprintf(
		directory, sizeof(directory), "%.*s", (int)(strrchr(name, '/') - name), name);
	host_mkdir(directory);
	host_mknod(name);
}
