/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admits the containers of a pod. An admission goes through the container's limits in arbitrary
 * order, and for each resource makes the choice, calls GetPreferredAllocation if the plugin offers
 * it, calls Allocate, and records the result. Every step ends in a call whose answer continues with
 * the next, or in reject().
 */
#include "kubelet/admission.h"

#include "deviceplugin.pb-c.h"
#include "kubelet/admission-steps.h"
#include "kubelet/connection.h"
#include "kubelet/control-socket.h"
#include "kubelet/missing-device.h"
#include "kubelet/plugin-text.h"
#include "kubelet/pod-file.h"
#include "kubelet/utf8-message.h"
#include "kubelet/view.h"
#include "proto/message.h"
#include "proto/methods.h"

const struct pod_limit *admission_limit(const struct admission *admission)
{
	return &admission_container(admission)->limits[admission->order[admission->position]];
}

void admission_set_status(
	struct admission *admission, enum pod_phase phase, const char *reason, const char *message)
{
	struct error error = {};

	if (pod_set_status(admission->pod, phase, reason, message) < 0 ||
		pod_file_write(admission->manager->model, admission->manager->options->state_dir,
			&error) < 0)
		manager_emit(admission->manager,
			json_pack("{s:s, s:s, s:s}", "event", "error", "pod", admission->pod->name,
				"error", error.code < 0 ? error.message : "out of memory"));
}

static void reject(struct admission *admission, const char *reason, const char *why)
{
	struct manager *manager = admission->manager;
	_cleanup_free_ char *message = NULL;
	const struct pod *pod = admission->pod;

	if (asprintf(&message, "Pod was rejected: %s", why) < 0)
		message = NULL;
	admission_set_status(admission, POD_FAILED, reason, message ? message : "Pod was rejected");
	manager_emit(manager,
		json_pack("{s:s, s:s, s:s, s:s, s:o}", "event", "pod-rejected", "pod", pod->name,
			"namespace", pod->namespace, "reason", reason, "message",
			text_json(message ? message : "Pod was rejected")));
	control_reply(admission->requester, view_pod(manager, pod));
	admission_free(admission);
	manager_changed(manager);
	admission_admit_next(manager);
}

/* The allocation failed, at admission or when a container that had none is started. */
static void fail(struct admission *admission, const char *why)
{
	_cleanup_free_ char *text = NULL;

	if (admission->admitted) {
		admission_fail_start(admission, why);
		return;
	}
	if (asprintf(&text, "Allocate failed due to %s, which is unexpected", why) < 0)
		text = NULL;
	reject(admission, "UnexpectedAdmissionError", text ? text : "out of memory");
}

_printf_(2, 3) static void fail_format(struct admission *admission, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	fail(admission, text ? text : "out of memory");
}

static void finish_allocation(struct admission *admission)
{
	struct manager *manager = admission->manager;
	const struct pod *pod = admission->pod;
	struct error error = {};
	char reason[320];

	if (manager_save(manager, &error) < 0) {
		fail(admission, error.message);
		return;
	}
	if (admission->admitted) {
		admission_go_on(admission);
		return;
	}
	if (model_check_node_fits(manager->model, pod, reason, sizeof(reason), &error) > 0) {
		reject(admission, reason, error.message);
		return;
	}
	admission->admitted = true;
	admission_set_status(admission, POD_RUNNING, NULL, NULL);
	manager_emit(manager,
		json_pack("{s:s, s:s, s:s, s:s}", "event", "pod-admitted", "pod", pod->name,
			"namespace", pod->namespace, "uid", pod->uid));
	manager_changed(manager);
	admission_start(admission);
	admission_admit_next(manager);
}

static void tell_call(
	struct admission *admission, const char *event, const char *error, uint64_t began)
{
	const struct pod_limit *limit = admission_limit(admission);
	json_t *ids = json_array();

	for (size_t i = 0; i < admission->choice.n_taken; i++)
		(void)json_array_append_new(ids, text_json(admission->choice.taken[i]));
	manager_emit(admission->manager,
		json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:o*}", "event", event, "resource",
			limit->resource, "pod", admission->pod->name, "namespace",
			admission->pod->namespace, "devices", ids, "took_usec",
			(json_int_t)(manager_now() - began), "error",
			error ? text_json(error) : NULL));
}

