/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which NUMA nodes are near another one. A node without CPUs belongs to no socket, so none
 * is near it. A distance stands at the place of its node among the nodes that are online.
 */
#include "drivers/host/numa-near.h"

#include "common/numa-nodes.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"

#define NODES_DIRECTORY "/sys/devices/system/node"
#define CPUS_DIRECTORY  "/sys/devices/system/cpu"

struct numa_host {
	size_t count;
	struct {
		int number;
		int64_t socket;  /* -1: not known */
	} nodes[NUMA_NODES_MAX]; /* those that are online, ascending */
};

void numa_near_done(struct numa_near *near)
{
	free(near->host);
	near->host = NULL;
}

/* The socket of the first CPU of a node, -1 if there is none. Returns 0 or a shortage. */
static int read_socket(const char *root, int node, int64_t *ret)
{
	char directory[sizeof(CPUS_DIRECTORY) + 32], cpus[SYSFS_VALUE_MAX + 1];
	unsigned long cpu;
	char *end;
	int r;

	*ret = -1;
	(void)snprintf(directory, sizeof(directory), NODES_DIRECTORY "/node%d", node);
	r = sysfs_read(root, directory, "cpulist", cpus);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	cpu = strtoul(cpus, &end, 10);
	if (end == cpus || cpu > INT_MAX)
		return 0;
	(void)snprintf(directory, sizeof(directory), CPUS_DIRECTORY "/cpu%lu/topology", cpu);
	r = sysfs_read_number(root, directory, "physical_package_id", ret);
	return r < 0 && sysroot_is_shortage(r) ? r : 0;
}

/* Returns 0, or a shortage. Without these files, there are no nodes. */
static int read_host(struct numa_near *near)
{
	struct numa_host *host = near->host = calloc(1, sizeof(*host));
	char online[SYSFS_VALUE_MAX + 1];
	struct numa_nodes nodes = { 0 };
	int r;

	if (!host)
		return -ENOMEM;
	r = sysfs_read(near->root, NODES_DIRECTORY, "online", online);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	numa_nodes_add(&nodes, online);
	r = 0;
	for (int node = 0; node < (int)NUMA_NODES_MAX && r >= 0; node++) {
		if (!numa_nodes_have(&nodes, (unsigned)node))
			continue;
		host->nodes[host->count].number = node;
		r = read_socket(near->root, node, &host->nodes[host->count++].socket);
	}
	return r;
}

void numa_near_add_node(char list[static ATTRIBUTE_VALUE_MAX + 1], size_t *count, int node)
{
	size_t length = strlen(list);
	struct numa_nodes known = { 0 };
	char text[16];

	numa_nodes_add(&known, list);
	(void)snprintf(text, sizeof(text), "%s%d", length > 0 ? "," : "", node);
	if (node < 0 || numa_nodes_have(&known, (unsigned)node) || *count == ATTRIBUTE_LIST_MAX ||
		length + strlen(text) > ATTRIBUTE_VALUE_MAX)
		return;
	memcpy(list + length, text, strlen(text) + 1);
	(*count)++;
}

/* The node's place in the host's list, or `count`. */
static size_t find_node(const struct numa_host *host, int node)
{
	size_t i = 0;

	while (i < host->count && host->nodes[i].number != node)
		i++;
	return i;
}

int numa_near_add(
	struct numa_near *near, int node, char list[static ATTRIBUTE_VALUE_MAX + 1], size_t *count)
{
	char directory[sizeof(NODES_DIRECTORY) + 32], distances[SYSFS_VALUE_MAX + 1];
	long minimum = LONG_MAX, distance[NUMA_NODES_MAX] = { 0 };
	const struct numa_host *host;
	char *at = distances;
	size_t self;
	int r = near->host ? 0 : read_host(near);

	if (r < 0)
		return r;
	host = near->host;
	self = find_node(host, node);
	if (self == host->count || host->nodes[self].socket < 0)
		return 0;
	(void)snprintf(directory, sizeof(directory), NODES_DIRECTORY "/node%d", node);
	r = sysfs_read(near->root, directory, "distance", distances);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (size_t i = 0; i < host->count; i++) {
		distance[i] = strtol(at, &at, 10);
		if (i != self && distance[i] > 0 &&
			host->nodes[i].socket == host->nodes[self].socket)
			minimum = MIN_OF(minimum, distance[i]);
	}
	for (size_t i = 0; i < host->count; i++)
		if (i != self && distance[i] == minimum &&
			host->nodes[i].socket == host->nodes[self].socket)
			numa_near_add_node(list, count, host->nodes[i].number);
	return 0;
}
