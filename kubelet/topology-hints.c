/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the device manager's hints: for a resource, every set of nodes with enough free devices.
 * A hint is preferred if no smaller set would be enough if all devices, even unhealthy ones, were
 * free.
 */
#include "kubelet/choice.h"
#include "kubelet/missing-device.h"
#include "kubelet/topology.h"

/* Number of sets of nodes, and thus the maximum number of hints. */
#define N_SETS (1U << TOPOLOGY_MAX_NODES)

/* The hints of all resources of a request. */
struct advice {
	struct topology_hint **hints;
	size_t *n_hints;
	size_t n;
};

static void advice_done(struct advice *advice)
{
	for (size_t i = 0; i < advice->n; i++)
		free(advice->hints[i]);
	free(advice->hints);
	free(advice->n_hints);
}
#define _cleanup_advice_ _cleanup_(advice_done)

/* The devices that can satisfy a request. */
struct supply {
	const struct id_set *recorded; /* exactly these, if any; else the free devices and: */
	const struct id_set *reusable;
};

static bool is_recorded(const struct supply *supply)
{
	return supply->recorded && supply->recorded->count > 0;
}

/* Devices by the machine's nodes that they are on; those without any node are not counted. */
struct counts {
	size_t all, available, reusable;
};

static uint64_t machine_nodes(const struct model *model)
{
	return (1ULL << model->topology.n_nodes) - 1;
}

static uint64_t nodes_of(const struct listed_device *device, uint64_t machine)
{
	uint64_t nodes = 0;

	for (size_t i = 0; i < device->n_numa; i++)
		if (device->numa[i] >= 0 && device->numa[i] < TOPOLOGY_MAX_NODES)
			nodes |= 1ULL << device->numa[i];
	return nodes & machine;
}

static bool is_available(const struct resource *resource, const struct supply *supply,
	const struct listed_device *device)
{
	if (is_recorded(supply))
		return id_set_contains(supply->recorded, device->id);
	return device->healthy && !id_set_contains(&resource->allocated, device->id);
}

/* Returns all nodes that have devices. */
static uint64_t count_devices(const struct resource *resource, const struct supply *supply,
	uint64_t machine, struct counts counts[static N_SETS])
{
	uint64_t nodes = 0;

	for (size_t i = 0; i < resource->devices->count; i++) {
		const struct listed_device *device = &resource->devices->devices[i];
		uint64_t own = nodes_of(device, machine);

		if (device->n_numa == 0)
			continue;
		nodes |= own;
		counts[own].all++;
		counts[own].available += is_available(resource, supply, device);
		counts[own].reusable += !is_recorded(supply) && supply->reusable &&
			id_set_contains(supply->reusable, device->id);
	}
	return nodes;
}

/* Whether the set has enough free devices and all devices that must be used again. `least` becomes
 * the size of the set if that is smaller and all its devices would be enough. */
static bool is_enough(
	const struct counts counts[static N_SETS], uint64_t set, uint64_t request, size_t *least)
{
	struct counts inside = {};
	bool reusable_elsewhere = false;

	for (uint64_t own = 0; own < N_SETS; own++) {
		if ((own & set) == 0) {
			reusable_elsewhere |= counts[own].reusable > 0;
			continue;
		}
		inside.all += counts[own].all;
		inside.available += counts[own].available;
		inside.reusable += counts[own].reusable;
	}
	if (inside.all >= request)
		*least = MIN_OF(*least, (size_t)__builtin_popcountll(set));
	return !reusable_elsewhere && inside.available + inside.reusable >= request;
}

/* Returns how many. */
static ssize_t add_hints(const struct model *model, const struct resource *resource,
	const struct supply *supply, uint64_t request, struct topology_hint *hints,
	struct error *error)
{
	struct counts counts[N_SETS] = {};
	uint64_t nodes = count_devices(resource, supply, machine_nodes(model), counts);
	ssize_t n = 0;
	size_t least = TOPOLOGY_MAX_NODES;
	int r;

	if (model->version->hints_for_all_nodes)
		nodes = machine_nodes(model);
	r = nodes == 0 ? 0
		       : missing_device_check(model, resource,
				 is_recorded(supply) ? supply->recorded : supply->reusable,
				 "generateDeviceTopologyHints", error);
	if (r < 0)
		return r;
	for (uint64_t set = 1; set <= nodes; set++)
		if ((set & ~nodes) == 0 && is_enough(counts, set, request, &least))
			hints[n++] = (struct topology_hint){ .aligned = true, .nodes = set };
	for (ssize_t i = 0; i < n; i++)
		hints[i].preferred = (size_t)__builtin_popcountll(hints[i].nodes) == least;
	return n;
}

static size_t count_available(const struct resource *resource, const struct supply *supply)
{
	const struct id_set *reusable = supply->reusable;
	size_t n = reusable ? reusable->count : 0;

	for (size_t i = 0; i < resource->devices->count; i++) {
		const struct listed_device *device = &resource->devices->devices[i];

		n += is_available(resource, supply, device) &&
			!(reusable && id_set_contains(reusable, device->id));
	}
	return n;
}

static bool can_suffice(
	const struct resource *resource, const struct supply *supply, uint64_t request)
{
	if (is_recorded(supply))
		return supply->recorded->count == request;
	return count_available(resource, supply) >= request;
}

/* Returns how many hints. */
static ssize_t advise(const struct model *model, const struct resource *resource,
	const struct supply *supply, uint64_t request, struct topology_hint *hints,
	struct error *error)
{
	ssize_t n = 0;

