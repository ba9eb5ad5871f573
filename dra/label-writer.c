/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which labels of the Node are devplugd's, and what a write changes. The labels of a
 * resource that has not reported any yet stay as they are, so that a start changes nothing.
 */
#include "dra/label-writer.h"

#include "common/json-read.h"
#include "common/sealed.h"
#include "common/text.h"
#include "dra/timing.h"

/* From a change to its write. Resources report one after the other at a start. */
#define COALESCE_TIME (500 * USEC_PER_MSEC)

struct label_writer {
	struct dra_api *api;
	const char *node;
	sd_event_source *timer;
	json_t *wanted;      /* see CLUSTER_LABELS; NULL: nothing is known yet */
	json_t *labels;      /* all of the Node; NULL: not known */
	json_t *owned;       /* by resource, an array of the names of labels that are devplugd's */
	uint64_t wrote;      /* CLOCK_MONOTONIC: the last write; 0: none */
	uint64_t delay;      /* of the last retry; 0: the last request succeeded */
	uint64_t not_before; /* CLOCK_MONOTONIC: when a failed request is repeated */
	bool asking;
	char *failure; /* that the supervisor knows; NULL: it knows nothing */
};

static void report(struct label_writer *writer, const char *failure)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_LABELLED);

	(void)snprintf(message.text, sizeof(message.text), "%s", failure);
	text_sanitize(message.text);
	if (writer->failure && streq(writer->failure, message.text))
		return;
	if (control_send(CONTROL_FD, &message) < 0)
		return;
	free(writer->failure);
	writer->failure = strdup(message.text);
}

/* --- what is written --- */

struct changes {
	json_t *labels;             /* new values, null: removed */
	json_t *owned;              /* as in struct label_writer, after the write */
	json_t *owners;             /* the resource of each label in `owned` */
	char why[CONTROL_TEXT_MAX]; /* a label that cannot be set, or empty */
};

static bool is_ours(const struct label_writer *writer, const char *name)
{
	const char *resource;
	json_t *names, *one;
	size_t i;

	json_object_foreach(writer->owned, resource, names)
	{
		json_array_foreach(names, i, one)
		{
			if (streq(json_string_value(one) ?: "", name))
				return true;
		}
	}
	return false;
}

static void own(struct changes *changes, const char *resource, const char *name)
{
	json_t *names = json_object_get(changes->owned, resource);

	if (!names) {
		names = json_array();
		(void)json_object_set_new(changes->owned, resource, names);
	}
	(void)json_array_append_new(names, json_string(name));
	(void)json_object_set_new(changes->owners, name, json_string(resource));
}

static void add_label(const struct label_writer *writer, struct changes *changes,
	const char *resource, const char *name, json_t *value)
{
	const json_t *stored = json_object_get(writer->labels, name);
	const char *owner = text_of(changes->owners, name);

	if (*owner) {
		(void)snprintf(changes->why, sizeof(changes->why),
			"label \"%s\" of the Node has the value of %s, and not that of %s: use another name in `labels`",
			name, owner, resource);
		return;
	}
	if (stored && !is_ours(writer, name)) {
		(void)snprintf(changes->why, sizeof(changes->why),
			"label \"%s\" of the Node is another client's, with the value \"%s\": remove it, or use another name in `labels` of %s",
			name, json_string_value(stored) ?: "", resource);
		return;
	}
	own(changes, resource, name);
	if (!stored || !json_equal(stored, value))
		(void)json_object_set(changes->labels, name, value);
}

/* The labels of resources that are not known yet stay; so they come before those of others. */
static void keep_unknown(const struct label_writer *writer, struct changes *changes)
{
	const char *resource;
	json_t *labels, *name;
	size_t i;

	json_object_foreach(writer->wanted, resource, labels)
	{
		if (!json_is_null(labels))
			continue;
		json_array_foreach(json_object_get(writer->owned, resource), i, name)
		{
			if (json_is_string(name))
				own(changes, resource, json_string_value(name));
		}
	}
}

static void remove_others(const struct label_writer *writer, struct changes *changes)
{
	const char *resource;
	json_t *names, *one;
	size_t i;

	json_object_foreach(writer->owned, resource, names)
	{
		json_array_foreach(names, i, one)
		{
			const char *name = json_string_value(one);

			if (name && json_object_get(writer->labels, name) &&
				!json_object_get(changes->owners, name))
				(void)json_object_set_new(changes->labels, name, json_null());
		}
	}
}

static void find_changes(const struct label_writer *writer, struct changes *changes)
{
	const char *resource, *name;
	json_t *labels, *value;

	keep_unknown(writer, changes);
	json_object_foreach(writer->wanted, resource, labels)
	{
		json_object_foreach(labels, name, value)
		{
			add_label(writer, changes, resource, name, value);
		}
	}
	remove_others(writer, changes);
}

/* NULL: there is nothing to write. */
static json_t *make_body(const struct label_writer *writer, const struct changes *changes)
{
	_cleanup_free_ char *text = NULL;
	bool none = json_object_size(changes->owned) == 0;

	if (json_object_size(changes->labels) == 0 && json_equal(changes->owned, writer->owned))
		return NULL;
	text = none ? NULL : json_dumps(changes->owned, JSON_COMPACT);
	if (!none && !text)
		return NULL;
	return json_pack("{s:{s:O, s:{s:s?}}}", "metadata", "labels", changes->labels,
		"annotations", LABEL_WRITER_ANNOTATION, text);
}

