/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which pod is admitted next. Only one pod is being admitted at a time: later pods wait,
 * and earlier ones may still be starting their containers.
 */
#include "kubelet/admission.h"

#include "kubelet/admission-steps.h"

void admission_free(struct admission *admission)
{
	for (struct admission **a = &admission->manager->admissions; *a; a = &(*a)->next)
		if (*a == admission) {
			*a = admission->next;
			break;
		}
	choice_done(&admission->choice);
	free(admission->order);
	json_decref(admission->started);
	free(admission);
}

void admission_free_all(struct manager *manager)
{
	while (manager->admissions)
		admission_free(manager->admissions);
}

bool admission_is_under_way(const struct manager *manager, const struct pod *pod)
{
	for (const struct admission *a = manager->admissions; a; a = a->next)
		if (a->pod == pod)
			return true;
	return false;
}

static struct admission *first_waiting(const struct manager *manager)
{
	struct admission *admission = manager->admissions;

	while (admission && admission->admitted)
		admission = admission->next;
	return admission;
}

/* Admits the first waiting pod. A nested call returns at once, so that a long queue of pods that
 * are refused immediately is a loop and not a deep recursion. */
void admission_admit_next(struct manager *manager)
{
	struct admission *admission;

	if (manager->admitting)
		return;
	manager->admitting = true;
	while ((admission = first_waiting(manager)) && !admission->running) {
		admission->running = true;
		(void)model_collect_allocations(manager->model);
		admission_next_resource(admission);
	}
	manager->admitting = false;
}

const struct pod_container *admission_container(const struct admission *admission)
{
	return &admission->pod->containers[admission->container];
}

int admission_turn_to(struct admission *admission, size_t container)
{
	size_t n = admission->pod->containers[container].n_limits;
	size_t *order = calloc(n + 1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t at = model_random(admission->manager->model, i + 1);

		order[i] = order[at];
		order[at] = i;
	}
	free(admission->order);
	admission->order = order;
	admission->container = container;
	admission->position = 0;
	return 0;
}

static int admission_make(struct manager *manager, struct pod *pod,
	struct control_request *requester, struct admission **ret)
{
	struct admission *admission = calloc(1, sizeof(*admission)), **last;

	if (!admission)
		return -ENOMEM;
	admission->manager = manager;
	admission->pod = pod;
	admission->requester = requester;
	admission->started = json_array();
	if (!admission->started || admission_turn_to(admission, 0) < 0) {
		json_decref(admission->started);
		free(admission);
		return -ENOMEM;
	}
	for (last = &manager->admissions; *last; last = &(*last)->next)
		;
	*last = admission;
	*ret = admission;
	return 0;
}

int admission_new(struct manager *manager, struct pod *pod, struct control_request *requester)
{
	struct admission *admission;
	int r;

	r = admission_make(manager, pod, requester, &admission);
	if (r >= 0)
		admission_admit_next(manager);
	return r;
}

int admission_restart(struct manager *manager, struct pod *pod, struct control_request *requester)
{
	struct admission *admission;
	int r;

	r = admission_make(manager, pod, requester, &admission);
	if (r < 0)
		return r;
	admission->admitted = true;
	admission_start(admission);
	return 0;
}
