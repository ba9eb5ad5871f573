/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a running pod is admitted again. The kubelet's topology manager reads a
 * container's devices first; the device manager returns at once if the runtime reports the
 * container as running. After a restart of the host, no container runs.
 */
#include "kubelet/readmission.h"

#include "kubelet/choice.h"
#include "kubelet/topology.h"

bool readmission_is_due(const struct model *model, const struct pod *pod)
{
	for (size_t i = 0; i < model->n_allocations; i++) {
		const struct allocation *allocation = model->allocations[i];
		const struct resource *resource;

		if (!streq(allocation->pod_uid, pod->uid))
			continue;
		resource = model_find_resource(model, allocation->resource);
		if (!resource || resource->lists == 0)
			return false;
	}
	return true;
}

/* Sources of static pods are ready early, so that up to 1.33 running did not protect them. */
static bool is_checked(
	const struct model *model, const struct pod *pod, const struct pod_container *container)
{
	return container->kind == CONTAINER_INIT || pod->is_stopped ||
		(pod->is_static && model->version->static_pods_need_health);
}

static int check_container(struct model *model, const struct pod *pod,
	const struct pod_container *container, struct error *error)
{
	for (size_t i = 0; i < container->n_limits; i++) {
		const struct pod_limit *limit = &container->limits[i];
		struct choice choice = {};
		int r;

		if (!model_find_allocation(model, pod->uid, container->name, limit->resource))
			continue;
		r = choice_begin(model, pod->uid, container->name, limit->resource, limit->count,
			NULL, NULL, &choice, error);
		choice_done(&choice);
		if (r < 0)
			return r;
	}
	return 0;
}

int readmission_try(
	struct model *model, struct pod *pod, const char **ret_reason, struct error *error)
{
	for (size_t i = 0; i < pod->n_containers; i++) {
		struct error why = {};
		int r = topology_admit(model, pod, i, error);

		if (r < 0)
			return r;
		if (r == 0) {
			(void)error_set(error, -EXDEV, TOPOLOGY_MESSAGE);
			*ret_reason = TOPOLOGY_REASON;
			return 0;
		}
		if (!is_checked(model, pod, &pod->containers[i]))
			continue;
		r = check_container(model, pod, &pod->containers[i], &why);
		if (r == -ENOMEM)
			return r;
		if (r < 0) {
			(void)error_set(error, r, "Allocate failed due to %s, which is unexpected",
				why.message);
			*ret_reason = "UnexpectedAdmissionError";
			return 0;
		}
	}
	return 1;
}
