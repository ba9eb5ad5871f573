/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "net" finds network hardware that a container gets as a whole. CNI moves the interface of
 * a function, or the container drives the function itself. In both cases the interface leaves the
 * host's network namespace, but the device still exists.
 */
#include "drivers/net/net.h"

#include <linux/if_arp.h>

#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"

#include "drivers/host/glob.h"
#include "drivers/host/net-uplink.h"
#include "drivers/host/selector.h"
#include "drivers/host/sysroot.h"
#include "drivers/host/udev-database.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"

#define INTERFACES "/sys/class/net"

static const char *const net_types[] = { [NET_FUNCTION] = "function",
	[NET_SUBFUNCTION] = "subfunction",
	[NET_INTERFACE] = "interface",
	NULL };

static const struct option net_options[] = {
	{
		.key = "type",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct net_match, type),
		.choices = net_types,
		.help = "Kind of device: a PCI function of class 02, a sub-function of one on "
			"the auxiliary bus, or an interface of any kind. The id is the PCI "
			"address, the name on that bus, or the interface's name. A device "
			"that is assigned to a container keeps its state while the host does "
			"not see its interface, until the interface is back or the hardware "
			"is removed. While no pod uses it, it is unhealthy if its interface "
			"is in another network namespace. An interface is found when udev "
			"has named it. Interfaces with the host's default route, and ports "
			"of bridges and bonds, are left out. If that route has several next "
			"hops and devplugd runs in a container, exclude all but the first.",
	},
	FUNCTION_OPTIONS,
	{
		.key = "rdma",
		.type = OPTION_BOOL,
		.offset = offsetof(struct net_match, rdma),
		.help = "Whether only devices with an RDMA device match. Containers also get its nodes.",
	},
	{
		.key = "vhost_net",
		.type = OPTION_BOOL,
		.offset = offsetof(struct net_match, vhost_net),
		.help = "Whether containers also get /dev/vhost-net and /dev/net/tun.",
	},
	{
		.key = "default_route",
		.type = OPTION_BOOL,
		.offset = offsetof(struct net_match, default_route),
		.help = "Whether a device also matches if the host's default route leads "
			"through it: the host is cut off from that network while a pod uses "
			"it. Needs `interface` or `address` without patterns.",
	},
	PERMISSIONS_OPTION(struct net_match),
};

static const struct option_table net_match_table = {
	.name = "match entry",
	.size = sizeof(struct net_match),
	.options = net_options,
	.count = ARRAY_SIZE(net_options),
};

/* --- checks --- */

/* Keys for properties that only a function has. */
static const char *function_key(const struct net_match *match)
{
	const struct function_match *function = &match->function;

	if (function->vendor.count > 0)
		return "vendor";
	if (function->device.count > 0)
		return "device";
	if (function->address.count > 0)
		return "address";
	if (function->pf.count > 0)
		return "pf";
	if (function->functions)
		return "functions";
	if (match->rdma)
		return "rdma";
	return match->vhost_net ? "vhost_net" : NULL;
}

/* An address of the other bus would never match. */
static void check_addresses(const struct net_match *match, struct report *report)
{
	const struct strings *addresses = &match->function.address;
	bool auxiliary = match->type == NET_SUBFUNCTION;

	for (size_t i = 0; i < addresses->count; i++) {
		const char *address = addresses->items[i];

		if (auxiliary ? strchr(address, ':') != NULL
			      : !strchr(address, ':') && !form_is_pattern(address))
			(void)report_add(report, &match->function.origin, "address", "\"%s\" is %s",
				address,
				auxiliary
					? "a PCI address, but a sub-function has a name such as \"mlx5_core.sf.4\": to name its PCI function, use \"pf\""
					: "the name of a sub-function: set type = \"subfunction\"");
	}
}

static bool are_plain(const struct strings *names)
{
	for (size_t i = 0; i < names->count; i++)
		if (form_is_pattern(names->items[i]))
			return false;
	return names->count > 0;
}

