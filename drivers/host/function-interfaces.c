/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which network interfaces are a function's own. The kernel names the port of an interface
 * in phys_port_name (net/devlink/port.c: __devlink_port_phys_port_name_get(); sfc: ef100_rep.c
 * writes the number of the physical port before it). Drivers have more names for physical ports
 * than for representors, so a name that is not a representor's is that of an uplink.
 */
#include "drivers/host/function-interfaces.h"

#include "drivers/host/sysroot.h"

/* The text behind the prefix and a number, or NULL. */
static const char *behind_number(const char *text, const char *prefix)
{
	const char *digits = startswith(text, prefix);
	size_t length = digits ? strspn(digits, "0123456789") : 0;

	return length > 0 ? digits + length : NULL;
}

bool port_name_is_representor(const char *port)
{
	const char *rest = behind_number(port, "c") ?: behind_number(port, "p") ?: port;

	rest = behind_number(rest, "pf");
	if (!rest)
		return false;
	rest = behind_number(rest, "vf") ?: behind_number(rest, "sf") ?: rest;
	return *rest == '\0';
}

/* Returns 1, 0 or -EBUSY. */
static int is_representor(const char *root, const char *directory, const char *interface)
{
	char path[64], port[SYSFS_VALUE_MAX + 1];
	int r;

	(void)snprintf(path, sizeof(path), "net/%.20s/phys_port_name", interface);
	r = sysfs_read(root, directory, path, port);
	if (r < 0)
		return r == -EBUSY ? r : 0;
	return port_name_is_representor(port);
}

/* The kernel does not show interfaces in other namespaces, but their directory. Returns whether
 * that exists, or negative errno. */
static int list_in(
	const char *root, const char *directory, struct strings *own, struct strings *representors)
{
	_cleanup_strings_ struct strings names = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	if (format_text(&path, "%s/net", directory) < 0)
		return -ENOMEM;
	r = sysfs_list(root, path, &names);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		const char *name = names.items[i];

		r = representors ? is_representor(root, directory, name) : 0;
		if (r >= 0)
			r = strings_add(r > 0 ? representors : own, name, strlen(name));
	}
	return r < 0 ? r : 1;
}

int function_interfaces_list(
	const char *root, const char *directory, struct strings *own, struct strings *representors)
{
	_cleanup_strings_ struct strings entries = { 0 };
	int r, has_any;

	has_any = list_in(root, directory, own, representors);
	if (has_any != 0)
		return has_any;
	r = sysfs_list(root, directory, &entries);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (size_t i = 0; i < entries.count && r >= 0; i++) {
		_cleanup_free_ char *below = NULL;

		/* The interfaces of a virtio card are one step below. */
		if (!startswith(entries.items[i], "virtio"))
			continue;
		if (format_text(&below, "%s/%s", directory, entries.items[i]) < 0)
			return -ENOMEM;
		r = list_in(root, below, own, representors);
		has_any = has_any || r > 0;
	}
	return r < 0 ? r : has_any;
}
