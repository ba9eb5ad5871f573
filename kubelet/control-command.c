/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the commands of the control socket. Each checks its own arguments, because any client
 * can connect.
 */
#include "kubelet/control-command.h"

#include <systemd/sd-id128.h>

#include "kubelet/admission.h"
#include "kubelet/claim-table.h"
#include "kubelet/connection.h"
#include "kubelet/dra-operation.h"
#include "kubelet/plugin-text.h"
#include "kubelet/pod-file.h"
#include "kubelet/registration-check.h"
#include "kubelet/view.h"

#define WAIT_MAX_SECONDS (24 * 3600)
#define POD_NAME_MAX     253

static const char *string_argument(const json_t *arguments, const char *key)
{
	return json_string_value(json_object_get(arguments, key));
}

static void on_status(
	struct manager *manager, struct control_request *request, const json_t *arguments)
{
	control_reply(request, view_status(manager));
}

static void on_pods(
	struct manager *manager, struct control_request *request, const json_t *arguments)
{
	control_reply(request, view_pods(manager));
}

/* Returns whether the value is an object of resource names with counts; if not, replies with an
 * error. */
static bool check_counts(struct control_request *request, const json_t *counts)
{
	const char *name;
	json_t *count;

	if (!json_is_object(counts)) {
		control_fail(request, "no resources in the request");
		return false;
	}
	json_object_foreach((json_t *)(uintptr_t)counts, name, count)
	{
		if (!resource_name_is_valid(name)) {
			control_fail(request, "%s is not a name of an extended resource", name);
			return false;
		}
		if (!json_is_integer(count) || json_integer_value(count) < 0 ||
			json_integer_value(count) > INT32_MAX) {
			control_fail(request, "%s: the count must be a number of devices", name);
			return false;
		}
	}
	return true;
}

static bool is_pod_name(const char *name)
{
	size_t size = strlen(name);

	return size > 0 && size <= POD_NAME_MAX &&
		strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == size;
}

static int add_pod(
	struct manager *manager, const char *namespace, const char *name, struct pod **ret)
{
	char uid[SD_ID128_UUID_STRING_MAX];
	sd_id128_t id;
	int r;

	r = sd_id128_randomize(&id);
	if (r < 0)
		return r;
	return model_add_pod(
		manager->model, sd_id128_to_uuid_string(id, uid), namespace, name, ret);
}

/* Returns whether each container has a name and counts; if not, replies with an error. */
static bool check_containers(struct control_request *request, const json_t *containers)
{
	const json_t *container;
	size_t i;

	if (json_array_size(containers) == 0) {
		control_fail(request, "a pod needs a container");
		return false;
	}
	json_array_foreach(containers, i, container)
	{
		const char *name = string_argument(container, "name");

		if (!name || !is_pod_name(name)) {
			control_fail(request,
				"the name of a container must consist of lower-case letters, digits, dashes and dots");
			return false;
		}
		if (!check_counts(request, json_object_get(container, "limits")))
			return false;
	}
	return true;
}

static int add_containers(
	struct control_request *request, struct pod *pod, const json_t *containers)
{
	json_t *container;
	size_t i;
	int r;

	json_array_foreach(containers, i, container)
	{
		r = pod_read_container(pod, container);
		if (r < 0) {
			control_fail(request, "%s",
				r == -EEXIST ? "two containers have the same name"
					: r == -EINVAL
					? "init containers and sidecars must come first"
					: r == -EBADMSG
					? "a container is init, sidecar or main; see devplug-kubelet(1) for the form of other resources"
					: "out of memory");
			return r;
		}
	}
	return 0;
}

/* "containers", or "limits" of one container. */
static json_t *containers_argument(const json_t *arguments)
{
	json_t *limits = json_object_get(arguments, "limits");

	if (!limits)
		return json_incref(json_object_get(arguments, "containers"));
	return json_pack("[{s:s, s:s, s:O}]", "name", POD_CONTAINER, "kind",
		container_kind_to_string(CONTAINER_MAIN), "limits", limits);
}

static int add_claims(struct control_request *request, struct pod *pod, const json_t *claims)
{
	struct error error = {};
	int r = json_array_size(claims) > 0 ? pod_read_claims(pod, claims, &error) : 0;

	if (r < 0)
		control_fail(request, "%s", error.message);
	return r;
}

static void on_pod(
	struct manager *manager, struct control_request *request, const json_t *arguments)
{
	const char *name = string_argument(arguments, "name");
	const char *namespace = string_argument(arguments, "namespace");
	_cleanup_json_ json_t *containers = containers_argument(arguments);
	struct pod *pod;

	if (!name || !namespace || !is_pod_name(name) || !is_pod_name(namespace)) {
		control_fail(request,
			"the name and namespace of a pod must consist of lower-case letters, digits, dashes and dots");
		return;
	}
	if (!check_containers(request, containers))
		return;
	pod = model_find_pod(manager->model, namespace, name);
	if (pod && pod->phase != POD_FAILED) {
		control_fail(request, "pod %s/%s already exists: remove it first", namespace, name);
		return;
	}
	/* A failed pod is replaced by a new pod. */
	if (pod)
		model_remove_pod(manager->model, pod);
	if (add_pod(manager, namespace, name, &pod) < 0) {
		control_fail(request, "out of memory");
		return;
	}
	pod->is_static = json_is_true(json_object_get(arguments, "static"));
	if (add_containers(request, pod, containers) < 0 ||
		add_claims(request, pod, json_object_get(arguments, "claims")) < 0) {
		model_remove_pod(manager->model, pod);
		return;
	}
	if (admission_new(manager, pod, request) < 0) {
		model_remove_pod(manager->model, pod);
		control_fail(request, "out of memory");
	}
}

