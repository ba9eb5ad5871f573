/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which attributes the supervisor has not received yet. A process that has just started
 * sends those of all devices, because it does not know what an earlier one has sent.
 */
#include "dra/held-attributes.h"

#include "common/control-cluster.h"
#include "common/json-read.h"
#include "common/sealed.h"

/* Until a supervisor that does not read its socket is sent more. */
#define RETRY (10 * USEC_PER_MSEC)

struct held_attributes {
	const char *driver;
	uint64_t number;
	json_t *sent, *due; /* by the name of the device */
	sd_event_source *timer;
};

/* The next devices that are due, a new reference. */
static json_t *take_batch(const struct held_attributes *attributes)
{
	json_t *batch = json_object(), *value;
	const char *name;

	json_object_foreach(attributes->due, name, value)
	{
		if (json_object_size(batch) < CLUSTER_ATTRIBUTES_MAX)
			(void)json_object_set(batch, name, value);
	}
	return batch;
}

static int send_batch(const struct held_attributes *attributes, const json_t *batch)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_ATTRIBUTES);
	_cleanup_free_ char *text = json_dumps(batch, JSON_COMPACT);

	message.driver = attributes->number;
	message.fds[0] = text ? sealed_new("attributes", text, strlen(text)) : -EBADF;
	return message.fds[0] < 0 ? -ENOMEM : control_send(CONTROL_FD, &message);
}

static void send_due(struct held_attributes *attributes)
{
	while (json_object_size(attributes->due) > 0) {
		json_auto_t *batch = take_batch(attributes);
		const char *name;
		json_t *value;

		if (json_object_size(batch) == 0 || send_batch(attributes, batch) < 0) {
			(void)sd_event_source_set_time_relative(attributes->timer, RETRY);
			(void)sd_event_source_set_enabled(attributes->timer, SD_EVENT_ONESHOT);
			return;
		}
		json_object_foreach(batch, name, value)
		{
			(void)json_object_set(attributes->sent, name, value);
			(void)json_object_del(attributes->due, name);
		}
	}
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	send_due(userdata);
	return 0;
}

void held_attributes_set(
	struct held_attributes *attributes, const json_t *names, const json_t *held)
{
	json_t *device, *next;
	const char *name;
	void *at;

	json_object_foreach((json_t *)(uintptr_t)held, name, device)
	{
		json_t *now = json_object_get(json_object_get(names, name), "attributes");

		if (!now || !streq(text_of(device, "driver"), attributes->driver))
			continue;
		if (json_equal(json_object_get(attributes->sent, name), now))
			(void)json_object_del(attributes->due, name);
		else
			(void)json_object_set(attributes->due, name, now);
	}
	json_object_foreach_safe(attributes->sent, at, name, next)
	{
		if (!json_object_get(held, name))
			(void)json_object_del(attributes->sent, name);
	}
	send_due(attributes);
}

int held_attributes_new(
	sd_event *event, const char *driver, uint64_t number, struct held_attributes **ret)
{
	_cleanup_(held_attributes_freep) struct held_attributes *attributes =
		calloc(1, sizeof(*attributes));
	int r;

	if (!attributes)
		return -ENOMEM;
	*attributes = (struct held_attributes){
		.driver = driver, .number = number, .sent = json_object(), .due = json_object()
	};
	if (!attributes->sent || !attributes->due)
		return -ENOMEM;
	r = sd_event_add_time(
		event, &attributes->timer, CLOCK_MONOTONIC, USEC_INFINITY, 0, on_timer, attributes);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(attributes);
	return 0;
}

struct held_attributes *held_attributes_free(struct held_attributes *attributes)
{
	if (!attributes)
		return NULL;
	sd_event_source_disable_unref(attributes->timer);
	json_decref(attributes->sent);
	json_decref(attributes->due);
	free(attributes);
	return NULL;
}
