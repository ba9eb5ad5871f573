/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the devices of driver "drm": each GPU that an entry of `match` selects, with its nodes, its
 * variables and its distance to the others.
 */
#include <inttypes.h>

#include "drivers/drm/drm.h"
#include "drivers/host/identity.h"
#include "drivers/host/selector.h"
#include "drivers/model/declaration.h"

static int test_compute(const void *entry, void *candidate)
{
	return !((const struct drm_match *)entry)->compute || ((struct gpu *)candidate)->kfd;
}

static int test_split(const void *entry, void *candidate)
{
	return ((const struct drm_match *)entry)->split || !((struct gpu *)candidate)->split;
}

static bool leaves_out_split(const void *entry)
{
	return !((const struct drm_match *)entry)->split;
}

/* Display adapters have no render node, and the drivers of some accelerators create nothing else.
 * In an entry that names no GPUs, the nodes select them. */
static int test_nodes(const void *entry, void *candidate)
{
	const struct drm_match *match = entry;
	const struct gpu *gpu = candidate;

	if (match->vendors.count + match->drivers.count + match->addresses.count +
				match->partitions.count >
			0 ||
		match->compute)
		return 1;
	return (match->nodes != DRM_NODES_RENDER || gpu->render) &&
		(match->nodes != DRM_NODES_CARD || gpu->card);
}

static void found_nodes(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has no %s node",
		((const struct drm_match *)entry)->nodes == DRM_NODES_RENDER ? "render" : "card");
}

static const struct condition conditions[] = {
	{ CONDITION_OF_INTEGERS("vendor", struct drm_match, vendors, struct gpu, vendor) },
	{ CONDITION_OF_INTEGERS("device", struct drm_match, models, struct gpu, model) },
	{ CONDITION_OF_TEXT("driver", struct drm_match, drivers, struct gpu, driver) },
	{ CONDITION_OF_TEXT("address", struct drm_match, addresses, struct gpu, address) },
	{ CONDITION_OF_TEXT("partition", struct drm_match, partitions, struct gpu, partition) },
	{ .key = "compute",
		.test = test_compute,
		.phrase = "is not a GPU of AMD's compute driver" },
	{ .key = "split",
		.test = test_split,
		.is_default = leaves_out_split,
		.phrase = "has virtual functions: match these, or set split = true" },
	{ .key = "nodes", .test = test_nodes, .found = found_nodes },
};

const struct conditions drm_conditions = CONDITIONS("GPU", conditions);

static const char *name_of(const struct gpu *gpu)
{
	return *gpu->address ? gpu->address : strrchr(gpu->directory, '/') + 1;
}

static void make_id(const char *root, const struct gpu *gpu, char ret_id[static DEVICE_ID_MAX + 1])
{
	char text[IDENTITY_MAX + 1];

	if (*gpu->address && gpu->kfd && gpu->kfd->partition >= 0)
		(void)snprintf(text, sizeof(text), "%s-p%d", gpu->address, gpu->kfd->partition);
	else if (!gpu->on_bus || identity_of(root, gpu->directory, text) < 0)
		(void)snprintf(text, sizeof(text), "%s", name_of(gpu));
	device_id_make(text, ret_id);
}

/* Links that udev makes: "pci-0000:03:00.0-render", "platform-fd4a0000.gpu-card". */
static int add_by_path(struct device *device, const struct drm_match *match, const struct gpu *gpu,
	const char *node, const char *kind)
{
	const char *name = strrchr(gpu->directory, '/') + 1;
	_cleanup_free_ char *path = NULL;

	/* A part has no such link, and the one of a USB display has another form. */
	if (gpu->on_bus || (gpu->kfd && gpu->kfd->partition >= 0))
		return 0;
	if (format_text(&path, "/dev/dri/by-path/%s-%s-%s", *gpu->address ? "pci" : "platform",
		    *gpu->address ? gpu->address : name, kind) < 0)
		return -ENOMEM;
	return device_add_node(device, node, path, match->permissions);
}

