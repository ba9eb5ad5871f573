/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The five methods of v1beta1.DevicePlugin. Each handler holds a reference of the current offer
 * while it runs; nothing here waits. GetPreferredAllocation is always offered, so that a reload may
 * switch the preference without a new registration (the kubelet reads the options only then), and
 * never fails.
 */
#include "proto/plugin/service.h"

#include <pthread.h>

#include "deviceplugin.pb-c.h"
#include "drivers/allocation-inquiry.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/plugin/announcement.h"
#include "proto/plugin/list-encoder.h"
#include "proto/plugin/preferred.h"
#include "proto/plugin/response.h"

struct service {
	struct rpc_server *server;
	struct mailbox *mailbox;
	struct announcement *announcement;
	const struct service_events *events;
	void *userdata;
	atomic_uint_fast64_t busy_since;

	pthread_mutex_t lock;
	struct offer *offer;
};

struct stream_letter {
	struct letter letter;
	struct service *service;
	uint64_t label;
	bool opened;
};

struct ids_letter {
	struct letter letter;
	struct service *service;
	struct rpc_call *call; /* PreStartContainer only */
	size_t n_ids;
	const char *ids[]; /* the strings follow the array */
};

struct offer *service_current(struct service *service)
{
	struct offer *offer;

	(void)pthread_mutex_lock(&service->lock);
	offer = service->offer ? offer_ref(service->offer) : NULL;
	(void)pthread_mutex_unlock(&service->lock);
	return offer;
}

struct rpc_server *service_server(struct service *service)
{
	return service->server;
}

struct mailbox *service_mailbox(struct service *service)
{
	return service->mailbox;
}

uint64_t service_busy_since(struct service *service)
{
	return atomic_load(&service->busy_since);
}

static void reply_message(struct rpc_call *call, const ProtobufCMessage *message)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;

	if (message_pack(message, &data, &size) < 0)
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		rpc_reply(call, data, size);
}

static void fail_malformed(struct rpc_call *call)
{
	rpc_fail(call, RPC_INVALID_ARGUMENT, "the request is not a message of this method");
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
		rpc_fail(
			letter->call, RPC_UNAVAILABLE, "the plugin stops; the kubelet tries again");
	free(letter);
}

static void handle_options(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size, const struct offer *offer)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	options.pre_start_required = offer->edition->declaration->prestart.command.count > 0;
	options.get_preferred_allocation_available = true;
	reply_message(call, &options.base);
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
	struct error error = {};
	size_t reply_size;
	int r;

	if (!request) {
		fail_malformed(call);
		return;
	}
	if (request->n_container_requests == 0) {
		rpc_fail(call, RPC_INVALID_ARGUMENT, "the request names no container");
		return;
	}
	if (inquiry_is_possible(offer->edition->declaration)) {
		_cleanup_offer_ struct offer *current = service_current(service);

		rpc_call_watch(call, on_allocate_cancelled);
		service->events->on_allocate(
			service->mailbox, current, call, &message, size, service->userdata);
		return;
	}
	r = response_allocate(offer, request, NULL, &reply, &reply_size, &error);
	if (r < 0) {
		response_refuse(call, &error);
		return;
	}
	rpc_reply(call, reply, reply_size);
	for (size_t i = 0; i < request->n_container_requests; i++) {
		const V1beta1__ContainerAllocateRequest *container = request->container_requests[i];
		struct ids_letter *letter = ids_letter_new(service, container->devices_ids,
			container->n_devices_ids, deliver_allocated);

		if (letter)
			mailbox_post(service->mailbox, &letter->letter);
	}
}

static void handle_preferred(struct service *service, struct rpc_call *call, const uint8_t *data,
	size_t size, const struct offer *offer)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1beta1__preferred_allocation_request__descriptor, data, size);
	_cleanup_free_ uint8_t *reply = NULL;
	size_t reply_size;

	/* An error would reject the pod and leak devices: what cannot be answered is answered
	 * empty. */
	if (preferred_pack(offer, (const void *)message.base, &reply, &reply_size) < 0)
		rpc_reply(call, (const uint8_t *)"", 0);
	else
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
	if (offer->edition->declaration->prestart.command.count == 0) {
		reply_message(call, &response.base);
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
		rpc_fail(call, RPC_UNAVAILABLE, "the plugin starts; try again");
	atomic_store(&service->busy_since, 0);
}

