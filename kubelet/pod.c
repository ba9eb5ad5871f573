/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps pods and their devices. The recorded allocations decide. While a pod is admitted, its
 * devices are already in the per-resource sets of allocated devices. The sets are computed again
 * from the records later, so the devices of a failed admission are lost until then, as in the
 * kubelet.
 */
#include "kubelet/plugin-resource.h"

static const char *const phase_names[] = {
	[POD_PENDING] = "Pending",
	[POD_RUNNING] = "Running",
	[POD_FAILED] = "Failed",
};

static const char *const kind_names[] = {
	[CONTAINER_INIT] = "init",
	[CONTAINER_SIDECAR] = "sidecar",
	[CONTAINER_MAIN] = "main",
};

const char *container_kind_to_string(enum container_kind kind)
{
	return kind_names[kind];
}

int container_kind_from_string(const char *text, enum container_kind *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(kind_names); i++)
		if (streq(kind_names[i], text)) {
			*ret = (enum container_kind)i;
			return 0;
		}
	return -EINVAL;
}

const char *pod_phase_to_string(enum pod_phase phase)
{
	return phase_names[phase];
}

int pod_phase_from_string(const char *text, enum pod_phase *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(phase_names); i++)
		if (streq(phase_names[i], text)) {
			*ret = (enum pod_phase)i;
			return 0;
		}
	return -EINVAL;
}

struct pod *model_find_pod(const struct model *model, const char *namespace, const char *name)
{
	for (size_t i = 0; i < model->n_pods; i++)
		if (streq(model->pods[i]->name, name) &&
			streq(model->pods[i]->namespace, namespace))
			return model->pods[i];
	return NULL;
}

struct pod *model_find_pod_uid(const struct model *model, const char *uid)
{
	for (size_t i = 0; i < model->n_pods; i++)
		if (streq(model->pods[i]->uid, uid))
			return model->pods[i];
	return NULL;
}

static void container_free_members(struct pod_container *container)
{
	for (size_t i = 0; i < container->n_limits; i++)
		free(container->limits[i].resource);
	free(container->limits);
	json_decref(container->others);
	free(container->name);
}

static void pod_free(struct pod *pod)
{
	for (size_t i = 0; i < pod->n_containers; i++)
		container_free_members(&pod->containers[i]);
	free(pod->containers);
	json_decref(pod->claims);
	free(pod->uid);
	free(pod->namespace);
	free(pod->name);
	free(pod->reason);
	free(pod->message);
	free(pod);
}

int model_add_pod(struct model *model, const char *uid, const char *namespace, const char *name,
	struct pod **ret)
{
	struct pod *pod;
	int r;

	r = array_reserve((void **)&model->pods, model->n_pods, sizeof(struct pod *));
	if (r < 0)
		return r;
	pod = calloc(1, sizeof(*pod));
	if (!pod)
		return -ENOMEM;
	pod->uid = strdup(uid);
	pod->namespace = strdup(namespace);
	pod->name = strdup(name);
	if (!pod->uid || !pod->namespace || !pod->name) {
		pod_free(pod);
		return -ENOMEM;
	}
	pod->is_readmitted = true;
	model->pods[model->n_pods++] = pod;
	*ret = pod;
	return 0;
}

int pod_add_container(
	struct pod *pod, const char *name, enum container_kind kind, struct pod_container **ret)
{
	const struct pod_container *last =
		pod->n_containers > 0 ? &pod->containers[pod->n_containers - 1] : NULL;
	char *copy;
	int r;

	for (size_t i = 0; i < pod->n_containers; i++)
		if (streq(pod->containers[i].name, name))
			return -EEXIST;
	if (kind != CONTAINER_MAIN && last && last->kind == CONTAINER_MAIN)
		return -EINVAL;
	r = array_reserve((void **)&pod->containers, pod->n_containers, sizeof(*pod->containers));
	if (r < 0)
		return r;
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	*ret = &pod->containers[pod->n_containers++];
	**ret = (struct pod_container){ .name = copy, .kind = kind };
	return 0;
}

