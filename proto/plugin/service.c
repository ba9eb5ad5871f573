/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manages a resource's server: its current offer and the streams of its list. service-calls.c
 * answers its calls.
 */
#include "proto/plugin/service.h"

#include "common/counters.h"

#include "proto/methods.h"
#include "proto/plugin/list-encoder.h"
#include "proto/plugin/service-calls.h"

struct stream_message {
	struct mailbox_message base;
	struct service *service;
	uint64_t label;
	bool opened;
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

uint64_t service_busy_since(struct service *service)
{
	return atomic_load(&service->busy_since);
}

static void deliver_stream(struct mailbox_message *base, void *userdata)
{
	struct stream_message *posted = (struct stream_message *)(void *)base;
	struct service *service = posted->service;

	if (userdata)
		service->events->on_stream(posted->label, posted->opened, service->userdata);
	free(posted);
}

static void post_stream(struct service *service, uint64_t label, bool opened)
{
	struct stream_message *posted = malloc(sizeof(*posted));

	/* If the end of a stream is lost, the node stays at 0 devices. So without memory for the
	 * message, the process ends and is started again. */
	if (!posted)
		abort();
	*posted = (struct stream_message){
		.base.deliver = deliver_stream,
		.service = service,
		.label = label,
		.opened = opened,
	};
	mailbox_post(service->mailbox, &posted->base);
}

static void on_stream_opened(uint64_t label, void *userdata)
{
	post_stream(userdata, label, true);
}

static void on_stream_closed(uint64_t label, void *userdata)
{
	post_stream(userdata, label, false);
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_OPTIONS, .on_call = service_on_options },
	{ .path = METHOD_LIST_AND_WATCH,
		.on_opened = on_stream_opened,
		.on_closed = on_stream_closed },
	{ .path = METHOD_ALLOCATE, .on_call = service_on_allocate },
	{ .path = METHOD_PREFERRED_ALLOCATION, .on_call = service_on_preferred },
	{ .path = METHOD_PRE_START_CONTAINER, .on_call = service_on_pre_start },
};

int service_new(
	sd_event *event, const struct service_events *events, void *userdata, struct service **ret)
{
	struct service *service = calloc(1, sizeof(*service));
	int r;

	if (!service)
		return -ENOMEM;
	(void)pthread_mutex_init(&service->lock, NULL);
	service->unsettled_end = &service->unsettled;
	service->events = events;
	service->userdata = userdata;
	r = mailbox_new(event, service, &service->mailbox);
	if (r >= 0)
		r = rpc_start();
	if (r >= 0) {
		r = rpc_server_new(event, methods, ARRAY_SIZE(methods), service, &service->server);
		if (r < 0)
			rpc_stop();
	}
	if (r < 0) {
		mailbox_free(service->mailbox);
		free(service);
		return r;
	}
	*ret = service;
	return 0;
}

/* A resource that DRA serves has no list, so the limit of a list does not apply to it. */
static int encode(const struct offer *offer, uint8_t **ret_list, size_t *ret_size)
{
	struct snapshot no_devices = { 0 };
	const struct offer none = { .snapshot = &no_devices };
	bool listed = offer->applied_config->declaration->serve != SERVE_DRA;

	return list_encode(listed ? offer : &none, ret_list, ret_size);
}

int service_offer(struct service *service, struct offer *offer)
{
	struct offer *previous = service->offer;
	const uint8_t *newest;
	uint8_t *list;
	size_t size, newest_size;
	int r;

	r = encode(offer, &list, &size);
	if (r < 0)
		return r;
	/* Handlers see the new state before the kubelet can act on the new list. */
	(void)pthread_mutex_lock(&service->lock);
	service->offer_owed = service_drops_unsettled(service, offer->snapshot);
	if (!service->offer_owed)
		service->offer = offer_ref(offer);
	(void)pthread_mutex_unlock(&service->lock);
	if (service->offer_owed) {
		free(list);
		return -EBUSY;
	}
	offer_unref(previous);

	newest = rpc_newest(service->server, &newest_size);
	if (newest && newest_size == size && memcmp(newest, list, size) == 0) {
		free(list);
		return 0;
	}
	counters_add(COUNTER_LIST_UPDATES, 1);
	rpc_publish(service->server, list, size);
	return 1;
}

int service_list_again(struct service *service)
{
	const uint8_t *newest;
	uint8_t *list;
	size_t size;

	newest = rpc_newest(service->server, &size);
	if (!newest)
		return 0;
	list = malloc(size + 1);
	if (!list)
		return -ENOMEM;
	memcpy(list, newest, size);
	counters_add(COUNTER_LIST_UPDATES, 1);
	rpc_publish(service->server, list, size);
	return 1;
}

void service_stop(struct service *service, uint64_t grace)
{
	/* Calls in messages that were not fetched are answered by this. */
	mailbox_close(service->mailbox);
	rpc_server_drain(service->server, grace);
}