static int add_nodes(struct device *device, const struct drm_match *match, const struct gpu *gpu)
{
	const struct {
		const char *node, *kind;
		bool wanted;
	} nodes[] = {
		{ gpu->card, "card", match->nodes != DRM_NODES_RENDER },
		{ gpu->render, "render", match->nodes != DRM_NODES_CARD },
	};
	bool any = false;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(nodes) && r >= 0; i++) {
		if (!nodes[i].node || !nodes[i].wanted)
			continue;
		any = true;
		r = device_add_node(device, nodes[i].node, NULL, match->permissions);
		if (r >= 0 && match->by_path)
			r = add_by_path(device, match, gpu, nodes[i].node, nodes[i].kind);
	}
	if (r >= 0 && !any)
		r = device_set_lack(device, "its driver %s creates no %s node",
			*gpu->driver ? gpu->driver : "(none)",
			match->nodes == DRM_NODES_RENDER ? "render" : "card");
	return r;
}

static int add_number(struct device *device, const char *name, int64_t value)
{
	char text[32];

	if (value < 0)
		return 0;
	(void)snprintf(text, sizeof(text), "0x%04" PRIx64, (uint64_t)value);
	return device_add_variable(device, name, text);
}

static int add_variables(struct device *device, const struct gpu *gpu)
{
	const struct {
		const char *name, *value;
	} variables[] = { { "card", gpu->card }, { "render", gpu->render },
		{ "driver", gpu->driver }, { "partition", gpu->partition } };
	int r;

	r = add_number(device, "vendor", gpu->vendor);
	if (r >= 0)
		r = add_number(device, "device", gpu->model);
	for (size_t i = 0; i < ARRAY_SIZE(variables) && r >= 0; i++)
		if (variables[i].value && *variables[i].value)
			r = device_add_variable(device, variables[i].name, variables[i].value);
	return r;
}

/* The file contains the memory size of the whole GPU. */
static int add_memory(
	const char *root, const char *directory, struct device *device, const struct gpu *gpu)
{
	char memory[SYSFS_VALUE_MAX + 1];

	if ((*gpu->partition && !startswith(gpu->partition, "spx_")) ||
		sysfs_read(root, directory, "mem_info_vram_total", memory) < 0)
		return 0;
	return device_add_variable(device, "memory", memory);
}

/* A GPU is a part of its function, as each partition is: entries may offer its nodes apart, and
 * other drivers the function. One with virtual functions is the whole of them. */
static int add_hardware(struct device *device, const struct gpu *gpu)
{
	int r = 0;

	if (*gpu->address)
		r = gpu->split ? device_add_pci_claim(device, gpu->address)
			       : device_add_pci_container(device, gpu->address);
	return r >= 0 && *gpu->pf ? device_add_pci_container(device, gpu->pf) : r;
}

static int add_gpu(struct scan *scan, const struct drm_match *match, struct gpu *gpu)
{
	_cleanup_free_ char *directory = NULL;
	char id[DEVICE_ID_MAX + 1];
	struct device *device;
	int r;

	/* Another entry of `match` has already added the GPU. */
	if (gpu->device)
		return 0;
	make_id(scan_root(scan), gpu, id);
	r = scan_add(scan, id, &device);
	if (r == -EEXIST)
		return 0;
	if (r < 0)
		return r;
	gpu->device = device;
	device->part = gpu->kfd && gpu->kfd->partition >= 0;
	if (*gpu->address ? format_text(&directory, PCI_DEVICES "/%s", gpu->address) < 0
			  : !(directory = strdup(gpu->directory)))
		return -ENOMEM;
	r = sysfs_describe(scan_root(scan), directory, device);
	if (r < 0 && r != -ENOMEM)
		r = device_set_problem(device, "%s cannot be read: %s", directory, strerror(-r));
	if (r >= 0)
		r = add_nodes(device, match, gpu);
	if (r >= 0)
		r = add_memory(scan_root(scan), directory, device, gpu);
	if (r >= 0)
		r = add_hardware(device, gpu);
	return r < 0 ? r : add_variables(device, gpu);
}