/* Unpacks an answer. If that fails, the message is empty and the text contains the reason. */
static struct message unpack_answer(const struct manager *manager, const struct answer *answer,
	const ProtobufCMessageDescriptor *type, char *text, size_t size)
{
	struct message message = message_unpack(type, answer->data, answer->size);

	if (!message.base)
		answer_describe_unreadable(text, size, -EBADMSG);
	else if (manager->model->version->needs_utf8 && !message_is_utf8(message.base)) {
		message_done(&message);
		answer_describe_unreadable(text, size, -EILSEQ);
	}
	return message;
}

static int record(struct admission *admission, const V1beta1__ContainerAllocateResponse *response)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;
	int r;

	r = message_pack(&response->base, &data, &size);
	if (r < 0)
		return r;
	return model_record_allocation(admission->manager->model, admission->pod->uid,
		admission_container(admission)->name, admission_limit(admission)->resource,
		admission->choice.taken, admission->choice.n_taken, data, size);
}

/* Searches for the NUMA nodes of the devices, as the kubelet does when it records them. Returns
 * whether a missing device ends the kubelet. */
static bool looks_up_missing(struct admission *admission)
{
	struct manager *manager = admission->manager;
	const char *name = admission_limit(admission)->resource;
	const struct resource *resource = model_find_resource(manager->model, name);
	_cleanup_id_set_ struct id_set taken = {};
	struct error error = {};

	for (size_t i = 0; i < admission->choice.n_taken; i++)
		if (id_set_insert(&taken, admission->choice.taken[i]) < 0)
			return false;
	if (!resource ||
		missing_device_check(manager->model, resource, &taken, "allocateContainerResources",
			&error) >= 0)
		return false;
	manager_panic(manager, error.message);
	return true;
}

static void on_allocated(struct manager *manager, const struct answer *answer, void *userdata)
{
	struct admission *admission = userdata;
	_cleanup_message_ struct message message = {};
	const V1beta1__AllocateResponse *reply;
	const char *error = answer->error;
	char text[160];

	if (!error)
		message = unpack_answer(manager, answer, &v1beta1__allocate_response__descriptor,
			text, sizeof(text));
	if (!error && !message.base)
		error = text;
	tell_call(admission, "allocate", error, admission->called);
	if (error) {
		(void)model_recount_allocated(manager->model);
		fail(admission, error);
		return;
	}
	reply = (const V1beta1__AllocateResponse *)message.base;
	if (reply->n_container_responses == 0) {
		/* The chosen devices stay allocated until the kubelet's next recount. */
		fail(admission, "no containers return in allocation response");
		return;
	}
	if (looks_up_missing(admission))
		return;
	if (record(admission, reply->container_responses[0]) < 0) {
		fail(admission, "out of memory");
		return;
	}
	choice_done(&admission->choice);
	admission->position++;
	admission_next_resource(admission);
}

/* The connection to call for the current resource, or NULL after the failure was handled. */
static struct connection *find_plugin(struct admission *admission, const char *prefix)
{
	struct manager *manager = admission->manager;
	const char *name = admission_limit(admission)->resource;
	const struct resource *resource = model_find_resource(manager->model, name);
	struct connection *connection;

	if (!resource || !resource->endpoint.present) {
		(void)model_recount_allocated(manager->model);
		fail_format(admission, "unknown Device Plugin %s", name);
		return NULL;
	}
	connection = connection_find(manager, resource->endpoint.connection);
	if (connection && !resource->endpoint.stopped)
		return connection;
	(void)model_recount_allocated(manager->model);
	fail_format(admission, "%sendpoint %s has been stopped", prefix,
		resource->endpoint.path ? resource->endpoint.path : name);
	return NULL;
}

static void allocate(struct admission *admission)
{
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = { &container };
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	struct connection *connection = find_plugin(admission, "");

	if (!connection)
		return;
	container.n_devices_ids = admission->choice.n_taken;
	container.devices_ids = admission->choice.taken;
	request.n_container_requests = 1;
	request.container_requests = containers;
	admission->called = manager_now();
	if (connection_call(
		    connection, METHOD_ALLOCATE, &request.base, 0, on_allocated, admission) < 0)
		fail(admission, "out of memory");
}