static void net_check(const struct declaration *declaration, size_t index, struct report *report)
{
	const struct net_match *match = groups_get(&declaration->match, index);
	const struct function_match *function = &match->function;
	const char *key = match->type == NET_INTERFACE ? function_key(match) : NULL;

	if (key)
		(void)report_add(report, &function->origin, key,
			"is not for type = \"interface\": use type = \"function\", whose devices "
			"are PCI functions");
	if (match->type == NET_INTERFACE && function->interface.count == 0 &&
		function->kind.count == 0)
		(void)report_add(report, &function->origin, "interface",
			"is missing: type = \"interface\" needs \"interface\" or \"kind\"; otherwise every interface of the host would be a device");
	if (match->default_route && !are_plain(&function->interface) &&
		!are_plain(&function->address))
		(void)report_add(report, &function->origin, "default_route",
			"needs \"interface\" or \"address\" without patterns, so that no other "
			"interface is taken from the host");
	if (!key) {
		function_match_check(function, report);
		check_addresses(match, report);
	}
	if (match->type != NET_FUNCTION && function->role != ROLE_ANY)
		(void)report_add(report, &function->origin, "role",
			"is for type = \"function\" only: nothing else is a physical or virtual "
			"function");
}

/* --- the host --- */

struct net_scan {
	const struct declaration *declaration;
	struct scan *scan;
	struct strings uplinks;
	struct infiniband_table infiniband;
};

static void net_scan_done(struct net_scan *net)
{
	strings_done(&net->uplinks);
	infiniband_table_done(&net->infiniband);
}

/* Whether the host does not need the interface itself, or the entry names it nevertheless. */
static bool is_spared(
	struct net_scan *net, const struct net_match *match, const char *id, const char *interface)
{
	const char *reason = net_uplink_reason(
		scan_root(net->scan), &net->uplinks, interface, match->default_route);

	if (!reason)
		return true;
	scan_note(net->scan, "\"%s\" is left out, because the host needs interface %s: %s", id,
		interface, reason);
	scan_leave_out(net->scan, id, "the host needs interface %s: %s", interface, reason);
	return false;
}

/* Whether the host needs none of the interfaces. */
static bool are_spared(struct net_scan *net, const struct net_match *match, const char *id,
	const struct strings *interfaces)
{
	for (size_t i = 0; i < interfaces->count; i++)
		if (!is_spared(net, match, id, interfaces->items[i]))
			return false;
	return true;
}

static int test_rdma(const void *entry, void *candidate)
{
	return !((const struct net_match *)entry)->rdma ||
		((struct net_function *)candidate)->infiniband.count > 0;
}

static const struct condition function_conditions[] = {
	FUNCTION_CONDITIONS,
	{ .key = "kind", .test = function_test_kind, .found = function_found_kind },
	{ .key = "rdma", .test = test_rdma, .phrase = "has no RDMA device on the host" },
};

/* An interface of the host that entries are tested on. */
struct interface {
	struct scan *scan;
	const char *root, *name, *directory, *kind;
	char driver[NAME_MAX + 1];
};

static int read_driver(const struct condition *condition, void *candidate)
{
	struct interface *interface = candidate;

	if (sysfs_read_link(
		    interface->root, interface->directory, "device/driver", interface->driver) < 0)
		interface->driver[0] = '\0';
	return 1;
}

/* A new interface has a name of the kernel's until udev has renamed it. */
static int test_named(const void *entry, void *candidate)
{
	const struct interface *interface = candidate;
	const struct device *listed;
	char id[DEVICE_ID_MAX + 1];
	int r;

	device_id_make(interface->name, id);
	if (scan_lists(interface->scan, id, &listed))
		return CONDITION_HOLDS;
	r = udev_is_pending(interface->root, interface->directory);
	if (r <= 0)
		return r < 0 ? r : CONDITION_HOLDS;
	/* Where udev's events do not arrive, this reports the end of the wait. */
	r = *interface->root ? scan_watch(interface->scan, UDEV_DATABASE) : 0;
	return r < 0 ? r : CONDITION_FAILS;
}