	if (!resource->devices || !device_table_has_numa(resource->devices)) {
		hints[0] = (struct topology_hint){ .preferred = true };
		return 1;
	}
	if (can_suffice(resource, supply, request))
		n = add_hints(model, resource, supply, request, hints, error);
	/* No set of nodes is enough: any node is accepted, and none is preferred. */
	if (n == 0)
		hints[n++] = (struct topology_hint){};
	return n;
}

static int add_advice(const struct model *model, const char *name, const struct supply *supply,
	uint64_t request, struct advice *advice, struct error *error)
{
	const struct resource *resource = model_find_resource(model, name);
	struct topology_hint *hints;
	ssize_t n;
	int r;

	if (!resource || !resource_is_device_plugin(resource))
		return 0;
	r = array_reserve((void **)&advice->n_hints, advice->n, sizeof(*advice->n_hints));
	if (r >= 0)
		r = array_reserve((void **)&advice->hints, advice->n, sizeof(*advice->hints));
	if (r < 0)
		return r;
	hints = calloc(N_SETS, sizeof(*hints));
	if (!hints)
		return -ENOMEM;
	advice->hints[advice->n] = hints;
	advice->n_hints[advice->n++] = 0;
	n = advise(model, resource, supply, request, hints, error);
	if (n < 0)
		return (int)n;
	advice->n_hints[advice->n - 1] = (size_t)n;
	return 0;
}

/* Adds the devices that the container already has, if any. */
static int add_recorded(const struct model *model, const struct pod *pod,
	const struct pod_container *container, const char *resource, struct id_set *recorded)
{
	const struct allocation *allocation =
		model_find_allocation(model, pod->uid, container->name, resource);
	int r = 0;

	for (size_t i = 0; allocation && i < allocation->n_devices && r >= 0; i++)
		r = id_set_insert(recorded, allocation->devices[i].id);
	return r;
}

static int ask_for_container(const struct model *model, const struct pod *pod, size_t container,
	struct advice *advice, struct error *error)
{
	const struct pod_container *asked = &pod->containers[container];
	int r = 0;

	for (size_t i = 0; i < asked->n_limits && r >= 0; i++) {
		const struct pod_limit *limit = &asked->limits[i];
		_cleanup_id_set_ struct id_set reusable = {}, recorded = {};
		const struct supply supply = { .recorded = &recorded, .reusable = &reusable };

		r = model_reusable_devices(model, pod, container, limit->resource, &reusable);
		if (r >= 0)
			r = add_recorded(model, pod, asked, limit->resource, &recorded);
		if (r >= 0)
			r = add_advice(
				model, limit->resource, &supply, limit->count, advice, error);
	}
	return r;
}

/* The number of devices that the pod needs at one time: init containers run one after the other,
 * together with the sidecars that were started before them. */
static uint64_t pod_request(const struct pod *pod, const char *resource)
{
	uint64_t together = 0, sidecars = 0, most = 0;

	for (size_t i = 0; i < pod->n_containers; i++) {
		const struct pod_container *container = &pod->containers[i];
		uint64_t request = 0;

		for (size_t k = 0; k < container->n_limits; k++)
			if (streq(container->limits[k].resource, resource))
				request = container->limits[k].count;
		if (container->kind == CONTAINER_INIT) {
			most = MAX_OF(most, sidecars + request);
			continue;
		}
		together += request;
		if (container->kind == CONTAINER_SIDECAR)
			sidecars += request;
	}
	return MAX_OF(most, together);
}

static int ask_for_resource(const struct model *model, const struct pod *pod, const char *name,
	struct advice *advice, struct error *error)
{
	_cleanup_id_set_ struct id_set recorded = {};
	const struct supply supply = { .recorded = &recorded };
	int r = 0;

	for (size_t i = 0; i < pod->n_containers && r >= 0; i++)
		r = add_recorded(model, pod, &pod->containers[i], name, &recorded);
	if (r < 0)
		return r;
	return add_advice(model, name, &supply, pod_request(pod, name), advice, error);
}

static int ask_for_pod(const struct model *model, const struct pod *pod, struct advice *advice,
	struct error *error)
{
	_cleanup_id_set_ struct id_set asked = {};
	int r = 0;

	for (size_t i = 0; i < pod->n_containers && r >= 0; i++)
		for (size_t k = 0; k < pod->containers[i].n_limits && r >= 0; k++) {
			const char *name = pod->containers[i].limits[k].resource;

			r = id_set_insert(&asked, name);
			if (r > 0)
				r = ask_for_resource(model, pod, name, advice, error);
		}
	return r;
}

int topology_admit(
	const struct model *model, struct pod *pod, size_t container, struct error *error)
{
	_cleanup_advice_ struct advice advice = {};
	bool whole_pod = model->topology.scope == TOPOLOGY_SCOPE_POD, admitted;
	struct topology_hint hint;
	int r;

	if (model->topology.policy == TOPOLOGY_NONE || (whole_pod && container > 0))
		return 1;
	r = whole_pod ? ask_for_pod(model, pod, &advice, error)
		      : ask_for_container(model, pod, container, &advice, error);
	if (r < 0)
		return r == -EFAULT ? r : error_set(error, r, "out of memory");
	admitted = topology_merge(&model->topology, advice.hints, advice.n_hints, advice.n, &hint);
	for (size_t i = whole_pod ? 0 : container; i < pod->n_containers; i++) {
		pod->containers[i].topology = hint;
		if (!whole_pod)
			break;
	}
	return admitted;
}