static void on_preferred(struct manager *manager, const struct answer *answer, void *userdata)
{
	struct admission *admission = userdata;
	_cleanup_message_ struct message message = {};
	const V1beta1__PreferredAllocationResponse *reply;
	const V1beta1__ContainerPreferredAllocationResponse empty =
		V1BETA1__CONTAINER_PREFERRED_ALLOCATION_RESPONSE__INIT;
	const V1beta1__ContainerPreferredAllocationResponse *preferred = &empty;
	const char *failure = answer->error;
	struct error error = {};
	char text[160];

	if (!failure)
		message = unpack_answer(manager, answer,
			&v1beta1__preferred_allocation_response__descriptor, text, sizeof(text));
	if (!failure && !message.base)
		failure = text;
	tell_call(admission, "prefer", failure, admission->called);
	if (failure) {
		fail_format(admission,
			"device plugin GetPreferredAllocation rpc failed with err: %s", failure);
		return;
	}
	reply = (const V1beta1__PreferredAllocationResponse *)message.base;
	if (reply->n_container_responses > 0)
		preferred = reply->container_responses[0];
	if (choice_finish(manager->model, admission_limit(admission)->resource, &admission->choice,
		    preferred->deviceids, preferred->n_deviceids, &error) < 0)
		fail(admission, error.message);
	else
		allocate(admission);
}

static void prefer(struct admission *admission)
{
	V1beta1__ContainerPreferredAllocationRequest container =
		V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest *containers[] = { &container };
	V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
	struct connection *connection = find_plugin(
		admission, "device plugin GetPreferredAllocation rpc failed with err: ");

	if (!connection)
		return;
	container.n_available_deviceids = admission->choice.n_offered;
	container.available_deviceids = admission->choice.available;
	container.n_must_include_deviceids = admission->choice.n_must;
	container.must_include_deviceids = admission->choice.available;
	container.allocation_size = (int32_t)admission->choice.required;
	request.n_container_requests = 1;
	request.container_requests = containers;
	admission->called = manager_now();
	if (connection_call(connection, METHOD_PREFERRED_ALLOCATION, &request.base, 0, on_preferred,
		    admission) < 0)
		fail(admission, "out of memory");
}

static int begin_choice(struct admission *admission, struct error *error)
{
	struct model *model = admission->manager->model;
	const struct pod_limit *limit = admission_limit(admission);
	_cleanup_id_set_ struct id_set reusable = {};

	if (model_reusable_devices(
		    model, admission->pod, admission->container, limit->resource, &reusable) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return choice_begin(model, admission->pod->uid, admission_container(admission)->name,
		limit->resource, limit->count, &reusable, &admission_container(admission)->topology,
		&admission->choice, error);
}

/* Before the first device of a container is chosen. */
static int find_nodes(struct admission *admission, struct error *error)
{
	int r;

	if (admission->admitted || admission->position > 0)
		return 0;
	r = topology_admit(admission->manager->model, admission->pod, admission->container, error);
	if (r < 0)
		return r;
	return r > 0 ? 0 : error_set(error, -EXDEV, TOPOLOGY_MESSAGE);
}

/* Finds the next resource that needs a call, in this container or, at admission, in a later one. */
static int find_next_choice(struct admission *admission, struct error *error)
{
	for (;;) {
		size_t n_limits = admission_container(admission)->n_limits;
		int r = find_nodes(admission, error);

		if (r < 0)
			return r;
		for (; admission->position < n_limits; admission->position++) {
			r = begin_choice(admission, error);
			if (r != CHOICE_NOTHING)
				return r;
		}
		if (admission->admitted || admission->container + 1 == admission->pod->n_containers)
			return CHOICE_NOTHING;
		if (admission_turn_to(admission, admission->container + 1) < 0)
			return error_set(error, -ENOMEM, "out of memory");
	}
}

void admission_next_resource(struct admission *admission)
{
	struct error error = {};
	int r = find_next_choice(admission, &error);

	if (r == -EFAULT)
		manager_panic(admission->manager, error.message);
	else if (r == -EXDEV)
		reject(admission, TOPOLOGY_REASON, error.message);
	else if (r < 0)
		fail(admission, error.message);
	else if (r == CHOICE_PREFER)
		prefer(admission);
	else if (r == CHOICE_ALLOCATE)
		allocate(admission);
	else
		finish_allocation(admission);
}

void admission_reallocate(struct admission *admission)
{
	admission->position = 0;
	admission_next_resource(admission);
}
