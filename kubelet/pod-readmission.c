/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admits pods again after a restart. A pod is admitted at once, except one that is being restarted:
 * it waits for another list.
 */
#include "kubelet/pod-readmission.h"

#include "kubelet/admission.h"
#include "kubelet/plugin-text.h"
#include "kubelet/pod-file.h"
#include "kubelet/readmission.h"

static void fail_pod(struct manager *manager, struct pod *pod, const char *reason, const char *why)
{
	_cleanup_free_ char *message = NULL;
	struct error error = {};

	if (asprintf(&message, "Pod was rejected: %s", why) < 0)
		message = NULL;
	if (!message || pod_set_status(pod, POD_FAILED, reason, message) < 0)
		(void)error_set(&error, -ENOMEM, "out of memory");
	else
		(void)pod_file_write(manager->model, manager->options->state_dir, &error);
	if (error.code < 0)
		manager_emit(manager,
			json_pack("{s:s, s:s, s:s}", "event", "error", "pod", pod->name, "error",
				error.message));
	manager_emit(manager,
		json_pack("{s:s, s:s, s:s, s:s, s:o}", "event", "pod-rejected", "pod", pod->name,
			"namespace", pod->namespace, "reason", reason, "message",
			text_json(message ? message : "Pod was rejected")));
	manager_changed(manager);
}

static int readmit(struct manager *manager, struct pod *pod)
{
	struct error error = {};
	const char *reason = NULL;
	int r;

	r = readmission_try(manager->model, pod, &reason, &error);
	if (r == -EFAULT) {
		manager_panic(manager, error.message);
		return r;
	}
	pod->is_readmitted = true;
	if (r == 0)
		fail_pod(manager, pod, reason, error.message);
	else if (r > 0)
		manager_emit(manager,
			json_pack("{s:s, s:s, s:s, s:s}", "event", "pod-readmitted", "pod",
				pod->name, "namespace", pod->namespace, "uid", pod->uid));
	return r;
}

void pod_readmission_run(struct manager *manager)
{
	struct model *model = manager->model;

	for (size_t i = 0; i < model->n_pods; i++) {
		struct pod *pod = model->pods[i];

		if (pod->is_readmitted || pod->phase != POD_RUNNING ||
			admission_is_under_way(manager, pod) || !readmission_is_due(model, pod))
			continue;
		if (readmit(manager, pod) < 0)
			return;
	}
}
