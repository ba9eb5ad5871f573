/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when an Event is written and when it is counted in one that was written before. Requests
 * are sent one after the other. An Event about a pod needs the pod's UID, so a pod whose UID is not
 * known is read first.
 */
#include "dra/node-events.h"

#include <sys/random.h>

#include "common/json-read.h"
#include "common/log.h"
#include "common/text.h"
#include "dra/model/dra-names.h"

#define NAMES_MAX    253
#define OBJECT_SHOWN ((size_t)230)
#define MESSAGE_MAX  1024

enum step { STEP_IDLE, STEP_POD, STEP_CREATE, STEP_REPEAT };

/* Occurrences of one thing. */
struct entry {
	char *key; /* what distinguishes it from others */
	char reason[64], message[MESSAGE_MAX];
	char *namespace, *pod; /* NULL: the Node */
	char *uid;             /* of the pod; NULL: not read yet */
	bool uid_given;        /* the UID is not read */
	char *name;            /* of the Event that was written; NULL: none */
	bool warning;
	unsigned pending;           /* occurrences that are not written yet */
	unsigned sending;           /* pending ones in the request */
	unsigned written;           /* occurrences in the Event */
	uint64_t first_at, last_at; /* CLOCK_REALTIME: of the Event, and the last occurrence */
	uint64_t noted_at;          /* CLOCK_MONOTONIC: the first pending occurrence */
	uint64_t sent_at;           /* CLOCK_MONOTONIC: the last write; 0: none */
	uint64_t tokens_at;         /* as that of all Events */
};

struct node_events {
	struct dra_api *api;
	const char *node;
	node_events_handler on_result;
	void *userdata;
	sd_event_source *timer;
	struct entry **entries;
	size_t n_entries;
	enum step step;
	struct entry *current; /* that the request is about */
	uint64_t tokens_at;    /* CLOCK_MONOTONIC: when the last of all tokens is there again */
	uint64_t not_before;   /* CLOCK_MONOTONIC: after a failure */
	uint64_t delay;        /* of the last retry; 0: none */
	struct log_once logged;
};

static void plan(struct node_events *events);

/* --- entries --- */

static struct entry *entry_free(struct entry *entry)
{
	free(entry->key);
	free(entry->namespace);
	free(entry->pod);
	free(entry->uid);
	free(entry->name);
	free(entry);
	return NULL;
}

static void drop(struct node_events *events, struct entry *entry)
{
	for (size_t i = 0; i < events->n_entries; i++)
		if (events->entries[i] == entry) {
			events->entries[i] = events->entries[--events->n_entries];
			(void)entry_free(entry);
			return;
		}
}

/* Forgets what happened long ago, and what could not be written for long. */
static void drop_old(struct node_events *events, uint64_t now)
{
	for (size_t i = events->n_entries; i-- > 0;) {
		struct entry *entry = events->entries[i];
		uint64_t since = entry->pending > 0 ? entry->noted_at : entry->sent_at;

		if (entry != events->current && now - since > NODE_EVENTS_AGE)
			drop(events, entry);
	}
}

static struct entry *find(const struct node_events *events, const char *key)
{
	for (size_t i = 0; i < events->n_entries; i++)
		if (streq(events->entries[i]->key, key))
			return events->entries[i];
	return NULL;
}

static int add(struct node_events *events, const struct node_event *event, const char *key,
	struct entry **ret)
{
	struct entry *entry;
	int r;

	r = array_reserve((void **)&events->entries, events->n_entries, sizeof(struct entry *));
	if (r < 0)
		return r;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	entry->key = strdup(key);
	entry->uid_given = event->pod && event->uid;
	if (entry->uid_given)
		entry->uid = strdup(event->uid);
	if (event->pod) {
		entry->namespace = strdup(event->namespace);
		entry->pod = strdup(event->pod);
	}
	if (!entry->key || (event->pod && (!entry->namespace || !entry->pod)) ||
		(entry->uid_given && !entry->uid)) {
		(void)entry_free(entry);
		return -ENOMEM;
	}
	(void)snprintf(entry->reason, sizeof(entry->reason), "%s", event->reason);
	entry->warning = event->warning;
	events->entries[events->n_entries++] = entry;
	*ret = entry;
	return 0;
}

/* --- requests --- */

static void request(struct node_events *events, enum step step, const char *method,
	const char *path, const json_t *body, dra_answer_handler on_answer)
{
	events->step = step;
	if (dra_api_request(events->api, method, path, body, on_answer, events) >= 0)
		return;
	events->step = STEP_IDLE;
	events->not_before = now_usec(CLOCK_MONOTONIC) + USEC_PER_SEC;
	plan(events);
}

static void finish(struct node_events *events, const struct dra_answer *answer)
{
	struct entry *entry = TAKE_PTR(events->current);
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	events->step = STEP_IDLE;
	if (dra_api_is_outage(answer))
		events->not_before = now + dra_api_retry_delay(&events->delay, answer);
	else
		events->delay = 0;
	if (answer->failure && !dra_api_is_outage(answer))
		drop(events, entry);
	events->on_result(answer->failure ?: "", events->userdata);
	plan(events);
}

