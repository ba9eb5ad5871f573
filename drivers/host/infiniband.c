/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the nodes of an RDMA device. A container needs its uverbs node. The others are for some
 * programs only, and are added if they exist: umad and issm for subnet management, and the
 * connection manager's for devices that it can use, which are channel adapters and RNICs.
 */
#include "drivers/host/infiniband.h"

#include "common/text.h"
#include "drivers/host/node-state.h"
#include "drivers/host/sysroot.h"

#define CLASS          "/sys/class/infiniband"
#define NODE_DIRECTORY "/dev/infiniband"
#define CM_NODE        NODE_DIRECTORY "/rdma_cm"

const char *const infiniband_node_names[INFINIBAND_NODES] = {
	[INFINIBAND_CM] = "rdma_cm",
	[INFINIBAND_VERBS] = "uverbs",
	[INFINIBAND_UMAD] = "umad",
	[INFINIBAND_ISSM] = "issm",
	[INFINIBAND_UCM] = "ucm",
};

static const struct {
	const char *directory;
	unsigned nodes; /* which kinds are in it */
} classes[] = {
	{ "/sys/class/infiniband_verbs", 1U << INFINIBAND_VERBS },
	{ "/sys/class/infiniband_mad", 1U << INFINIBAND_UMAD | 1U << INFINIBAND_ISSM },
	{ "/sys/class/infiniband_cm", 1U << INFINIBAND_UCM },
};

static int watch(struct scan *scan)
{
	static const char *const subsystems[] = { "infiniband", "infiniband_verbs",
		"infiniband_mad" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(subsystems) && r >= 0; i++)
		r = scan_events(scan, subsystems[i]);
	for (size_t i = 0; i < ARRAY_SIZE(classes) && r >= 0; i++)
		r = scan_watch(scan, classes[i].directory);
	return r < 0 ? r : scan_watch(scan, NODE_DIRECTORY);
}

/* Which kind of node an entry of a class is, or INFINIBAND_NODES. */
static unsigned kind_of(unsigned nodes, const char *entry)
{
	for (unsigned i = 0; i < INFINIBAND_NODES; i++)
		if (nodes & 1U << i && text_is_number(startswith(entry, infiniband_node_names[i])))
			return i;
	return INFINIBAND_NODES;
}

static int read_entry(
	const char *root, const char *class, const char *entry, struct infiniband_table *table)
{
	_cleanup_free_ char *directory = NULL;
	char owner[SYSFS_VALUE_MAX + 1];
	int r;

	if (format_text(&directory, "%s/%s", class, entry) < 0)
		return -ENOMEM;
	if (sysfs_read(root, directory, "ibdev", owner) < 0)
		return 0;
	r = strings_add(&table->owners, owner, strlen(owner));
	return r < 0 ? r : strings_add(&table->nodes, entry, strlen(entry));
}

static int read_class(const char *root, size_t class, struct infiniband_table *table)
{
	_cleanup_strings_ struct strings entries = { 0 };
	int r;

	r = sysfs_list(root, classes[class].directory, &entries);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (size_t i = 0; i < entries.count && r >= 0; i++)
		if (kind_of(classes[class].nodes, entries.items[i]) < INFINIBAND_NODES)
			r = read_entry(root, classes[class].directory, entries.items[i], table);
	return r;
}

int infiniband_table_read(struct scan *scan, struct infiniband_table *ret)
{
	_cleanup_infiniband_table_ struct infiniband_table table = { 0 };
	enum node_state state;
	int r;

	r = watch(scan);
	for (size_t i = 0; i < ARRAY_SIZE(classes) && r >= 0; i++)
		r = read_class(scan_root(scan), i, &table);
	if (r >= 0)
		r = node_state_read(scan_root(scan), CM_NODE, NULL, &state);
	if (r < 0)
		return r;
	table.has_cm = node_state_is_usable(state, false);
	*ret = table;
	table = (struct infiniband_table){ 0 };
	return 0;
}

