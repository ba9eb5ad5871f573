/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes on the kubelet's rows of one pod as they are, and adds what only devplugd knows: which of
 * its devices a claim's device is, the CPUs of the host's NUMA nodes, and the devices of containers
 * that the kubelet does not list: init containers, and those of a pod that has ended. The client
 * compares.
 */
#include "supervisor/books/pod-view.h"

#include "common/json-read.h"
#include "common/numa-nodes.h"
#include "common/pod-table.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/pod-assignments.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"

struct view {
	const struct manager *manager;
	const char *namespace, *pod;
	const struct pod_table *table;
	json_t *devices; /* of devplugd's claims, by pod_claim_key() */
	json_t *containers, *unlisted;
};

static bool is_of_pod(const struct view *view, const struct pod_container *container)
{
	return streq(container->namespace, view->namespace) && streq(container->pod, view->pod);
}

static json_t *add_array(json_t *object, const char *key)
{
	json_t *array = json_array();

	return json_object_set_new(object, key, array) < 0 ? NULL : array;
}

static int add_devices(const struct view *view, const struct pod_container *container, json_t *to)
{
	json_t *devices = add_array(to, "devices");
	int r = devices ? 0 : -ENOMEM;

	for (size_t i = 0; i < view->table->n_devices && r >= 0; i++) {
		const struct pod_device *device = &view->table->devices[i];

		if (device->container == container)
			r = json_array_append_new(devices,
				json_pack("{s:s, s:s, s:s}", "resource", device->resource, "id",
					device->id, "nodes", device->nodes));
	}
	return r;
}

static int add_memory(const struct view *view, const struct pod_container *container, json_t *to)
{
	json_t *all = add_array(to, "memory");
	int r = all ? 0 : -ENOMEM;

	for (size_t i = 0; i < view->table->n_memory && r >= 0; i++) {
		const struct pod_memory *memory = &view->table->memory[i];

		if (memory->container == container)
			r = json_array_append_new(all,
				json_pack("{s:s, s:I, s:s}", "type", memory->type, "bytes",
					(json_int_t)memory->bytes, "nodes", memory->nodes));
	}
	return r;
}

/* A device of devplugd has the members resource, id and cdi, too. NULL: no memory. */
static json_t *describe_claim(const struct view *view, const struct pod_claim *claim)
{
	_cleanup_free_ char *key = pod_claim_key(claim);
	const json_t *device = key ? json_object_get(view->devices, key) : NULL;

	if (!key)
		return NULL;
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:s*, s:O*}", "namespace",
		claim->namespace, "name", claim->name, "driver", claim->driver, "pool", claim->pool,
		"device", claim->device, "resource", set_text_of(device, "resource"), "id",
		set_text_of(device, "id"), "cdi", json_object_get(device, "cdi"));
}

/* Whether the device was noted in `listed` before. A kubelet lists a device once for each time that
 * its claim was prepared. Returns 0, 1 or -ENOMEM. */
static int note_listed(json_t *listed, const struct pod_claim *claim)
{
	_cleanup_free_ char *device = pod_claim_key(claim), *key = NULL;

	/* Drivers may use the name of a device in each of their pools. */
	if (!device || format_text(&key, "%s\t%s", device, claim->pool) < 0)
		return -ENOMEM;
	if (json_object_get(listed, key))
		return 1;
	return json_object_set_new(listed, key, json_true()) < 0 ? -ENOMEM : 0;
}

static int add_claims(const struct view *view, const struct pod_container *container, json_t *to)
{
	json_t *claims = add_array(to, "claims");
	json_auto_t *listed = json_object();
	int r = claims ? 0 : -ENOMEM;

	for (size_t i = 0; i < view->table->n_claims && r >= 0; i++) {
		const struct pod_claim *claim = &view->table->claims[i];

		if (claim->container != container)
			continue;
		r = note_listed(listed, claim);
		if (r == 0)
			r = json_array_append_new(claims, describe_claim(view, claim));
	}
	return r;
}