int container_add_limit(struct pod_container *container, const char *resource, uint64_t count)
{
	char *copy;
	int r;

	r = array_reserve(
		(void **)&container->limits, container->n_limits, sizeof(*container->limits));
	if (r < 0)
		return r;
	copy = strdup(resource);
	if (!copy)
		return -ENOMEM;
	container->limits[container->n_limits++] =
		(struct pod_limit){ .resource = copy, .count = count };
	return 0;
}

/* Returns the set without the elements of another; a new set, because sets do not shrink. */
static int subtract(struct id_set *from, const struct id_set *ids)
{
	_cleanup_id_set_ struct id_set left = {};
	int r = 0;

	for (size_t i = 0; i < from->n_slots && r >= 0; i++)
		if (from->slots[i] && !id_set_contains(ids, from->slots[i]))
			r = id_set_insert(&left, from->slots[i]);
	if (r < 0)
		return r;
	id_set_done(from);
	*from = left;
	left = (struct id_set){};
	return 0;
}

int model_reusable_devices(const struct model *model, const struct pod *pod, size_t container,
	const char *resource, struct id_set *ret)
{
	_cleanup_id_set_ struct id_set reusable = {};
	int r = 0;

	for (size_t i = 0; i < container && r >= 0; i++) {
		const struct pod_container *before = &pod->containers[i];
		const struct allocation *allocation =
			model_find_allocation(model, pod->uid, before->name, resource);
		_cleanup_id_set_ struct id_set ids = {};

		if (!allocation)
			continue;
		r = allocation_ids(allocation, &ids);
		if (r >= 0 && before->kind != CONTAINER_INIT) {
			r = subtract(&reusable, &ids);
			continue;
		}
		for (size_t k = 0; k < ids.n_slots && r >= 0; k++)
			if (ids.slots[k])
				r = id_set_insert(&reusable, ids.slots[k]);
	}
	if (r < 0)
		return r;
	*ret = reusable;
	reusable = (struct id_set){};
	return 0;
}

int pod_set_status(struct pod *pod, enum pod_phase phase, const char *reason, const char *message)
{
	char *reason_copy = NULL, *message_copy = NULL;

	if (reason) {
		reason_copy = strdup(reason);
		message_copy = strdup(message);
		if (!reason_copy || !message_copy) {
			free(reason_copy);
			free(message_copy);
			return -ENOMEM;
		}
	}
	free(pod->reason);
	free(pod->message);
	pod->phase = phase;
	pod->reason = reason_copy;
	pod->message = message_copy;
	return 0;
}

void model_remove_pod(struct model *model, struct pod *pod)
{
	for (size_t i = 0; i < model->n_pods; i++) {
		if (model->pods[i] != pod)
			continue;
		memmove(model->pods + i, model->pods + i + 1,
			(model->n_pods - i - 1) * sizeof(struct pod *));
		model->n_pods--;
		pod_free(pod);
		return;
	}
}

static int check_limit(const struct model *model, const struct pod_limit *limit, char *reason,
	size_t reason_size, struct error *ret_message)
{
	const struct resource *resource = model_find_resource(model, limit->resource);

	/* The device manager has already allocated or refused the resources that it handles. */
	if (limit->count == 0 || !resource || !resource->published ||
		resource_is_device_plugin(resource))
		return 0;
	(void)snprintf(reason, reason_size, "OutOf%s", resource->name);
	(void)error_set(ret_message, -ENOSPC,
		"Node didn't have enough resource: %s, requested: %llu, used: 0, capacity: 0",
		resource->name, (unsigned long long)limit->count);
	return 1;
}

int model_check_node_fits(const struct model *model, const struct pod *pod, char *reason,
	size_t reason_size, struct error *ret_message)
{
	for (size_t i = 0; i < pod->n_containers; i++)
		for (size_t k = 0; k < pod->containers[i].n_limits; k++)
			if (check_limit(model, &pod->containers[i].limits[k], reason, reason_size,
				    ret_message) > 0)
				return 1;
	return 0;
}
