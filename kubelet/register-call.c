/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers Register calls. They arrive on gRPC's thread, are checked on the main loop and stay open
 * while the plugin is dialled.
 */
#include "kubelet/registrar-parts.h"

#include "deviceplugin.pb-c.h"
#include "kubelet/connection.h"
#include "kubelet/plugin-text.h"
#include "kubelet/registration-check.h"
#include "kubelet/utf8-message.h"
#include "proto/message.h"

static struct register_call *from_base(struct mailbox_message *posted)
{
	return (struct register_call *)(void *)((char *)posted -
		offsetof(struct register_call, base));
}

static void remove_request(struct register_call *request)
{
	struct register_call **r = &request->registrar->requests;

	while (*r != request)
		r = &(*r)->next;
	*r = request->next;
}

static void answer(struct rpc_call *call, enum rpc_status status, const char *error)
{
	/* An Empty has zero bytes. */
	if (error)
		rpc_fail(call, status, error);
	else
		rpc_reply(call, (const uint8_t *)"", 0);
}

static void finish(struct register_call *request, enum rpc_status status, const char *error)
{
	if (request->call) {
		(void)pthread_mutex_lock(&request->registrar->lock);
		remove_request(request);
		(void)pthread_mutex_unlock(&request->registrar->lock);
		answer(request->call, status, error);
	}
	free(request->data);
	free(request);
}

static void answer_request(struct register_request *request, const char *error)
{
	/* The kubelet's handler returns plain errors, which grpc-go sends as this. */
	finish((struct register_call *)request, RPC_UNKNOWN, error);
}

static void refuse(
	struct register_call *request, const V1beta1__RegisterRequest *from, const char *text)
{
	manager_emit(request->registrar->manager,
		json_pack("{s:s, s:o, s:o, s:o, s:o}", "event", "register-refused", "resource",
			text_json(from->resource_name), "endpoint", text_json(from->endpoint),
			"version", text_json(from->version), "error", text_json(text)));
	answer_request(&request->request, text);
}

static void hold(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	request->next_held = request->registrar->held;
	request->registrar->held = request;
}

static void refuse_always(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	refuse(request, from, "this kubelet refuses every registration for now");
}

static void fail_unavailable(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	finish(request, RPC_UNAVAILABLE, "this kubelet is not available for now");
}

static void cut(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	const struct registrar *registrar = request->registrar;

	for (const struct caller *c = registrar->callers; c; c = c->next)
		if (c->number == request->request.caller)
			rpc_server_end_session(registrar->slots[c->slot].server, c->number);
	finish(request, RPC_UNAVAILABLE, "the connection is cut");
}

static void (*const inject[])(
	struct register_call *request, const V1beta1__RegisterRequest *from) = {
	[REGISTER_HELD] = hold,
	[REGISTER_REFUSED] = refuse_always,
	[REGISTER_UNAVAILABLE] = fail_unavailable,
	[REGISTER_RESET] = cut,
};

static void take_request(struct register_call *request, const V1beta1__RegisterRequest *from)
{
	struct manager *manager = request->registrar->manager;
	const struct kubelet_faults *faults = manager->options->faults;
	_cleanup_free_ char *path = NULL;
	struct resource *resource;
	struct error error = {};
	int r;

	manager_emit(manager,
		json_pack("{s:s, s:o, s:o, s:o}", "event", "register", "resource",
			text_json(from->resource_name), "endpoint", text_json(from->endpoint),
			"version", text_json(from->version)));
	if (faults && inject[faults->on_register]) {
		inject[faults->on_register](request, from);
		return;
	}
	if (registration_check(from->version, from->resource_name, &error) < 0) {
		refuse(request, from, error.message);
		return;
	}
	path = endpoint_path(manager->options->plugin_dir, from->endpoint);
	r = path ? model_get_resource(manager->model, from->resource_name, &resource) : -ENOMEM;
	if (r >= 0) {
		resource->registrations++;
		r = connection_start(
			manager, from->resource_name, from->endpoint, path, &request->request);
	}
	if (r < 0)
		refuse(request, from, "out of memory");
}

static void deliver(struct mailbox_message *posted, void *userdata)
{
	struct register_call *request = from_base(posted);
	const struct manager *manager = userdata;
	_cleanup_message_ struct message message = {};

	if (!manager) {
		answer_request(&request->request, "the kubelet stops");
		return;
	}
	message = message_unpack(
		&v1beta1__register_request__descriptor, request->data, request->size);
	if (!message.base)
		finish(request, RPC_INTERNAL,
			"grpc: error unmarshalling request: proto: cannot parse invalid wire-format data");
	else if (manager->model->version->needs_utf8 && !message_is_utf8(message.base))
		finish(request, RPC_INTERNAL,
			"grpc: error unmarshalling request: string field contains invalid UTF-8");
	else
		take_request(request, (const V1beta1__RegisterRequest *)message.base);
}

/* On gRPC's thread. */
void register_call_arrive(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct registrar *registrar = userdata;
	struct register_call *request = calloc(1, sizeof(*request));
	uint8_t *copy = malloc(MAX_OF(size, (size_t)1));
	bool stopping;

	if (!request || !copy) {
		free(request);
		free(copy);
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (size > 0)
		memcpy(copy, data, size);
	request->base.deliver = deliver;
	request->registrar = registrar;
	request->call = call;
	request->request.answer = answer_request;
	request->request.caller = rpc_call_session(call);
	request->data = copy;
	request->size = size;
	(void)pthread_mutex_lock(&registrar->lock);
	stopping = registrar->stopping;
	if (!stopping) {
		request->next = registrar->requests;
		registrar->requests = request;
		mailbox_post(registrar->manager->mailbox, &request->base);
	}
	(void)pthread_mutex_unlock(&registrar->lock);
	if (stopping) {
		rpc_fail(call, RPC_UNAVAILABLE, "the kubelet stops");
		free(copy);
		free(request);
	}
}

void register_calls_stop(struct registrar *registrar)
{
	struct register_call *requests;

	(void)pthread_mutex_lock(&registrar->lock);
	registrar->stopping = true;
	requests = TAKE_PTR(registrar->requests);
	(void)pthread_mutex_unlock(&registrar->lock);
	for (; requests; requests = requests->next)
		answer(TAKE_PTR(requests->call), RPC_UNAVAILABLE, "the kubelet stops");
	for (struct register_call *next, *held = registrar->held; held; held = next) {
		next = held->next_held;
		finish(held, RPC_UNAVAILABLE, "the kubelet stops");
	}
}