static int add_container(struct view *view, const struct pod_container *container)
{
	json_t *to = json_pack("{s:s, s:s}", "name", container->name, "cpus", container->cpus);

	if (json_array_append_new(view->containers, to) < 0 ||
		add_devices(view, container, to) < 0 || add_memory(view, container, to) < 0 ||
		add_claims(view, container, to) < 0)
		return -ENOMEM;
	return 0;
}

static bool is_listed(const struct view *view, const char *name)
{
	for (size_t i = 0; i < view->table->n_containers; i++)
		if (is_of_pod(view, &view->table->containers[i]) &&
			streq(view->table->containers[i].name, name))
			return true;
	return false;
}

/* Devices of containers that only the checkpoint has. */
static int add_unlisted(struct view *view, const char *resource)
{
	const json_t *rows = assignments_of(view->manager->assignments, resource), *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *container = text_of(row, "container");

		if (streq(text_of(row, "namespace"), view->namespace) &&
			streq(text_of(row, "pod"), view->pod) && !is_listed(view, container) &&
			json_array_append_new(view->unlisted,
				json_pack("{s:s, s:s, s:O}", "container", container, "resource",
					resource, "id", json_object_get(row, "id"))) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int fill(struct view *view)
{
	const struct pod_table *table = view->table;
	int r = view->containers && view->unlisted && view->devices ? 0 : -ENOMEM;

	for (size_t i = 0; i < table->n_containers && r >= 0; i++)
		if (is_of_pod(view, &table->containers[i]))
			r = add_container(view, &table->containers[i]);
	for (size_t i = 0; i < view->manager->n_children && r >= 0; i++)
		r = add_unlisted(view, view->manager->children[i]->resource->name);
	return r;
}

static int describe(const struct manager *manager, const char *namespace, const char *pod,
	json_t **ret, struct error *error)
{
	json_auto_t *containers = json_array(), *unlisted = json_array(), *devices = NULL;
	_cleanup_(pod_table_freep) struct pod_table *table = NULL;
	struct view view = { manager, namespace, pod, .containers = containers,
		.unlisted = unlisted };
	int r;

	devices = manager->dra_claims ? dra_claims_devices(manager->dra_claims) : json_object();
	r = pod_table_read(assignments_table_fd(manager->assignments), &table);
	view.table = table;
	view.devices = devices;
	if (r >= 0)
		r = fill(&view);
	if (r < 0)
		return error_set(error, r, "cannot read the kubelet's answer: %s", strerror(-r));
	if (json_array_size(containers) == 0 && json_array_size(unlisted) == 0)
		return error_set(error, -ENOENT, "the kubelet of this node has no pod %s/%s",
			namespace, pod);
	*ret = json_pack("{s:s, s:s, s:O, s:O, s:o}", "namespace", namespace, "pod", pod,
		"containers", containers, "unlisted", unlisted, "cpus",
		numa_cpus_read(manager->config->host_root));
	return *ret ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int pod_view_request(struct request *request, json_t **ret_answer, struct error *error)
{
	const struct assignments *assignments = request->manager->assignments;
	const char *namespace, *pod;
	int r;

	r = request_string(request, "namespace", &namespace, error);
	if (r >= 0)
		r = request_string(request, "pod", &pod, error);
	if (r < 0)
		return r;
	if (!namespace || !pod)
		return error_set(error, -EINVAL, "\"namespace\" and \"pod\" are missing");
	if (!assignments_ready(request->manager->assignments) && !request->expired)
		return REQUEST_LATER;
	if (assignments_table_fd(assignments) < 0)
		return error_set(error, -ENODATA,
			"the kubelet does not report which pod uses which device: %s",
			*assignments_failure(assignments) ? assignments_failure(assignments)
							  : "it has not answered yet");
	r = describe(request->manager, namespace, pod, ret_answer, error);
	if (r < 0)
		return r;
	request->devices_follow = !json_is_false(json_object_get(request->arguments, "devices"));
	(void)json_object_set_new(
		*ret_answer, "devices_follow", json_boolean(request->devices_follow));
	return 0;
}
