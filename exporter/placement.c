/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's answer has the nodes of plugins' devices; the documents of the processes that serve
 * claims have those of claims' devices. A device on several nodes may have a row for each of them,
 * and is near if one of them is.
 */
#include "exporter/placement.h"

#include "common/numa-nodes.h"

/* The nodes of the container's exclusive CPUs. */
static struct numa_nodes nodes_of(
	const struct scrape *scrape, const struct pod_container *container)
{
	struct numa_nodes nodes = { 0 };

	numa_nodes_add_of_cpus(&nodes, json_object_get(scrape->root, "cpus"), container->cpus);
	return nodes;
}

static bool is_away(const struct numa_nodes *of_cpus, const char *list)
{
	struct numa_nodes nodes = { 0 };

	numa_nodes_add(&nodes, list);
	return !numa_nodes_are_none(&nodes) && !numa_nodes_meet(&nodes, of_cpus);
}

/* The rows of a container's devices are from `at` to `end`. */
static bool has_device_away(
	const struct numa_nodes *of_cpus, const struct pod_device *at, const struct pod_device *end)
{
	for (const struct pod_device *device = at; device < end; device++) {
		bool away = is_away(of_cpus, device->nodes);

		for (const struct pod_device *row = at; row < end && away; row++)
			away = !streq(row->id, device->id) ||
				!streq(row->resource, device->resource) ||
				is_away(of_cpus, row->nodes);
		if (away)
			return true;
	}
	return false;
}

static void find_by_rows(const struct scrape *scrape, bool *misplaced)
{
	const struct pod_table *pods = scrape->pods;

	for (size_t i = 0, end; i < pods->n_devices; i = end) {
		const struct pod_container *container = pods->devices[i].container;
		struct numa_nodes of_cpus = nodes_of(scrape, container);

		for (end = i; end < pods->n_devices && pods->devices[end].container == container;)
			end++;
		if (!numa_nodes_are_none(&of_cpus))
			misplaced[container - pods->containers] |=
				has_device_away(&of_cpus, pods->devices + i, pods->devices + end);
	}
}

static void find_by_units(const struct scrape *scrape, bool *misplaced)
{
	for (size_t i = 0; i < scrape->n_assignments; i++) {
		const struct assignment *assignment = &scrape->assignments[i];
		const struct unit *unit = scrape_unit(assignment->resource, assignment->id);
		struct numa_nodes of_cpus = { 0 };

		if (!unit || !*unit->numa || !*assignment->container->cpus)
			continue;
		of_cpus = nodes_of(scrape, assignment->container);
		if (!numa_nodes_are_none(&of_cpus))
			misplaced[assignment->container - scrape->pods->containers] |=
				is_away(&of_cpus, unit->numa);
	}
}

int placement_misplaced(const struct scrape *scrape, uint64_t *ret)
{
	const size_t count = scrape->pods->n_containers;
	_cleanup_free_ bool *misplaced = calloc(count + 1, sizeof(*misplaced));
	uint64_t sum = 0;

	if (!misplaced)
		return -ENOMEM;
	find_by_rows(scrape, misplaced);
	find_by_units(scrape, misplaced);
	for (size_t i = 0; i < count; i++)
		sum += misplaced[i];
	*ret = sum;
	return 0;
}