/* The nodes of a GPU's management engine, "i915.mei-gscfi.768/mei/mei1" below it. */
static int add_management(struct scan *scan, struct device *device, const struct drm_match *match,
	const struct gpu *gpu)
{
	_cleanup_strings_ struct strings names = { 0 };
	int r = 0;

	if (sysfs_list(scan_root(scan), gpu->directory, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_strings_ struct strings engines = { 0 };
		_cleanup_free_ char *directory = NULL;

		if (!strstr(names.items[i], ".mei-"))
			continue;
		if (format_text(&directory, "%s/%s/mei", gpu->directory, names.items[i]) < 0)
			return -ENOMEM;
		if (sysfs_list(scan_root(scan), directory, &engines) < 0)
			continue;
		for (size_t k = 0; k < engines.count && r >= 0; k++) {
			_cleanup_free_ char *path = NULL;

			if (format_text(&path, "/dev/%s", engines.items[k]) < 0)
				return -ENOMEM;
			r = device_add_node(device, path, NULL, match->permissions);
		}
	}
	return r;
}

/* Adds the GPU to the device of all; makes that device at the first one. */
static int add_to_combined(struct scan *scan, const struct drm_match *match, const struct gpu *gpu,
	struct device **device)
{
	int r = 0;

	if (!*device)
		r = scan_add(scan, DRM_COMBINED_ID, device);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	r = add_nodes(*device, match, gpu);
	if (r >= 0)
		r = add_management(scan, *device, match, gpu);
	device_share_nodes(*device, 0);
	return r;
}

/* Whether the entry selects the GPU, and `exclude` leaves it in. Returns 1, 0 or negative errno. */
static int is_wanted(
	const struct declaration *declaration, size_t entry, struct gpu *gpu, struct scan *scan)
{
	int r;

	if (conditions_hold(&drm_conditions, groups_get(&declaration->match, entry), gpu,
		    name_of(gpu), scan_tally(scan, entry, &drm_conditions)) == 0)
		return 0;
	if (gpu->selected)
		return !gpu->excluded;
	r = scan_excludes(scan, declaration, &drm_conditions, gpu, name_of(gpu), gpu->directory);
	if (r < 0)
		return r;
	gpu->selected = true;
	gpu->excluded = r > 0;
	return !gpu->excluded;
}

static int list_entry(
	const struct declaration *declaration, size_t entry, struct gpus *gpus, struct scan *scan)
{
	const struct drm_match *match = groups_get(&declaration->match, entry);
	struct device *combined = NULL;
	int r = 0;

	for (size_t i = 0; i < gpus->count && r >= 0; i++) {
		struct gpu *gpu = &gpus->items[i];

		r = is_wanted(declaration, entry, gpu, scan);
		if (r > 0)
			r = match->combine ? add_to_combined(scan, match, gpu, &combined)
					   : add_gpu(scan, match, gpu);
	}
	return r;
}

static bool share_numa(const struct device *a, const struct device *b)
{
	return a->n_numa == 0 || b->n_numa == 0 || a->numa[0] == b->numa[0];
}

/* 0: no link is known. Parts of one GPU are as close as a link can make them. */
static unsigned distance_between(const struct gpu *from, const struct gpu *to)
{
	bool same = streq(from->address, to->address);
	unsigned distance = same ? KFD_DISTANCE_XGMI : 0;

	for (size_t n = 0; n < from->kfd->n_links && distance == 0; n++)
		if (from->kfd->links[n].to == to->kfd->number)
			distance = from->kfd->links[n].distance;
	if (distance == 0)
		return 0;
	return distance + (same ? 0 : KFD_DISTANCE_GPU) +
		(share_numa(from->device, to->device) ? 0 : KFD_DISTANCE_NUMA);
}

/* Adds to the devices their distances to each other, as far as the compute driver knows them. */
static int add_distances(struct gpus *gpus)
{
	int r = 0;

	for (size_t i = 0; i < gpus->count; i++)
		for (size_t k = 0; k < gpus->count && r >= 0; k++) {
			const struct gpu *from = &gpus->items[i], *to = &gpus->items[k];
			unsigned distance;

			if (i == k || !from->device || !to->device || !from->kfd || !to->kfd)
				continue;
			distance = distance_between(from, to);
			if (distance > 0)
				r = device_add_distance(from->device, to->device->id, distance);
		}
	return r;
}

int drm_list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	_cleanup_(gpus_done) struct gpus gpus = { 0 };
	int r;

	r = gpus_find(scan, &gpus, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < declaration->match.count && r >= 0; i++)
		r = list_entry(declaration, i, &gpus, scan);
	if (r >= 0)
		r = add_distances(&gpus);
	return r < 0 ? error_set(error, r, "cannot list GPUs in /sys: %s", strerror(-r)) : 0;
}
