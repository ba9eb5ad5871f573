/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "rdma" finds RDMA devices without their interfaces: a container gets the nodes of one
 * adapter, or of all adapters together, and uses its usual network. An adapter is identified by its
 * function, not by its name, which depends on the order of discovery. RDMA in software (rxe, siw)
 * has no function: it has the name that it was made with, and the interface that it uses.
 */
#include "drivers/host/infiniband.h"
#include "drivers/host/selector.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"
#include "drivers/net/net-function.h"

#define CLASS      "/sys/class/infiniband"
#define INTERFACES "/sys/class/net"

struct rdma_match {
	struct function_match function; /* first, so that origin is; `kind` is that of the ports */
	struct strings name;
	bool combine;
	char *permissions;
};

static const struct option rdma_options[] = {
	FUNCTION_OPTIONS,
	{
		.key = "name",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct rdma_match, name),
		.help = "Name of the RDMA device, such as \"mlx5_0\"; a shell pattern. RDMA in software (rxe, siw) has its name as its id.",
	},
	{
		.key = "combine",
		.type = OPTION_BOOL,
		.offset = offsetof(struct rdma_match, combine),
		.help = "Whether all matches form one device, with the name of the resource and the nodes of all matches. share.replicas sets how many containers may use it. The variables have no values for it.",
	},
	PERMISSIONS_OPTION(struct rdma_match),
};

static const struct option_table rdma_match_table = {
	.name = "match entry",
	.size = sizeof(struct rdma_match),
	.options = rdma_options,
	.count = ARRAY_SIZE(rdma_options),
};

static void rdma_check(const struct declaration *declaration, size_t index, struct report *report)
{
	const struct rdma_match *match = groups_get(&declaration->match, index), *earlier;

	function_match_check(&match->function, report);
	for (size_t i = 0; match->combine && i < index; i++) {
		earlier = groups_get(&declaration->match, i);
		if (!earlier->combine)
			continue;
		(void)report_add(report, &match->function.origin, "combine",
			"can be set in one entry only, because each such entry forms the device \"%s\": use two resources",
			declaration_type(declaration));
		return;
	}
}

/* --- the host --- */

struct rdma_scan {
	const struct declaration *declaration;
	struct scan *scan;
	const char *root;
	struct infiniband_table table;
	struct function_reader reader;
	const struct rdma_match *combined_match;
	struct strings combined; /* names of the RDMA devices */
};

static void rdma_scan_done(struct rdma_scan *rdma)
{
	infiniband_table_done(&rdma->table);
	function_reader_done(&rdma->reader);
	strings_done(&rdma->combined);
}

/* An RDMA device that entries are tested on. */
struct candidate {
	struct net_function function;
	const char *name;
};

/* The value of `kind` for each link layer that has one: EFA's, for example, is "Unspecified". */
static const struct {
	const char *layer, *kind;
} kinds[] = {
	{ "InfiniBand", "infiniband" },
	{ "Ethernet", "ether" },
};

/* Reads the link layer of a port, and finds its kind; NULL: it has none. */
static const char *read_kind(const struct candidate *candidate, const char *port,
	char ret_layer[static SYSFS_VALUE_MAX + 1])
{
	char directory[sizeof(CLASS) + 2 * NAME_MAX + 16];

	(void)snprintf(
		directory, sizeof(directory), CLASS "/%.255s/ports/%.255s", candidate->name, port);
	if (sysfs_read(candidate->function.root, directory, "link_layer", ret_layer) < 0)
		*ret_layer = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (streq(ret_layer, kinds[i].layer))
			return kinds[i].kind;
	return NULL;
}

static void list_ports(const struct candidate *candidate, struct strings *ports)
{
	char directory[sizeof(CLASS) + NAME_MAX + 16];

	(void)snprintf(directory, sizeof(directory), CLASS "/%.255s/ports", candidate->name);
	(void)sysfs_list(candidate->function.root, directory, ports);
}

