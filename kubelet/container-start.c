/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a container: calls PreStartContainer where a plugin wants it, then merges the plugins'
 * answers to Allocate. A kubelet retries periodically; this one retries at the next "pod restart".
 */
#include "kubelet/admission-steps.h"
#include "kubelet/claim-table.h"
#include "kubelet/connection.h"
#include "kubelet/container.h"
#include "kubelet/control-socket.h"
#include "kubelet/dra-operation.h"
#include "kubelet/plugin-text.h"
#include "kubelet/view.h"
#include "proto/message.h"
#include "proto/methods.h"

#define PRE_START_TIMEOUT (30 * USEC_PER_SEC)

static void next_pre_start(struct admission *admission);

static void fail_with_reason(struct admission *admission, const char *reason, const char *why)
{
	struct manager *manager = admission->manager;
	const struct pod *pod = admission->pod;

	admission_set_status(admission, POD_RUNNING, reason, why);
	manager_emit(manager,
		json_pack("{s:s, s:s, s:s, s:s, s:o}", "event", "pod-start-failed", "pod",
			pod->name, "namespace", pod->namespace, "reason", reason, "message",
			text_json(why)));
	control_reply(admission->requester, view_pod(manager, pod));
	admission_free(admission);
}

void admission_fail_start(struct admission *admission, const char *why)
{
	fail_with_reason(admission, "CreateContainerConfigError", why);
}

_printf_(2, 3) static void fail_format(struct admission *admission, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	admission_fail_start(admission, text ? text : "out of memory");
}

static int merge(const struct admission *admission, struct container *container)
{
	const struct pod_container *from = admission_container(admission);
	int r;

	for (size_t i = 0; i < from->n_limits; i++) {
		const struct allocation *allocation =
			model_find_allocation(admission->manager->model, admission->pod->uid,
				from->name, from->limits[admission->order[i]].resource);
		_cleanup_message_ struct message message = {};

		if (!allocation)
			continue;
		message = message_unpack(&v1beta1__container_allocate_response__descriptor,
			allocation->response, allocation->response_size);
		if (!message.base)
			return -EBADMSG;
		r = container_merge(
			container, (const V1beta1__ContainerAllocateResponse *)message.base);
		if (r < 0)
			return r;
	}
	return 0;
}

/* What the container gets through claims. PodResources reports it too. */
static int merge_claims(const struct admission *admission, struct container *container)
{
	struct pod_container *to = &admission->pod->containers[admission->container];
	_cleanup_json_ json_t *cdi = NULL, *dynamic = NULL;
	const json_t *name;
	size_t i;
	int r;

	if (!admission->pod->claims)
		return 0;
	r = claim_table_container(
		admission->manager->claims, admission->pod, admission->container, &cdi, &dynamic);
	json_array_foreach(cdi, i, name)
	{
		if (r >= 0)
			r = container_add_cdi(container, json_string_value(name));
	}
	if (r < 0)
		return r;
	if (!to->others)
		to->others = json_object();
	return json_object_set(to->others, "dynamic_resources", dynamic) < 0 ? -ENOMEM : 0;
}

static void finish(struct admission *admission)
{
	struct manager *manager = admission->manager;
	const struct pod *pod = admission->pod;
	json_t *reply;

	admission->pod->is_stopped = false;
	admission_set_status(admission, POD_RUNNING, NULL, NULL);
	reply = view_pod(manager, pod);
	if (reply)
		(void)view_add_started(reply, pod, admission->started);
	control_reply(admission->requester, reply);
	admission_free(admission);
}

static void create_container(struct admission *admission)
{
	const struct pod *pod = admission->pod;
	_cleanup_container_ struct container container = {};
	int r;

	r = container_init(&container);
	if (r >= 0)
		r = merge(admission, &container);
	if (r >= 0)
		r = merge_claims(admission, &container);
	if (r >= 0 && json_array_append_new(admission->started, container_to_json(&container)) < 0)
		r = -ENOMEM;
	if (r < 0) {
		fail_format(admission, "cannot read the plugin's answer from the checkpoint: %s",
			strerror(-r));
		return;
	}
	manager_emit(admission->manager,
		json_pack("{s:s, s:s, s:s, s:s, s:I}", "event", "pod-started", "pod", pod->name,
			"namespace", pod->namespace, "container",
			admission_container(admission)->name, "dropped_values",
			(json_int_t)container.dropped));
	if (admission->container + 1 == pod->n_containers) {
		finish(admission);
		return;
	}
	admission->reallocated = false;
	if (admission_turn_to(admission, admission->container + 1) < 0)
		fail_format(admission, "out of memory");
	else
		next_pre_start(admission);
}