void infiniband_table_done(struct infiniband_table *table)
{
	strings_done(&table->nodes);
	strings_done(&table->owners);
}

/* --- of one device --- */

/* Whether the connection manager can use a device of that type. A type that is not known may be one
 * that it can use. */
enum cm_use { CM_UNUSED, CM_UNKNOWN, CM_USED };

/* node_type is "1: CA", "4: RNIC", "7: unspecified" and so on. */
static enum cm_use cm_use_of(const char *root, const char *name)
{
	char directory[sizeof(CLASS) + NAME_MAX + 1], type[SYSFS_VALUE_MAX + 1];
	const char *word;

	(void)snprintf(directory, sizeof(directory), CLASS "/%.255s", name);
	if (sysfs_read(root, directory, "node_type", type) < 0)
		return CM_UNKNOWN;
	word = strchr(type, ' ');
	return word && (streq(word, " CA") || streq(word, " RNIC")) ? CM_USED : CM_UNUSED;
}

static int add_node(
	const char *name, const char *permissions, struct device *device, char **ret_path)
{
	char *path;

	if (format_text(&path, "%s/%s", NODE_DIRECTORY, name) < 0)
		return -ENOMEM;
	free(*ret_path);
	*ret_path = path;
	return device_add_node(device, path, NULL, permissions);
}

/* Adds a node of the table, unless it is one that only some programs need and does not exist. */
static int add_own_node(struct scan *scan, const char *name, const char *permissions,
	struct device *device, struct infiniband_nodes *nodes)
{
	char path[sizeof(NODE_DIRECTORY) + NAME_MAX + 1];
	unsigned kind = kind_of(~0U, name);
	enum node_state state;
	int r;

	(void)snprintf(path, sizeof(path), NODE_DIRECTORY "/%.255s", name);
	r = node_state_read(scan_root(scan), path, NULL, &state);
	if (r < 0)
		return r;
	if (kind != INFINIBAND_VERBS && !node_state_is_usable(state, false))
		return 0;
	return add_node(name, permissions, device, &nodes->paths[kind]);
}

static int add_cm(struct scan *scan, const struct infiniband_table *table,
	const struct strings *names, const char *permissions, struct device *device,
	struct infiniband_nodes *nodes)
{
	enum cm_use use = CM_UNUSED;
	int r;

	for (size_t i = 0; i < names->count; i++) {
		enum cm_use one = cm_use_of(scan_root(scan), names->items[i]);

		use = MAX_OF(use, one);
	}
	if (use == CM_USED && !table->has_cm)
		scan_note(scan,
			CM_NODE
			" is missing, so containers get RDMA devices without the connection "
			"manager: load the module rdma_ucm if their programs use it");
	if (use == CM_UNUSED || !table->has_cm)
		return 0;
	r = add_node("rdma_cm", permissions, device, &nodes->paths[INFINIBAND_CM]);
	if (r >= 0)
		device_share_nodes(device, device->n_nodes - 1);
	return r;
}

int infiniband_add_nodes(struct scan *scan, const struct infiniband_table *table,
	const struct strings *names, const char *permissions, struct device *device,
	struct infiniband_nodes *nodes)
{
	int r = 0;

	for (size_t i = 0; i < table->nodes.count && r >= 0; i++)
		if (strings_contain(names, table->owners.items[i]))
			r = add_own_node(scan, table->nodes.items[i], permissions, device, nodes);
	if (r >= 0)
		r = add_cm(scan, table, names, permissions, device, nodes);
	if (r >= 0 && !nodes->paths[INFINIBAND_VERBS])
		r = device_set_lack(device,
			"has no uverbs node: load the module ib_uverbs and the RDMA driver of the "
			"card");
	return r;
}

void infiniband_nodes_done(struct infiniband_nodes *nodes)
{
	for (size_t i = 0; i < INFINIBAND_NODES; i++)
		free(nodes->paths[i]);
}