/* Only entries of `match` wait: an entry of `exclude` knows what it leaves out. */
static bool is_waiting_by_default(const void *entry)
{
	(void)entry;
	return true;
}

static const struct condition interface_conditions[] = {
	{ CONDITION_OF_STRING(
		"interface", struct function_match, interface, struct interface, name) },
	{ CONDITION_OF_STRING("kind", struct function_match, kind, struct interface, kind) },
	{ CONDITION_OF_TEXT("driver", struct function_match, driver, struct interface, driver),
		.read = read_driver },
	{ .key = "interface",
		.test = test_named,
		.is_default = is_waiting_by_default,
		.phrase = "waits for udev to name it" },
};

static bool is_for_function(const void *entry)
{
	return ((const struct net_match *)entry)->type == NET_FUNCTION;
}

static bool is_for_subfunction(const void *entry)
{
	return ((const struct net_match *)entry)->type == NET_SUBFUNCTION;
}

static bool is_for_interface(const void *entry)
{
	return ((const struct net_match *)entry)->type == NET_INTERFACE;
}

static const struct conditions net_conditions[] = {
	[NET_FUNCTION] = CONDITIONS_FOR("network function", function_conditions, is_for_function),
	[NET_SUBFUNCTION] = CONDITIONS_FOR("sub-function", function_conditions, is_for_subfunction),
	[NET_INTERFACE] = CONDITIONS_FOR("interface", interface_conditions, is_for_interface),
};

/* The first entry that selects the candidate, if `exclude` leaves it in. Returns 1 with the entry,
 * 0 or negative errno. */
static int find_match(const struct net_scan *net, enum net_type type, void *candidate,
	const char *name, const struct net_match **ret_match)
{
	const struct conditions *conditions = &net_conditions[type];
	int r;

	for (size_t i = 0; i < net->declaration->match.count; i++) {
		const struct net_match *match = groups_get(&net->declaration->match, i);

		if (!conditions->is_for(match))
			continue;
		r = conditions_hold(
			conditions, match, candidate, name, scan_tally(net->scan, i, conditions));
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		r = scan_excludes(net->scan, net->declaration, conditions, candidate, name, name);
		*ret_match = match;
		return r < 0 ? r : r == 0;
	}
	return 0;
}

static int list_function(struct net_scan *net, enum net_type type, const char *bus,
	const char *name, struct function_reader *reader)
{
	_cleanup_net_function_ struct net_function function = { 0 };
	const struct net_match *match;
	int r;

	r = net_function_read(reader, bus, name, &function);
	if (r == -EBUSY) {
		scan_note(net->scan, "%s is left out: " FUNCTION_LOCKED, name);
		scan_leave_out(net->scan, name, FUNCTION_LOCKED);
	}
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	r = find_match(net, type, &function, name, &match);
	if (r <= 0)
		return r;
	if (!are_spared(net, match, name, &function.interfaces) ||
		!are_spared(net, match, name, &function.representors))
		return 0;
	return net_add_function(match, &function, &net->infiniband, net->scan);
}

static int list_functions(struct net_scan *net, enum net_type type, const char *bus)
{
	_cleanup_function_reader_ struct function_reader reader = { .root = scan_root(net->scan) };
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	r = scan_watch(net->scan, bus);
	if (r < 0)
		return r;
	r = sysfs_list(reader.root, bus, &names);
	if (r < 0)
		return sysroot_is_absent(r) ? 0 : r;
	for (size_t i = 0; i < names.count && r >= 0; i++)
		r = list_function(net, type, bus, names.items[i], &reader);
	return r;
}