static void on_pre_started(struct manager *manager, const struct answer *answer, void *userdata)
{
	struct admission *admission = userdata;

	manager_emit(manager,
		json_pack("{s:s, s:s, s:s, s:s, s:I, s:o*}", "event", "pre-start", "resource",
			admission_limit(admission)->resource, "pod", admission->pod->name,
			"namespace", admission->pod->namespace, "took_usec",
			(json_int_t)(manager_now() - admission->called), "error",
			answer->error ? text_json(answer->error) : NULL));
	if (answer->error) {
		fail_format(admission, "device plugin PreStartContainer rpc failed with err: %s",
			answer->error);
		return;
	}
	admission->position++;
	next_pre_start(admission);
}

static int call_pre_start(struct admission *admission, struct connection *connection,
	const struct allocation *allocation)
{
	V1beta1__PreStartContainerRequest request = V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;
	_cleanup_id_set_ struct id_set ids = {};
	_cleanup_free_ char **array = NULL;
	int r;

	r = allocation_ids(allocation, &ids);
	if (r < 0)
		return r;
	array = calloc(ids.count + 1, sizeof(*array));
	if (!array)
		return -ENOMEM;
	for (size_t i = 0; i < ids.n_slots; i++)
		if (ids.slots[i])
			array[request.n_devices_ids++] = ids.slots[i];
	request.devices_ids = array;
	admission->called = manager_now();
	return connection_call(connection, METHOD_PRE_START_CONTAINER, &request.base,
		PRE_START_TIMEOUT, on_pre_started, admission);
}

/* Returns 1 if a call is in progress or the start failed, 0 if the resource at the current position
 * needs nothing. */
static int pre_start(struct admission *admission)
{
	const struct model *model = admission->manager->model;
	const struct pod_limit *limit = admission_limit(admission);
	const struct resource *resource = model_find_resource(model, limit->resource);
	const struct allocation *allocation;
	struct connection *connection;

	if (limit->count == 0 || !resource || !resource_is_device_plugin(resource))
		return 0;
	if (!resource->endpoint.present) {
		fail_format(admission, "endpoint not found in cache for a registered resource: %s",
			limit->resource);
		return 1;
	}
	if (!resource->endpoint.options_known || !resource->endpoint.options.pre_start_required)
		return 0;
	allocation = model_find_allocation(
		model, admission->pod->uid, admission_container(admission)->name, limit->resource);
	if (!allocation) {
		fail_format(admission,
			"no devices found allocated in local cache for pod %s, container %s, resource %s",
			admission->pod->uid, admission_container(admission)->name, limit->resource);
		return 1;
	}
	connection = connection_find(admission->manager, resource->endpoint.connection);
	if (resource->endpoint.stopped || !connection) {
		fail_format(admission,
			"device plugin PreStartContainer rpc failed with err: endpoint %s has been stopped",
			resource->endpoint.path);
		return 1;
	}
	if (call_pre_start(admission, connection, allocation) < 0)
		admission_fail_start(admission, "out of memory");
	return 1;
}

static bool lacks_allocation(const struct admission *admission)
{
	const struct model *model = admission->manager->model;
	const struct pod_container *container = admission_container(admission);

	for (size_t i = 0; i < container->n_limits; i++) {
		const struct pod_limit *limit = &container->limits[i];
		const struct resource *resource = model_find_resource(model, limit->resource);

		if (limit->count > 0 && resource && resource_is_device_plugin(resource) &&
			!model_find_allocation(
				model, admission->pod->uid, container->name, limit->resource))
			return true;
	}
	return false;
}

static void next_pre_start(struct admission *admission)
{
	for (; admission->position < admission_container(admission)->n_limits;
		admission->position++)
		if (pre_start(admission) > 0)
			return;
	if (lacks_allocation(admission) && !admission->reallocated) {
		/* The pod was admitted before the kubelet knew the resource. */
		admission->reallocated = true;
		admission_reallocate(admission);
		return;
	}
	create_container(admission);
}

static void on_prepared(struct manager *manager, struct pod *pod, const char *error, void *userdata)
{
	struct admission *admission = userdata;
	_cleanup_free_ char *text = NULL;

	if (!error) {
		next_pre_start(admission);
		return;
	}
	if (asprintf(&text, "Failed to prepare dynamic resources: %s", error) < 0)
		text = NULL;
	fail_with_reason(admission, "FailedPrepareDynamicResources", text ? text : error);
}

void admission_start(struct admission *admission)
{
	if (admission_turn_to(admission, 0) < 0)
		fail_format(admission, "out of memory");
	else if (admission->pod->claims)
		dra_prepare(admission->manager, admission->pod, on_prepared, admission);
	else
		next_pre_start(admission);
}

void admission_go_on(struct admission *admission)
{
	/* The kubelet does not call PreStartContainer again after it allocated missing devices. */
	admission->position = admission_container(admission)->n_limits;
	next_pre_start(admission);
}
