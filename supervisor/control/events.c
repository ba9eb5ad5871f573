/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which events are kept for hosts without a journal, and which are dropped. They are in the
 * order of their numbers in one array; a thousand short entries need no cleverer structure.
 */
#include "supervisor/control/events.h"

#include "common/log.h"
#include "common/text.h"
#include "common/utf8.h"
#include "supervisor/children/manager.h"
#include "supervisor/children/resource.h"

struct event {
	uint64_t number, time; /* CLOCK_REALTIME microseconds */
	int level;
	char *resource, *device; /* NULL: none */
	char message_id[33];
	char *text;
};

struct events {
	struct manager *manager;
	struct event *items; /* EVENTS_MAX */
	size_t count;
	uint64_t last; /* number */
};

static void event_done(struct event *event)
{
	free(event->resource);
	free(event->device);
	free(event->text);
}

static bool is_of_resource(const struct event *event, const char *resource)
{
	return event->resource && streq(event->resource, resource);
}

/* Whether EVENTS_SOURCE_MAX applies to the two together. */
static bool has_same_source(const struct event *event, const struct log_fields *fields)
{
	if (fields->resource)
		return is_of_resource(event, fields->resource);
	return !event->resource && streq(event->message_id, fields->message_id);
}

/* The event to drop for a new one, or `count` if there is room. */
static size_t find_victim(const struct events *events, const struct log_fields *fields)
{
	size_t n = 0, first = events->count;

	for (size_t i = 0; i < events->count; i++) {
		if (!has_same_source(&events->items[i], fields))
			continue;
		if (n++ == 0)
			first = i;
	}
	if (n >= EVENTS_SOURCE_MAX)
		return first;
	return events->count < EVENTS_MAX ? events->count : 0;
}

static void remove_event(struct events *events, size_t i)
{
	event_done(&events->items[i]);
	events->count--;
	memmove(&events->items[i], &events->items[i + 1],
		(events->count - i) * sizeof(struct event));
}

static char *copy(const char *string)
{
	char *result = string ? strdup(string) : NULL;

	if (result)
		text_sanitize(result);
	return result;
}

static void on_log(int level, const struct log_fields *fields, const char *text, void *userdata)
{
	struct events *events = userdata;
	struct event *event;
	size_t victim;

	if (!fields->message_id)
		return;
	victim = find_victim(events, fields);
	if (victim < events->count)
		remove_event(events, victim);
	event = &events->items[events->count++];
	*event = (struct event){
		.number = ++events->last,
		.time = now_usec(CLOCK_REALTIME),
		.level = level,
		.resource = copy(fields->resource),
		.device = copy(fields->device),
		.text = strndup(
			text, utf8_valid_length(text, MIN_OF(strlen(text), EVENT_TEXT_MAX))),
	};
	(void)snprintf(event->message_id, sizeof(event->message_id), "%s", fields->message_id);
	manager_changed(events->manager);
}

static json_t *describe(const struct event *event)
{
	char time[TEXT_TIME_MAX];

	text_time(event->time, time);
	return json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s}", "number", (json_int_t)event->number,
		"time", time, "level", log_level_name(event->level), "resource",
		event->resource ?: "", "device", event->device ?: "", "message_id",
		event->message_id, "text", event->text ?: "");
}

static json_t *select_events(const struct events *events, uint64_t after, const char *resource)
{
	json_t *array = json_array();

	for (size_t i = 0; i < events->count; i++)
		if (events->items[i].number > after &&
			(!resource || is_of_resource(&events->items[i], resource)))
			(void)json_array_append_new(array, describe(&events->items[i]));
	return array;
}

int events_request(struct request *request, json_t **ret_answer, struct error *error)
{
	const struct events *events = request->manager->events;
	json_int_t after = json_integer_value(json_object_get(request->arguments, "after"));
	bool follow = json_is_true(json_object_get(request->arguments, "follow"));
	const char *resource;
	json_t *selected;
	int r;

	r = request_string(request, "resource", &resource, error);
	if (r < 0)
		return r;
	selected = select_events(events, after > 0 ? (uint64_t)after : 0, resource);
	if (json_array_size(selected) == 0 && follow && !request->expired) {
		json_decref(selected);
		return request->manager->stopping
			? error_set(error, -ESHUTDOWN, "devplugd is stopping")
			: REQUEST_LATER;
	}
	*ret_answer = json_pack("{s:o, s:I, s:b}", "events", selected, "last",
		(json_int_t)events->last, "journal", (int)log_is_journal());
	return *ret_answer ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int events_new(struct manager *manager, struct events **ret)
{
	_cleanup_(events_freep) struct events *events = calloc(1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	events->manager = manager;
	events->items = calloc(EVENTS_MAX, sizeof(struct event));
	if (!events->items)
		return -ENOMEM;
	log_set_observer(on_log, events);
	*ret = TAKE_PTR(events);
	return 0;
}

struct events *events_free(struct events *events)
{
	if (!events)
		return NULL;
	log_set_observer(NULL, NULL);
	while (events->count > 0)
		event_done(&events->items[--events->count]);
	free(events->items);
	free(events);
	return NULL;
}