/* --- requests --- */

static void take_node(struct label_writer *writer, const json_t *node)
{
	const json_t *metadata = json_object_get(node, "metadata");
	const char *text =
		text_of(json_object_get(metadata, "annotations"), LABEL_WRITER_ANNOTATION);

	json_decref(writer->labels);
	json_decref(writer->owned);
	writer->labels = json_incref(json_object_get(metadata, "labels")) ?: json_object();
	/* One that another client has broken names no labels. */
	writer->owned = json_loads(text, 0, NULL) ?: json_object();
}

static void forget_node(struct label_writer *writer)
{
	json_decref(writer->labels);
	writer->labels = NULL;
}

/* Repeats the whole, with what the Node has then. */
static void fail(struct label_writer *writer, const struct dra_answer *answer)
{
	forget_node(writer);
	writer->not_before =
		now_usec(CLOCK_MONOTONIC) + dra_api_retry_delay(&writer->delay, answer);
	timing_plan(writer->timer, writer->not_before);
	report(writer, answer->failure);
}

static void ask(struct label_writer *writer);

/* Returns whether the answer has the Node. */
static bool take_answer(struct label_writer *writer, const struct dra_answer *answer)
{
	writer->asking = false;
	if (answer->failure)
		fail(writer, answer);
	else
		take_node(writer, answer->body);
	return !answer->failure;
}

static void on_node(const struct dra_answer *answer, void *userdata)
{
	struct label_writer *writer = userdata;

	if (take_answer(writer, answer))
		ask(writer);
}

static void on_written(const struct dra_answer *answer, void *userdata)
{
	struct label_writer *writer = userdata;

	/* What has changed meanwhile is written after the pause. */
	if (take_answer(writer, answer))
		timing_plan(writer->timer, writer->wrote + LABEL_WRITER_PAUSE);
}

static void request(struct label_writer *writer, const char *method, const json_t *body,
	dra_answer_handler on_answer)
{
	const struct dra_answer none = { .failure = "out of memory" };
	char path[320];

	(void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", writer->node);
	writer->asking = dra_api_request(writer->api, method, path, body, on_answer, writer) >= 0;
	if (!writer->asking)
		fail(writer, &none);
}

static void write_changes(struct label_writer *writer)
{
	struct changes changes = {
		.labels = json_object(), .owned = json_object(), .owners = json_object()
	};
	json_auto_t *body = NULL;

	find_changes(writer, &changes);
	body = make_body(writer, &changes);
	if (body) {
		writer->wrote = now_usec(CLOCK_MONOTONIC);
		request(writer, "PATCH", body, on_written);
	} else if (*changes.why) {
		fail(writer, &(const struct dra_answer){ .failure = changes.why });
		/* Other labels may not have the conflict. */
		writer->not_before = 0;
	} else {
		writer->delay = 0;
		forget_node(writer);
		timing_plan(writer->timer, now_usec(CLOCK_MONOTONIC) + LABEL_WRITER_INTERVAL);
		report(writer, "");
	}
	json_decref(changes.labels);
	json_decref(changes.owned);
	json_decref(changes.owners);
}

/* Reads the Node if it is not known, and otherwise writes what differs. */
static void ask(struct label_writer *writer)
{
	if (!writer->wanted)
		return;
	if (writer->labels)
		write_changes(writer);
	else
		request(writer, "GET", NULL, on_node);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct label_writer *writer = userdata;

	if (!writer->asking)
		ask(writer);
	return 0;
}

/* --- --- */

int label_writer_take(struct label_writer *writer, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_t *wanted;
	uint64_t at;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], CONTROL_DEVICES_MAX, &text, &size);
	if (r < 0)
		return r;
	wanted = json_loadb(text, size, 0, NULL);
	if (!json_is_object(wanted)) {
		json_decref(wanted);
		return -EBADMSG;
	}
	json_decref(writer->wanted);
	writer->wanted = wanted;
	/* Its result is sent, also if that is the same. */
	free(TAKE_PTR(writer->failure));
	at = MAX_OF(now_usec(CLOCK_MONOTONIC) + COALESCE_TIME, writer->wrote + LABEL_WRITER_PAUSE);
	/* The end of a request plans the next one. */
	if (!writer->asking)
		timing_plan_by(writer->timer, MAX_OF(at, writer->not_before));
	return 0;
}

int label_writer_new(
	sd_event *event, struct dra_api *api, const char *node, struct label_writer **ret)
{
	_cleanup_(label_writer_freep) struct label_writer *writer = calloc(1, sizeof(*writer));
	int r;

	if (!writer)
		return -ENOMEM;
	writer->api = api;
	writer->node = node;
	r = sd_event_add_time(event, &writer->timer, CLOCK_MONOTONIC, USEC_INFINITY,
		100 * USEC_PER_MSEC, on_timer, writer);
	if (r >= 0)
		r = sd_event_source_set_enabled(writer->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(writer);
	return 0;
}

struct label_writer *label_writer_free(struct label_writer *writer)
{
	if (!writer)
		return NULL;
	dra_api_cancel(writer->api, writer);
	sd_event_source_disable_unref(writer->timer);
	json_decref(writer->wanted);
	json_decref(writer->labels);
	json_decref(writer->owned);
	free(writer->failure);
	free(writer);
	return NULL;
}