#define DEFINE_HANDLER(name)                                                             \
	static void on_##name(                                                           \
		struct rpc_call *call, const uint8_t *data, size_t size, void *userdata) \
	{                                                                                \
		with_offer(userdata, call, data, size, handle_##name);                   \
	}

DEFINE_HANDLER(options)
DEFINE_HANDLER(allocate)
DEFINE_HANDLER(preferred)
DEFINE_HANDLER(pre_start)

static void deliver_stream(struct letter *base, void *userdata)
{
	struct stream_letter *letter = (struct stream_letter *)(void *)base;
	struct service *service = letter->service;

	if (userdata)
		service->events->on_stream(letter->label, letter->opened, service->userdata);
	free(letter);
}

static void post_stream(struct service *service, uint64_t label, bool opened)
{
	struct stream_letter *letter = malloc(sizeof(*letter));

	/* A lost end of a stream is a node at 0 devices: without memory for the letter, end the
	 * process and be started again. */
	if (!letter)
		abort();
	*letter = (struct stream_letter){
		.letter.deliver = deliver_stream,
		.service = service,
		.label = label,
		.opened = opened,
	};
	mailbox_post(service->mailbox, &letter->letter);
}

static void on_stream_opened(uint64_t label, void *userdata)
{
	post_stream(userdata, label, true);
}

static void on_stream_closed(uint64_t label, void *userdata)
{
	post_stream(userdata, label, false);
}

static void on_get_info(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct service *service = userdata;

	announcement_get_info(service->announcement, call);
}

static void on_notify(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct service *service = userdata;

	announcement_take_verdict(service->announcement, call, data, size);
}

static void on_verdict(uint64_t label, bool registered, const char *text, void *userdata)
{
	struct service *service = userdata;

	service->events->on_verdict(label, registered, text, service->userdata);
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_OPTIONS, .on_call = on_options },
	{ .path = METHOD_LIST_AND_WATCH,
		.on_opened = on_stream_opened,
		.on_closed = on_stream_closed },
	{ .path = METHOD_ALLOCATE, .on_call = on_allocate },
	{ .path = METHOD_PREFERRED_ALLOCATION, .on_call = on_preferred },
	{ .path = METHOD_PRE_START_CONTAINER, .on_call = on_pre_start },
	{ .path = METHOD_GET_INFO, .on_call = on_get_info },
	{ .path = METHOD_NOTIFY_REGISTRATION_STATUS, .on_call = on_notify },
};

int service_new(
	sd_event *event, const struct service_events *events, void *userdata, struct service **ret)
{
	struct service *service = calloc(1, sizeof(*service));
	int r;

	if (!service)
		return -ENOMEM;
	(void)pthread_mutex_init(&service->lock, NULL);
	service->events = events;
	service->userdata = userdata;
	r = mailbox_new(event, service, &service->mailbox);
	if (r >= 0)
		r = announcement_new(service->mailbox, on_verdict, service, &service->announcement);
	if (r >= 0)
		r = rpc_start(true);
	if (r >= 0) {
		r = rpc_server_new(event, methods, ARRAY_SIZE(methods), service, &service->server);
		if (r < 0)
			rpc_stop();
	}
	if (r < 0) {
		announcement_free(service->announcement);
		mailbox_free(service->mailbox);
		free(service);
		return r;
	}
	*ret = service;
	return 0;
}

int service_announce(struct service *service, const char *resource, const char *endpoint)
{
	return announcement_set(service->announcement, resource, endpoint);
}

int service_offer(struct service *service, struct offer *offer)
{
	struct offer *previous = service->offer;
	const uint8_t *newest;
	uint8_t *list;
	size_t size, newest_size;
	int r;

	newest = rpc_newest(service->server, &newest_size);
	r = list_encode_change(previous ? previous->snapshot : NULL, newest, newest_size,
		offer->snapshot, &list, &size);
	if (r < 0)
		return r;
	/* Handlers see the new state before the kubelet can act on the new list. */
	(void)pthread_mutex_lock(&service->lock);
	service->offer = offer_ref(offer);
	(void)pthread_mutex_unlock(&service->lock);
	offer_unref(previous);

	if (newest && newest_size == size && memcmp(newest, list, size) == 0) {
		free(list);
		return 0;
	}
	rpc_publish(service->server, list, size);
	return 1;
}

void service_stop(struct service *service, uint64_t grace)
{
	/* Calls in letters that were not fetched are answered by this. */
	mailbox_close(service->mailbox);
	rpc_server_drain(service->server, grace);
}
