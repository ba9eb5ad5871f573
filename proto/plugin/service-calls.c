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

struct ids_message {
	struct mailbox_message base;
	struct service *service;
	struct rpc_call *call;              /* PreStartContainer only */
	struct ids_message *next_unsettled; /* Allocate only */
	size_t n_ids;
	const char *ids[]; /* the strings follow the array */
};

struct cancel_message {
	struct mailbox_message base;
	struct service *service;
	const struct rpc_call *call;
};

static void fail_malformed(struct rpc_call *call)
{
	rpc_fail(call, RPC_INVALID_ARGUMENT, "the request is not valid for this method");
}

/* A message with room for `n_ids` ids of `bytes` bytes in total, or NULL. */
static struct ids_message *ids_message_new(struct service *service, size_t n_ids, size_t bytes,
	void (*deliver)(struct mailbox_message *posted, void *userdata))
{
	struct ids_message *posted =
		malloc(sizeof(*posted) + n_ids * sizeof(posted->ids[0]) + bytes);

	if (!posted)
		return NULL;
	posted->base.deliver = deliver;
	posted->service = service;
	posted->call = NULL;
	posted->next_unsettled = NULL;
	posted->n_ids = 0;
	return posted;
}

static size_t ids_bytes(char *const *ids, size_t n_ids)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n_ids; i++)
		bytes += strlen(ids[i]) + 1;
	return bytes;
}

/* Copies the ids, and their strings to `p`. Returns the end of the copied strings. */
static char *ids_message_add(struct ids_message *posted, char *const *ids, size_t n_ids, char *p)
{
	for (size_t i = 0; i < n_ids; i++) {
		posted->ids[posted->n_ids++] = p;
		p = stpcpy(p, ids[i]) + 1;
	}
	return p;
}

static void deliver_cancelled(struct mailbox_message *base, void *userdata)
{
	struct cancel_message *posted = (struct cancel_message *)(void *)base;
	struct service *service = posted->service;

	if (userdata)
		service->events->on_cancelled(posted->call, service->userdata);
	free(posted);
}

static void on_cancelled(struct rpc_call *call, void *userdata)
{
	struct service *service = userdata;
	struct cancel_message *posted = malloc(sizeof(*posted));

	/* Without memory, the programs end at their time limit. */
	if (!posted)
		return;
	*posted = (struct cancel_message){
		.base.deliver = deliver_cancelled,
		.service = service,
		.call = call,
	};
	mailbox_post(service->mailbox, &posted->base);
}

static void deliver_pre_start(struct mailbox_message *base, void *userdata)
{
	struct ids_message *posted = (struct ids_message *)(void *)base;
	struct service *service = posted->service;

	if (userdata)
		service->events->on_pre_start(
			posted->call, posted->ids, posted->n_ids, service->userdata);
	else
		rpc_fail(posted->call, RPC_UNAVAILABLE,
			"the plugin is stopping; the kubelet will retry");
	free(posted);
}

static void handle_options(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size, const struct offer *offer)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	options.pre_start_required = declaration_pre_starts(offer->applied_config->declaration);
	options.get_preferred_allocation_available = true;
	message_reply(call, &options.base);
}

/* --- Allocate --- */

static bool is_listed(const struct snapshot *snapshot, const char *id)
{
	unsigned replica;
	size_t unit;

	return snapshot_find(snapshot, id, &unit, &replica) >= 0 &&
		!snapshot_withholds(snapshot, unit, id);
}

bool service_drops_unsettled(const struct service *service, const struct snapshot *snapshot)
{
	for (const struct ids_message *posted = service->unsettled; posted;
		posted = posted->next_unsettled)
		for (size_t i = 0; i < posted->n_ids; i++)
			if (is_listed(service->offer->snapshot, posted->ids[i]) &&
				!is_listed(snapshot, posted->ids[i]))
				return true;
	return false;
}

/* Makes every later offer contain the call's devices. Returns false if the offer was already
 * replaced. */
static bool begin_settling(
	struct service *service, const struct offer *offer, struct ids_message *posted)
{
	bool current;

	(void)pthread_mutex_lock(&service->lock);
	current = service->offer == offer;
	if (current) {
		*service->unsettled_end = posted;
		service->unsettled_end = &posted->next_unsettled;
	}
	(void)pthread_mutex_unlock(&service->lock);
	return current;
}

static void end_settling(struct service *service, const struct ids_message *posted)
{
	struct ids_message **p = &service->unsettled;

	(void)pthread_mutex_lock(&service->lock);
	while (*p != posted)
		p = &(*p)->next_unsettled;
	*p = posted->next_unsettled;
	if (!*p)
		service->unsettled_end = p;
	(void)pthread_mutex_unlock(&service->lock);
}

/* By now its ids are booked or, while programs run, pending. */
static void deliver_settled(struct mailbox_message *base, void *userdata)
{
	struct ids_message *posted = (struct ids_message *)(void *)base;
	struct service *service = posted->service;

	end_settling(service, posted);
	free(posted);
	if (!userdata || !service->offer_owed)
		return;
	service->offer_owed = false;
	service->events->on_offer_possible(service->userdata);
}

static void deliver_allocated(struct mailbox_message *base, void *userdata)
{
	struct ids_message *posted = (struct ids_message *)(void *)base;
	struct service *service = posted->service;

	if (userdata)
		service->events->on_allocated(posted->ids, posted->n_ids, service->userdata);
	deliver_settled(base, userdata);
}