/* The named pod, if no operation on it is in progress; otherwise replies with an error. */
static struct pod *find_quiet_pod(
	struct manager *manager, struct control_request *request, const json_t *arguments)
{
	const char *name = string_argument(arguments, "name");
	const char *namespace = string_argument(arguments, "namespace");
	struct pod *pod =
		name && namespace ? model_find_pod(manager->model, namespace, name) : NULL;

	if (!pod)
		control_fail(request, "there is no pod %s/%s", namespace ? namespace : "",
			name ? name : "");
	else if (admission_is_under_way(manager, pod) || dra_is_under_way(manager, pod)) {
		control_fail(request, "pod %s/%s is being admitted, started or removed", namespace,
			name);
		pod = NULL;
	}
	return pod;
}

static void remove_pod(struct manager *manager, struct control_request *request, struct pod *pod)
{
	struct error error = {};

	manager_emit(manager,
		json_pack("{s:s, s:s, s:s}", "event", "pod-removed", "pod", pod->name, "namespace",
			pod->namespace));
	model_remove_pod(manager->model, pod);
	if (pod_file_write(manager->model, manager->options->state_dir, &error) < 0)
		control_fail(request, "%s", error.message);
	else
		control_reply(request, json_object());
	manager_changed(manager);
}

/* A pod whose claims cannot be unprepared stays. A kubelet retries periodically; here the next "pod
 * rm" retries. */
static void on_unprepared(
	struct manager *manager, struct pod *pod, const char *error, void *userdata)
{
	struct control_request *request = userdata;

	if (error)
		control_fail(request, "%s", error);
	else
		remove_pod(manager, request, pod);
}

static void on_pod_rm(
	struct manager *manager, struct control_request *request, const json_t *arguments)
{
	struct pod *pod = find_quiet_pod(manager, request, arguments);

	if (!pod)
		return;
	if (pod->claims)
		dra_unprepare(manager, pod, on_unprepared, request);
	else
		remove_pod(manager, request, pod);
}

static void on_pod_restart(
	struct manager *manager, struct control_request *request, const json_t *arguments)
{
	struct pod *pod = find_quiet_pod(manager, request, arguments);

	if (!pod)
		return;
	if (pod->phase != POD_RUNNING)
		control_fail(request, "pod %s/%s has failed and is not started again",
			pod->namespace, pod->name);
	else if (admission_restart(manager, pod, request) < 0)
		control_fail(request, "out of memory");
}

static void on_reboot(
	struct manager *manager, struct control_request *request, const json_t *arguments)
{
	struct model *model = manager->model;
	struct error error = {};
	int r;

	for (size_t i = 0; i < model->n_pods; i++)
		model->pods[i]->is_stopped = true;
	claim_table_forget_prepared(manager->claims);
	r = pod_file_write(model, manager->options->state_dir, &error);
	if (r >= 0)
		r = claim_table_write(manager->claims, manager->options->state_dir, &error);
	if (r < 0)
		control_fail(request, "%s", error.message);
	else
		control_reply(request, json_object());
}

static void on_wait(
	struct manager *manager, struct control_request *request, const json_t *arguments)
{
	json_t *wanted = json_object_get(arguments, "resources");
	double timeout = json_number_value(json_object_get(arguments, "timeout"));

	if (!check_counts(request, wanted))
		return;
	if (!(timeout >= 0) || timeout > WAIT_MAX_SECONDS)
		control_fail(request, "the timeout must be from 0 to %d seconds", WAIT_MAX_SECONDS);
	else if (control_wait(request, wanted, (uint64_t)(timeout * USEC_PER_SEC)) < 0)
		control_fail(request, "out of memory");
}

static void on_fault(
	struct manager *manager, struct control_request *request, const json_t *arguments)
{
	static const struct {
		const char *name;
		int (*inject)(struct manager *manager, const char *resource);
	} faults[] = {
		{ "end-stream", connection_end_stream },
		{ "close", connection_drop },
	};
	const char *resource = string_argument(arguments, "resource");
	const char *name = string_argument(arguments, "fault");

	for (size_t i = 0; resource && name && i < ARRAY_SIZE(faults); i++) {
		if (!streq(faults[i].name, name))
			continue;
		if (faults[i].inject(manager, resource) < 0)
			control_fail(request, "no plugin serves %s", resource);
		else
			control_reply(request, json_object());
		return;
	}
	control_fail(request, "a fault must be RESOURCE end-stream or RESOURCE close");
}

void command_run(struct manager *manager, struct control_request *request, const json_t *arguments)
{
	static const struct {
		const char *name;
		void (*run)(struct manager *manager, struct control_request *request,
			const json_t *arguments);
	} commands[] = {
		{ "status", on_status },
		{ "pods", on_pods },
		{ "pod", on_pod },
		{ "pod-rm", on_pod_rm },
		{ "pod-restart", on_pod_restart },
		{ "reboot", on_reboot },
		{ "wait", on_wait },
		{ "fault", on_fault },
	};
	const char *name = string_argument(arguments, "command");

	for (size_t i = 0; name && i < ARRAY_SIZE(commands); i++)
		if (streq(commands[i].name, name)) {
			commands[i].run(manager, request, arguments);
			return;
		}
	control_fail(request, "unknown command");
}
