/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of v1beta1.DevicePlugin that have one answer. Each handler holds a reference of the
 * current offer while it runs, and none blocks. GetPreferredAllocation is always offered, so that a
 * reload may change the preference without a new registration (the kubelet reads the options only
 * then), and never fails.
 */
#include "proto/plugin/service-calls.h"

#include "common/counters.h"
#include "deviceplugin.pb-c.h"
#include "drivers/allocation/allocation-inquiry.h"
#include "proto/message.h"
#include "proto/plugin/call-failed.h"
#include "proto/plugin/preferred.h"
#include "proto/plugin/response.h"

struct ids_letter {
	struct letter letter;
	struct service *service;
	struct rpc_call *call; /* PreStartContainer only */
	size_t n_ids;
	const char *ids[]; /* the strings follow the array */
};

static void fail_malformed(struct rpc_call *call)
{
	rpc_fail(call, RPC_INVALID_ARGUMENT, "the request is not valid for this method");
}

/* A letter with a copy of the ids, or NULL. */
static struct ids_letter *ids_letter_new(struct service *service, char *const *ids, size_t n_ids,
	void (*deliver)(struct letter *letter, void *userdata))
{
	struct ids_letter *letter;
	size_t bytes = 0;
	char *p;

	for (size_t i = 0; i < n_ids; i++)
		bytes += strlen(ids[i]) + 1;
	letter = malloc(sizeof(*letter) + n_ids * sizeof(letter->ids[0]) + bytes);
	if (!letter)
		return NULL;
	letter->letter.deliver = deliver;
	letter->service = service;
	letter->call = NULL;
	letter->n_ids = n_ids;
	p = (char *)&letter->ids[n_ids];
	for (size_t i = 0; i < n_ids; i++) {
		letter->ids[i] = p;
		p = stpcpy(p, ids[i]) + 1;
	}
	return letter;
}

static void deliver_allocated(struct letter *base, void *userdata)
{
	struct ids_letter *letter = (struct ids_letter *)(void *)base;
	struct service *service = letter->service;

	if (userdata)
		service->events->on_allocated(letter->ids, letter->n_ids, service->userdata);
	free(letter);
}

static void deliver_pre_start(struct letter *base, void *userdata)
{
	struct ids_letter *letter = (struct ids_letter *)(void *)base;
	struct service *service = letter->service;

	if (userdata)
		service->events->on_pre_start(
			letter->call, letter->ids, letter->n_ids, service->userdata);
	else
		rpc_fail(letter->call, RPC_UNAVAILABLE, "the plugin stops; the kubelet retries");
	free(letter);
}

static void handle_options(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size, const struct offer *offer)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	options.pre_start_required = offer->applied_config->declaration->prestart.command.count > 0;
	options.get_preferred_allocation_available = true;
	message_reply(call, &options.base);
}

static void on_allocate_cancelled(struct rpc_call *call, void *userdata)
{
	struct service *service = userdata;

	service->events->on_cancelled(service->mailbox, call, service->userdata);
}

static void handle_allocate(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size, const struct offer *offer)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1beta1__allocate_request__descriptor, data, size);
	const V1beta1__AllocateRequest *request = (const void *)message.base;
	_cleanup_free_ uint8_t *reply = NULL;
	uint64_t begin = now_usec(CLOCK_MONOTONIC);
	struct error error = {};
	size_t reply_size;
	int r;

	if (!request) {
		fail_malformed(call);
		return;
	}
	if (request->n_container_requests == 0) {
		rpc_fail(call, RPC_INVALID_ARGUMENT, "the request has no container");
		return;
	}
	if (request->n_container_requests > SERVICE_CONTAINERS_MAX) {
		rpc_fail(call, RPC_INVALID_ARGUMENT,
			"the request has more than 1024 containers; a kubelet sends one");
		return;
	}
	if (inquiry_is_possible(offer->applied_config->declaration)) {
		_cleanup_offer_ struct offer *current = service_current(service);

		rpc_call_watch(call, on_allocate_cancelled);
		service->events->on_allocate(
			service->mailbox, current, call, &message, size, service->userdata);
		return;
	}
	r = response_allocate(offer, request, NULL, &reply, &reply_size, &error);
	counters_add_allocation(r >= 0, now_usec(CLOCK_MONOTONIC) - begin);
	if (r < 0) {
		response_refuse(call, request, &error);
		return;
	}
	/* Before the answer: what the kubelet books is known to be. */
	for (size_t i = 0; i < request->n_container_requests; i++) {
		const V1beta1__ContainerAllocateRequest *container = request->container_requests[i];
		struct ids_letter *letter = ids_letter_new(service, container->devices_ids,
			container->n_devices_ids, deliver_allocated);

		if (letter)
			mailbox_post(service->mailbox, &letter->letter);
	}
	rpc_reply(call, reply, reply_size);
}

static void handle_preferred(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size, const struct offer *offer)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1beta1__preferred_allocation_request__descriptor, data, size);
	_cleanup_free_ uint8_t *reply = NULL;
	size_t reply_size;

	counters_add(COUNTER_PREFERRED_ALLOCATIONS, 1);
	/* An error would reject the pod and leak devices: what cannot be answered is answered
	 * empty. */
	if (preferred_pack(offer, (const void *)message.base, &reply, &reply_size) < 0) {
		call_failed(CONTROL_CALL_PREFER, NULL, 0, "out of memory");
		rpc_reply(call, (const uint8_t *)"", 0);
	} else
		rpc_reply(call, reply, reply_size);
}

static void handle_pre_start(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size, const struct offer *offer)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1beta1__pre_start_container_request__descriptor, data, size);
	const V1beta1__PreStartContainerRequest *request = (const void *)message.base;
	V1beta1__PreStartContainerResponse response = V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;
	struct ids_letter *letter;

	if (!request) {
		fail_malformed(call);
		return;
	}
	if (offer->applied_config->declaration->prestart.command.count == 0) {
		message_reply(call, &response.base);
		return;
	}
	letter = ids_letter_new(
		service, request->devices_ids, request->n_devices_ids, deliver_pre_start);
	if (!letter) {
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	letter->call = call;
	mailbox_post(service->mailbox, &letter->letter);
}

/* Runs a handler with the current offer, and lets the watchdog see how long it takes. */
static void with_offer(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size,
	void (*handle)(struct service *service, struct rpc_call *call, const uint8_t *data,
		size_t size, const struct offer *offer))
{
	_cleanup_offer_ struct offer *offer = service_current(service);

	atomic_store(&service->busy_since, now_usec(CLOCK_MONOTONIC));
	if (offer)
		handle(service, call, data, size, offer);
	else
		rpc_fail(call, RPC_UNAVAILABLE, "the plugin is starting; retry");
	atomic_store(&service->busy_since, 0);
}

#define DEFINE_HANDLER(name)                                                             \
	void service_on_##name(                                                          \
		struct rpc_call *call, const uint8_t *data, size_t size, void *userdata) \
	{                                                                                \
		with_offer(userdata, call, data, size, handle_##name);                   \
	}

DEFINE_HANDLER(options)
DEFINE_HANDLER(allocate)
DEFINE_HANDLER(preferred)
DEFINE_HANDLER(pre_start)
