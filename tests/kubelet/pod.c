/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods and what they were given. The recorded allocations are the truth; the per-resource sets of
 * allocated devices run ahead of them while a pod is admitted and are derived anew from them, so
 * that what a failed admission took is lost until then, as in the kubelet.
 */
#include "resource.h"

static const char *const phase_names[] = {
	[POD_PENDING] = "Pending",
	[POD_RUNNING] = "Running",
	[POD_FAILED] = "Failed",
};

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

static void pod_free(struct pod *pod)
{
	for (size_t i = 0; i < pod->n_limits; i++)
		free(pod->limits[i].resource);
	free(pod->limits);
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
	model->pods[model->n_pods++] = pod;
	*ret = pod;
	return 0;
}

int pod_add_limit(struct pod *pod, const char *resource, uint64_t count)
{
	char *copy;
	int r;

	r = array_reserve((void **)&pod->limits, pod->n_limits, sizeof(*pod->limits));
	if (r < 0)
		return r;
	copy = strdup(resource);
	if (!copy)
		return -ENOMEM;
	pod->limits[pod->n_limits++] = (struct pod_limit){ .resource = copy, .count = count };
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

int model_check_node_fits(const struct model *model, const struct pod *pod, char *reason,
	size_t reason_size, struct error *ret_message)
{
	for (size_t i = 0; i < pod->n_limits; i++) {
		const struct pod_limit *limit = &pod->limits[i];
		const struct resource *resource = model_find_resource(model, limit->resource);

		/* What the device manager is responsible for, it has allocated or refused. */
		if (!resource || !resource->published || resource_is_device_plugin(resource))
			continue;
		if (limit->count == 0)
			continue;
		(void)snprintf(reason, reason_size, "OutOf%s", resource->name);
		(void)error_set(ret_message, -ENOSPC,
			"Node didn't have enough resource: %s, requested: %llu, used: 0, capacity: 0",
			resource->name, (unsigned long long)limit->count);
		return 1;
	}
	return 0;
}