/* Whether one of its ports has one of the kinds. Its interface may be in another namespace. */
static int test_kind(const void *entry, void *userdata)
{
	const struct function_match *match = entry;
	_cleanup_strings_ struct strings ports = { 0 };
	char layer[SYSFS_VALUE_MAX + 1];

	if (match->kind.count == 0)
		return 1;
	list_ports(userdata, &ports);
	for (size_t i = 0; i < ports.count; i++) {
		const char *kind = read_kind(userdata, ports.items[i], layer);

		if (kind && patterns_match(&match->kind, kind))
			return 1;
	}
	return 0;
}

static void found_kind(
	const void *entry, const void *userdata, char ret_found[static CONDITION_FOUND_MAX])
{
	_cleanup_strings_ struct strings ports = { 0 };
	char layer[SYSFS_VALUE_MAX + 1] = "";
	const char *kind;

	list_ports(userdata, &ports);
	kind = ports.count > 0 ? read_kind(userdata, ports.items[0], layer) : NULL;
	if (kind)
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has \"%s\"", kind);
	else if (*layer)
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has link layer \"%.64s\"", layer);
	else
		(void)strcpy(ret_found, "has none");
}

static const struct condition rdma_table[] = {
	{ CONDITION_OF_STRING("name", struct rdma_match, name, struct candidate, name) },
	{ .key = "kind", .test = test_kind, .found = found_kind },
	FUNCTION_CONDITIONS,
};

static const struct conditions rdma_conditions = CONDITIONS("RDMA device", rdma_table);

/* The first entry that selects the candidate, if `exclude` leaves it in. Returns 1 with the entry,
 * 0 or negative errno. */
static int find_match(const struct rdma_scan *rdma, struct candidate *candidate,
	const struct rdma_match **ret_match)
{
	int r;

	for (size_t i = 0; i < rdma->declaration->match.count; i++) {
		const struct rdma_match *match = groups_get(&rdma->declaration->match, i);

		r = conditions_hold(&rdma_conditions, match, candidate, candidate->name,
			scan_tally(rdma->scan, i, &rdma_conditions));
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		r = scan_excludes(rdma->scan, rdma->declaration, &rdma_conditions, candidate,
			candidate->name, candidate->name);
		*ret_match = match;
		return r < 0 ? r : r == 0;
	}
	return 0;
}

static bool is_software(const struct net_function *function)
{
	return streq(function->name, function->infiniband.items[0]);
}

/* Adds the NUMA node of the interface that it uses. */
static int add_numa(
	const struct rdma_scan *rdma, const struct net_function *function, struct device *device)
{
	char directory[sizeof(INTERFACES) + NAME_MAX + 16];

	if (function->interfaces.count == 0)
		return 0;
	(void)snprintf(
		directory, sizeof(directory), INTERFACES "/%.255s", function->interfaces.items[0]);
	return sysfs_add_numa(rdma->root, directory, device);
}

static int add_device(
	struct rdma_scan *rdma, const struct rdma_match *match, const struct net_function *function)
{
	_cleanup_infiniband_nodes_ struct infiniband_nodes nodes = { 0 };
	char id[DEVICE_ID_MAX + 1];
	struct device *device;
	int r;

	device_id_make(function->name, id);
	r = scan_add(rdma->scan, id, &device);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	r = net_function_describe(rdma->root, function, &match->function, device);
	if (r >= 0)
		r = infiniband_add_nodes(rdma->scan, &rdma->table, &function->infiniband,
			match->permissions, device, &nodes);
	if (r >= 0)
		r = is_software(function) ? add_numa(rdma, function, device)
					  : device_set_mobile(device, function->directory);
	/* If it is disappearing, the next scan does not find it. */
	return sysroot_is_shortage(r) ? r : 0;
}

static int combine(
	struct rdma_scan *rdma, const struct rdma_match *match, const struct net_function *function)
{
	rdma->combined_match = match;
	return strings_add_all(&rdma->combined, &function->infiniband);
}

static int add_combined(struct rdma_scan *rdma)
{
	_cleanup_infiniband_nodes_ struct infiniband_nodes nodes = { 0 };
	char id[DEVICE_ID_MAX + 1];
	struct device *device;
	int r;

	if (!rdma->combined_match)
		return 0;
	device_id_make(declaration_type(rdma->declaration), id);
	r = scan_add(rdma->scan, id, &device);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	r = infiniband_add_nodes(rdma->scan, &rdma->table, &rdma->combined,
		rdma->combined_match->permissions, device, &nodes);
	device_share_nodes(device, 0);
	return r;
}