/* Not the loopback, which no container can get, and not a file beside the interfaces. */
static bool interface_is_offered(const char *root, const char *directory)
{
	int64_t type;

	return sysfs_read_number(root, directory, "type", &type) >= 0 && type != ARPHRD_LOOPBACK;
}

static int list_interface(struct net_scan *net, const char *name)
{
	struct interface interface = {
		.scan = net->scan, .root = scan_root(net->scan), .name = name
	};
	_cleanup_free_ char *directory = NULL;
	const struct net_match *match;
	int r;

	if (format_text(&directory, INTERFACES "/%s", name) < 0)
		return -ENOMEM;
	if (!interface_is_offered(interface.root, directory))
		return 0;
	interface.directory = directory;
	interface.kind = interface_kind(interface.root, directory);
	r = find_match(net, NET_INTERFACE, &interface, name, &match);
	if (r <= 0 || !is_spared(net, match, name, name))
		return MIN_OF(r, 0);
	return net_add_interface(name, directory, net->scan);
}

static int list_interfaces(struct net_scan *net)
{
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	r = sysfs_list(scan_root(net->scan), INTERFACES, &names);
	if (r < 0)
		return sysroot_is_absent(r) ? 0 : r;
	for (size_t i = 0; i < names.count && r >= 0; i++)
		r = list_interface(net, names.items[i]);
	return r;
}

static bool wants(const struct net_scan *net, enum net_type type)
{
	bool wanted = false;

	for (size_t i = 0; i < net->declaration->match.count; i++) {
		const struct net_match *match = groups_get(&net->declaration->match, i);

		if (match->type != (int)type)
			continue;
		(void)scan_tally(net->scan, i, &net_conditions[type]);
		wanted = true;
	}
	return wanted;
}

static int list_all(struct net_scan *net)
{
	int r;

	r = scan_events(net->scan, "net");
	if (r >= 0)
		r = scan_events(net->scan, "pci");
	if (r >= 0)
		r = scan_events(net->scan, "auxiliary");
	if (r >= 0)
		r = scan_network(net->scan);
	if (r >= 0)
		r = scan_watch(net->scan, INTERFACES);
	if (r >= 0)
		r = infiniband_table_read(net->scan, &net->infiniband);
	if (r >= 0)
		r = net_uplinks_read(net->scan, &net->uplinks);
	if (r >= 0 && wants(net, NET_FUNCTION))
		r = list_functions(net, NET_FUNCTION, FUNCTION_PCI);
	if (r >= 0 && wants(net, NET_SUBFUNCTION))
		r = list_functions(net, NET_SUBFUNCTION, FUNCTION_AUXILIARY);
	if (r >= 0 && wants(net, NET_INTERFACE))
		r = list_interfaces(net);
	return r;
}

static int net_list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	_cleanup_(net_scan_done) struct net_scan net = { .declaration = declaration, .scan = scan };
	int r = list_all(&net);

	return r < 0 ? error_set(error, r, "cannot list network devices in /sys: %s", strerror(-r))
		     : 0;
}

static const char *net_without_cdi(const struct declaration *declaration)
{
	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct net_match *match = groups_get(&declaration->match, i);

		if (match->rdma || match->vhost_net)
			return NULL;
	}
	return declaration->container.nodes.count > 0 ? NULL : WITHOUT_NODES;
}

static const struct driver_variable net_variables[] = {
	FUNCTION_VARIABLES,
	{ 0 },
};

const struct driver net_driver = {
	.name = "net",
	.summary = "network functions, sub-functions and interfaces that CNI moves into pods",
	.match = &net_match_table,
	.noun = "network function",
	.conditions = (const struct conditions *const[]){ &net_conditions[NET_FUNCTION],
		&net_conditions[NET_SUBFUNCTION], &net_conditions[NET_INTERFACE], NULL },
	.variables = net_variables,
	.check_entry = net_check,
	.without_cdi = net_without_cdi,
	.list = net_list,
};