static void on_written(const struct dra_answer *answer, void *userdata)
{
	struct node_events *events = userdata;
	struct entry *entry = events->current;

	/* It has expired. */
	if (events->step == STEP_REPEAT && answer->code == 404) {
		free(TAKE_PTR(entry->name));
		entry->written = 0;
		events->current = NULL;
		events->step = STEP_IDLE;
		plan(events);
		return;
	}
	if (!answer->failure) {
		entry->written += entry->sending;
		entry->pending -= entry->sending;
		entry->sent_at = now_usec(CLOCK_MONOTONIC);
		events->tokens_at = MAX_OF(events->tokens_at, entry->sent_at) + NODE_EVENTS_REFILL;
		entry->tokens_at = MAX_OF(entry->tokens_at, entry->sent_at) + NODE_EVENTS_PAUSE;
	}
	finish(events, answer);
}

/* Another name for each Event: of the object, and a number. */
static char *make_name(const struct node_events *events, const struct entry *entry)
{
	uint64_t number = now_usec(CLOCK_REALTIME);
	const char *object = entry->pod ?: events->node;
	size_t length = MIN_OF(strlen(object), OBJECT_SHOWN);
	char *name;

	while (length > 0 && strchr("-.", object[length - 1]))
		length--;
	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	return format_text(&name, "%.*s.%016llx", (int)length, object, (unsigned long long)number) <
			0
		? NULL
		: name;
}

static json_t *describe_object(const struct node_events *events, const struct entry *entry)
{
	if (entry->pod)
		return json_pack("{s:s, s:s, s:s, s:s, s:s}", "apiVersion", "v1", "kind", "Pod",
			"namespace", entry->namespace, "name", entry->pod, "uid", entry->uid);
	/* As the kubelet does. */
	return json_pack("{s:s, s:s, s:s, s:s}", "apiVersion", "v1", "kind", "Node", "name",
		events->node, "uid", events->node);
}

static const char *namespace_of(const struct entry *entry)
{
	return entry->namespace ?: "default";
}

static void create(struct node_events *events, struct entry *entry)
{
	char path[512], first[TEXT_TIME_MAX], last[TEXT_TIME_MAX];
	json_auto_t *body = NULL;

	entry->sending = entry->pending;
	free(entry->name);
	entry->name = make_name(events, entry);
	text_time(entry->first_at, first);
	text_time(entry->last_at, last);
	body = json_pack("{s:s, s:s, s:{s:s, s:s}, s:o, s:s, s:s, s:s, s:{s:s, s:s}, s:s, s:s,"
			 " s:s, s:s, s:I}",
		"apiVersion", "v1", "kind", "Event", "metadata", "name", entry->name ?: "",
		"namespace", namespace_of(entry), "involvedObject", describe_object(events, entry),
		"reason", entry->reason, "message", entry->message, "type",
		entry->warning ? "Warning" : "Normal", "source", "component", "devplugd", "host",
		events->node, "reportingComponent", "devplugd", "reportingInstance", events->node,
		"firstTimestamp", first, "lastTimestamp", last, "count",
		(json_int_t)entry->pending);
	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events", namespace_of(entry));
	request(events, STEP_CREATE, "POST", path, body, on_written);
}

static void repeat(struct node_events *events, struct entry *entry)
{
	char path[1024], last[TEXT_TIME_MAX];
	json_auto_t *body = NULL;

	entry->sending = entry->pending;
	text_time(entry->last_at, last);
	body = json_pack("{s:s, s:s, s:I}", "message", entry->message, "lastTimestamp", last,
		"count", (json_int_t)entry->written + (json_int_t)entry->pending);
	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events/%s", namespace_of(entry),
		entry->name);
	request(events, STEP_REPEAT, "PATCH", path, body, on_written);
}

static void write_entry(struct node_events *events, struct entry *entry)
{
	if (entry->name && entry->written > 0)
		repeat(events, entry);
	else
		create(events, entry);
}

static void on_pod(const struct dra_answer *answer, void *userdata)
{
	struct node_events *events = userdata;
	struct entry *entry = events->current;
	const char *uid = set_text_of(json_object_get(answer->body, "metadata"), "uid");
	const char *node = text_of(json_object_get(answer->body, "spec"), "nodeName");

	if (answer->failure && answer->code != 404) {
		finish(events, answer);
		return;
	}
	/* The pod has ended, or another one of its name runs on another node. */
	if (answer->failure || !uid || !streq(node, events->node)) {
		finish(events, &(const struct dra_answer){ .code = 200 });
		drop(events, entry);
		return;
	}
	/* The Event was about an earlier pod of that name. */
	if (entry->uid && !streq(entry->uid, uid))
		entry->written = 0;
	free(entry->uid);
	entry->uid = strdup(uid);
	if (entry->uid)
		write_entry(events, entry);
	else
		finish(events, &(const struct dra_answer){ .failure = "out of memory" });
}