static void deliver_refused(struct mailbox_message *base, void *userdata)
{
	struct ids_message *posted = (struct ids_message *)(void *)base;
	struct service *service = posted->service;

	if (userdata)
		service->events->on_refused(posted->ids, posted->n_ids, service->userdata);
	free(posted);
}

static struct ids_message *allocate_message(struct service *service,
	const V1beta1__AllocateRequest *request,
	void (*deliver)(struct mailbox_message *posted, void *userdata))
{
	size_t n = request->n_container_requests, n_ids = 0, bytes = 0;
	struct ids_message *posted;
	char *p;

	for (size_t i = 0; i < n; i++) {
		const V1beta1__ContainerAllocateRequest *container = request->container_requests[i];

		n_ids += container->n_devices_ids;
		bytes += ids_bytes(container->devices_ids, container->n_devices_ids);
	}
	posted = ids_message_new(service, n_ids, bytes, deliver);
	p = posted ? (char *)&posted->ids[n_ids] : NULL;
	for (size_t i = 0; posted && i < n; i++)
		p = ids_message_add(posted, request->container_requests[i]->devices_ids,
			request->container_requests[i]->n_devices_ids, p);
	return posted;
}

/* Returns false if the offer was replaced meanwhile. */
static bool allocate_with_programs(struct service *service, struct offer *offer,
	struct rpc_call *call, struct message *message, size_t size)
{
	_cleanup_free_ struct ids_message *posted =
		allocate_message(service, (const void *)message->base, deliver_settled);

	if (!posted) {
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return true;
	}
	if (!begin_settling(service, offer, posted))
		return false;
	rpc_call_watch(call, on_cancelled);
	service->events->on_allocate(
		service->mailbox, offer, call, message, size, service->userdata);
	mailbox_post(service->mailbox, &TAKE_PTR(posted)->base);
	return true;
}

/* Returns false if the offer was replaced meanwhile. */
static bool allocate_now(struct service *service, struct offer *offer, struct rpc_call *call,
	const V1beta1__AllocateRequest *request, uint64_t since)
{
	_cleanup_free_ struct ids_message *posted =
		allocate_message(service, request, deliver_allocated);
	_cleanup_free_ uint8_t *reply = NULL;
	struct error error = {};
	size_t size;
	int r;

	r = posted ? response_allocate(offer, request, NULL, NULL, &reply, &size, &error)
		   : error_set(&error, -ENOMEM, "out of memory");
	if (r >= 0 && !begin_settling(service, offer, posted))
		return false;
	counters_add_allocation(r >= 0, now_usec(CLOCK_MONOTONIC) - since);
	if (r < 0) {
		response_refuse(call, request, &error);
		if (!posted || !offer->readmitted)
			return true;
		posted->base.deliver = deliver_refused;
		mailbox_post(service->mailbox, &TAKE_PTR(posted)->base);
		return true;
	}
	/* The order matters: the message ends what keeps the devices listed until they are
	 * booked. */
	rpc_reply(call, reply, size);
	mailbox_post(service->mailbox, &TAKE_PTR(posted)->base);
	return true;
}

static bool try_allocate(struct service *service, struct rpc_call *call, struct message *message,
	size_t size, uint64_t since)
{
	_cleanup_offer_ struct offer *offer = service_current(service);

	if (inquiry_is_possible(offer->applied_config->declaration) ||
		declaration_asks_use(offer->applied_config->declaration))
		return allocate_with_programs(service, offer, call, message, size);
	return allocate_now(service, offer, call, (const void *)message->base, since);
}

static void handle_allocate(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size, const struct offer *offer)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1beta1__allocate_request__descriptor, data, size);
	const V1beta1__AllocateRequest *request = (const void *)message.base;
	uint64_t since = now_usec(CLOCK_MONOTONIC);

	if (!request)
		fail_malformed(call);
	else if (request->n_container_requests == 0)
		rpc_fail(call, RPC_INVALID_ARGUMENT, "the request names no container");
	else if (request->n_container_requests > SERVICE_CONTAINERS_MAX)
		rpc_fail(call, RPC_INVALID_ARGUMENT,
			"the request names more than 1024 containers; a kubelet names one");
	else
		while (!try_allocate(service, call, &message, size, since))
			;
}

/* --- the other methods --- */

static void handle_preferred(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size, const struct offer *offer)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1beta1__preferred_allocation_request__descriptor, data, size);
	_cleanup_free_ uint8_t *reply = NULL;
	size_t reply_size;

	counters_add(COUNTER_PREFERRED_ALLOCATIONS, 1);
	/* An error would reject the pod and leak devices, so a failure gives an empty answer. */
	if (preferred_pack(offer, (const void *)message.base, &reply, &reply_size) < 0) {
		call_failed(CHILD_CALL_PREFER, NULL, 0, "out of memory");
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
	struct ids_message *posted;

	if (!request) {
		fail_malformed(call);
		return;
	}
	if (!declaration_pre_starts(offer->applied_config->declaration)) {
		message_reply(call, &response.base);
		return;
	}
	posted = ids_message_new(service, request->n_devices_ids,
		ids_bytes(request->devices_ids, request->n_devices_ids), deliver_pre_start);
	if (!posted) {
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	(void)ids_message_add(posted, request->devices_ids, request->n_devices_ids,
		(char *)&posted->ids[request->n_devices_ids]);
	posted->call = call;
	rpc_call_watch(call, on_cancelled);
	mailbox_post(service->mailbox, &posted->base);
}

/* Runs a handler with the current offer, and records its start for the watchdog. */
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
