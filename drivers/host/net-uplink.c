/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which interfaces the host needs itself and no container may get: those that its default
 * routes lead through, those below them, and ports of bridges and bonds. Routes are read as text
 * (/proc/net/route, /proc/net/ipv6_route), bounded, because a node may have as many as it has pods.
 * Below a root, the routes are those of process 1: a link leads from /proc/net to the reader's own,
 * which are those of a pod where devplugd runs in a container. There, only the first next hop of an
 * IPv4 route is known.
 */
#include "drivers/host/net-uplink.h"

#include <linux/ipv6_route.h>
#include <linux/route.h>

#include "drivers/host/net-next-hops.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"

#define LINES_MAX 100000
#define NAME_SIZE 32

/* "eth0 00000000 0100000A 0003 0 0 100 00000000 ..." in hexadecimal: name, destination, gateway,
 * flags, ..., mask */
static bool parse_route(const char *line, char ret_name[static NAME_SIZE])
{
	unsigned destination, mask, flags;

	return sscanf(line, "%31s %x %*x %x %*u %*u %*u %x", ret_name, &destination, &flags,
		       &mask) == 4 &&
		destination == 0 && mask == 0 && (flags & RTF_UP) && !(flags & RTF_REJECT);
}

/* "0...0 00 0...0 00 gateway metric references used flags eth0": destination and its length first
 */
static bool parse_ipv6_route(const char *line, char ret_name[static NAME_SIZE])
{
	unsigned length, flags;

	return sscanf(line, "%*s %x %*s %*x %*s %*x %*x %*x %x %31s", &length, &flags, ret_name) ==
		3 &&
		length == 0 && (flags & RTF_UP) && !(flags & RTF_REJECT);
}

static int read_routes(const char *root, const char *path,
	bool (*parse)(const char *line, char *ret_name), struct strings *names)
{
	_cleanup_fclose_ FILE *stream = NULL;
	char line[512], name[NAME_SIZE];
	int r;

	r = sysroot_fopen(root, path, &stream);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (unsigned i = 0; i < LINES_MAX && r >= 0 && fgets(line, sizeof(line), stream); i++)
		if (parse(line, name))
			r = strings_add(names, name, strlen(name));
	return r;
}

static bool has_routes(const char *root, const char *directory)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/route", directory);
	return sysroot_stat(root, path, &st) >= 0;
}

/* The kernel answers for this process's network namespace, which is not the host's below a root. */
static int read_next_hops(struct scan *scan, struct strings *names)
{
	int r = *scan_root(scan) ? 0 : net_next_hops_read(names);

	if (r >= 0 || r == -ENOMEM)
		return r;
	scan_note(scan,
		"default routes with several next hops cannot be read, so all but the first of "
		"their interfaces may be offered: %s",
		strerror(-r));
	return 0;
}

/* Adds the interfaces below those of the list, each once: "eno1.7" has a link "lower_eno1". */
static int add_lower(const char *root, struct strings *names)
{
	int r = 0;

	for (size_t i = 0; i < names->count && r >= 0; i++) {
		_cleanup_strings_ struct strings entries = { 0 };
		char directory[128];

		(void)snprintf(
			directory, sizeof(directory), "/sys/class/net/%.31s", names->items[i]);
		r = sysfs_list(root, directory, &entries);
		/* A route may be about an interface that has just been removed. */
		if (r < 0 && !sysroot_is_shortage(r))
			r = 0;
		for (size_t k = 0; k < entries.count && r >= 0; k++) {
			const char *lower = startswith(entries.items[k], "lower_");

			if (lower)
				r = strings_add_once(names, lower);
		}
	}
	return r;
}

int net_uplinks_read(struct scan *scan, struct strings *ret_names)
{
	_cleanup_strings_ struct strings names = { 0 };
	const char *root = scan_root(scan), *directory = "/proc/net";
	char path[64];
	int r;

	if (*root && has_routes(root, "/proc/1/net"))
		directory = "/proc/1/net";
	else if (!has_routes(root, directory))
		scan_note_absent(scan, *root ? "/proc/1/net" : directory,
			"interfaces that the host needs may be offered");
	(void)snprintf(path, sizeof(path), "%s/route", directory);
	r = read_routes(root, path, parse_route, &names);
	(void)snprintf(path, sizeof(path), "%s/ipv6_route", directory);
	if (r >= 0)
		r = read_routes(root, path, parse_ipv6_route, &names);
	if (r >= 0)
		r = read_next_hops(scan, &names);
	if (r >= 0)
		r = add_lower(root, &names);
	if (r < 0)
		return r;
	*ret_names = names;
	names = (struct strings){ 0 };
	return 0;
}

const char *net_uplink_reason(
	const char *root, const struct strings *uplinks, const char *interface, bool routes_allowed)
{
	char directory[128], master[NAME_MAX + 1];

	if (!routes_allowed && strings_contain(uplinks, interface))
		return "the host's default route leads through it";
	(void)snprintf(directory, sizeof(directory), "/sys/class/net/%.31s", interface);
	if (sysfs_read_link(root, directory, "master", master) >= 0)
		return "it is a port of a bridge or bond";
	return NULL;
}