static void read_pod(struct node_events *events, const struct entry *entry)
{
	char path[1024];

	(void)snprintf(
		path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", entry->namespace, entry->pod);
	request(events, STEP_POD, "GET", path, NULL, on_pod);
}

/* --- when --- */

/* When the entry may be written. */
static uint64_t due_at(const struct node_events *events, const struct entry *entry)
{
	uint64_t all = (NODE_EVENTS_BURST - 1) * NODE_EVENTS_REFILL;
	uint64_t one = (NODE_EVENTS_REPEATS - 1) * NODE_EVENTS_PAUSE;
	uint64_t due = events->not_before;

	due = MAX_OF(due, events->tokens_at > all ? events->tokens_at - all : 0);
	return MAX_OF(due, entry->tokens_at > one ? entry->tokens_at - one : 0);
}

/* The one that is written next, NULL: none. */
static struct entry *find_next(const struct node_events *events, uint64_t *ret_due)
{
	struct entry *next = NULL;

	for (size_t i = 0; i < events->n_entries; i++) {
		struct entry *entry = events->entries[i];
		uint64_t due = due_at(events, entry);

		if (entry->pending == 0 || (next && due > *ret_due) ||
			(next && due == *ret_due && entry->noted_at >= next->noted_at))
			continue;
		next = entry;
		*ret_due = due;
	}
	return next;
}

static void plan(struct node_events *events)
{
	uint64_t due = 0;

	if (events->step != STEP_IDLE || !find_next(events, &due))
		return;
	(void)sd_event_source_set_time(events->timer, due);
	(void)sd_event_source_set_enabled(events->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC), due = 0;
	struct node_events *events = userdata;
	struct entry *entry;

	if (events->step != STEP_IDLE)
		return 0;
	drop_old(events, now);
	entry = find_next(events, &due);
	if (!entry || due > now) {
		plan(events);
		return 0;
	}
	events->current = entry;
	if (entry->pod && !entry->uid_given)
		read_pod(events, entry);
	else
		write_entry(events, entry);
	return 0;
}

/* --- --- */

/* The names come from the kubelet and are parts of paths. */
static bool is_valid(const struct node_event *event)
{
	return !event->pod ||
		(dra_name_is_valid(event->namespace, NAMES_MAX) &&
			dra_name_is_valid(event->pod, NAMES_MAX));
}

void node_events_add(struct node_events *events, const struct node_event *event)
{
	_cleanup_free_ char *key = NULL;
	struct entry *entry;

	if (!is_valid(event) ||
		format_text(&key, "%s\t%s\t%s\t%s\t%s\t%s", event->namespace ?: "",
			event->pod ?: "", event->uid ?: "", event->reason, event->resource,
			event->device) < 0)
		return;
	entry = find(events, key);
	if (!entry) {
		if (events->n_entries >= NODE_EVENTS_MAX)
			drop_old(events, now_usec(CLOCK_MONOTONIC));
		if (events->n_entries >= NODE_EVENTS_MAX || add(events, event, key, &entry) < 0) {
			if (log_once_admits(&events->logged, "too many"))
				log_warning("no Event is written about device %s of %s, and "
					    "perhaps others: there are too many",
					event->device, event->resource);
			return;
		}
	}
	(void)snprintf(entry->message, sizeof(entry->message), "%s", event->text);
	text_sanitize_cut(entry->message, sizeof(entry->message));
	entry->last_at = now_usec(CLOCK_REALTIME);
	if (entry->written == 0 && entry->pending == 0)
		entry->first_at = entry->last_at;
	if (entry->pending++ == 0)
		entry->noted_at = now_usec(CLOCK_MONOTONIC);
	plan(events);
}

int node_events_new(sd_event *event, struct dra_api *api, const char *node,
	node_events_handler on_result, void *userdata, struct node_events **ret)
{
	_cleanup_(node_events_freep) struct node_events *events = calloc(1, sizeof(*events));
	int r;

	if (!events)
		return -ENOMEM;
	events->api = api;
	events->node = node;
	events->on_result = on_result;
	events->userdata = userdata;
	r = sd_event_add_time(event, &events->timer, CLOCK_MONOTONIC, USEC_INFINITY,
		10 * USEC_PER_MSEC, on_timer, events);
	if (r >= 0)
		r = sd_event_source_set_enabled(events->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(events);
	return 0;
}

struct node_events *node_events_free(struct node_events *events)
{
	if (!events)
		return NULL;
	dra_api_cancel(events->api, events);
	sd_event_source_disable_unref(events->timer);
	for (size_t i = 0; i < events->n_entries; i++)
		(void)entry_free(events->entries[i]);
	free(events->entries);
	free(events);
	return NULL;
}