static void candidate_done(struct candidate *candidate)
{
	net_function_done(&candidate->function);
}

/* Reads what has no function. Its only port's first address is that of the interface. */
static int read_software(
	const struct rdma_scan *rdma, const char *directory, struct net_function *function)
{
	const char *name = strrchr(directory, '/') + 1;
	char interface[SYSFS_VALUE_MAX + 1];
	int r;

	*function = (struct net_function){
		.root = rdma->root, .number = -1, .vendor = -1, .device = -1
	};
	r = sysfs_resolve(rdma->root, directory, &function->directory);
	if (r < 0)
		return r;
	if (!startswith(function->directory, "/sys/devices/virtual/"))
		return -ENODEV;
	function->name = strdup(name);
	r = function->name ? strings_add(&function->infiniband, name, strlen(name)) : -ENOMEM;
	if (r >= 0 &&
		sysfs_read(rdma->root, directory, "ports/1/gid_attrs/ndevs/0", interface) >= 0 &&
		*interface && !strchr(interface, '/'))
		r = strings_add(&function->interfaces, interface, strlen(interface));
	return r;
}

static int read_function(struct rdma_scan *rdma, const char *name, struct net_function *function)
{
	char directory[sizeof(CLASS) + NAME_MAX + 16], parent[NAME_MAX + 1];
	int r;

	(void)snprintf(directory, sizeof(directory), CLASS "/%.255s", name);
	r = sysfs_read_link(rdma->root, directory, "device", parent);
	if (r == -ENOENT)
		return read_software(rdma, directory, function);
	if (r < 0)
		return r;
	r = net_function_read(&rdma->reader,
		form_is_pci_address(parent) ? FUNCTION_PCI : FUNCTION_AUXILIARY, parent, function);
	if (r == -EBUSY) {
		scan_note(rdma->scan, "%s is left out: " FUNCTION_LOCKED, parent);
		scan_leave_out(rdma->scan, parent, FUNCTION_LOCKED);
	}
	return r;
}

static int list_one(struct rdma_scan *rdma, const char *name)
{
	_cleanup_(candidate_done) struct candidate candidate = { .name = name };
	struct net_function *function = &candidate.function;
	const struct rdma_match *match;
	int r;

	r = read_function(rdma, name, function);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	/* A function with several is taken as a whole, at the first. */
	if (function->infiniband.count == 0 || !streq(function->infiniband.items[0], name))
		return 0;
	r = find_match(rdma, &candidate, &match);
	if (r <= 0)
		return r;
	return match->combine ? combine(rdma, match, function) : add_device(rdma, match, function);
}

static int list_all(struct rdma_scan *rdma)
{
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	r = scan_watch(rdma->scan, CLASS);
	if (r >= 0)
		r = scan_events(rdma->scan, "net");
	if (r >= 0)
		r = infiniband_table_read(rdma->scan, &rdma->table);
	if (r >= 0)
		r = sysfs_list(rdma->root, CLASS, &names);
	if (sysroot_is_absent(r))
		return 0;
	for (size_t i = 0; i < names.count && r >= 0; i++)
		r = list_one(rdma, names.items[i]);
	return r < 0 ? r : add_combined(rdma);
}

static int rdma_list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	_cleanup_(rdma_scan_done) struct rdma_scan rdma = {
		.declaration = declaration,
		.scan = scan,
		.root = scan_root(scan),
		.reader = { .root = scan_root(scan) },
	};
	int r = list_all(&rdma);

	return r < 0 ? error_set(error, r, "cannot list RDMA devices in /sys: %s", strerror(-r))
		     : 0;
}

static const struct driver_variable rdma_variables[] = { FUNCTION_VARIABLES, { 0 } };

const struct driver rdma_driver = {
	.name = "rdma",
	.summary = "RDMA devices (InfiniBand, RoCE), as single devices or combined into one",
	.match = &rdma_match_table,
	.noun = "RDMA device",
	.conditions = (const struct conditions *const[]){ &rdma_conditions, NULL },
	.variables = rdma_variables,
	.check_entry = rdma_check,
	.list = rdma_list,
};
