/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the conditions are read and written, and what a write contains. The server's answer
 * to a write has all conditions, so that those which another client changes are repaired at the
 * next heartbeat.
 */
#include "dra/node-conditions.h"

#include "common/json-read.h"
#include "common/node-condition.h"
#include "common/text.h"
#include "dra/timing.h"

/* From a change to its write. A process that is replaced at once changes nothing. */
#define COALESCE_TIME (500 * USEC_PER_MSEC)

struct node_conditions {
	struct dra_api *api;
	const char *node;
	node_conditions_handler on_result;
	void *userdata;
	sd_event_source *timer;
	json_t *wanted;   /* see node_conditions_set(); NULL: not known yet */
	json_t *stored;   /* by type, as on the server; NULL: not known */
	uint64_t wrote;   /* CLOCK_MONOTONIC: the last write; 0: none */
	uint64_t all_due; /* CLOCK_MONOTONIC: all are written again */
	uint64_t delay;   /* of the last retry; 0: the last request succeeded */
	bool asking;
};

/* --- what is written --- */

static bool is_equal(const json_t *a, const json_t *b)
{
	static const char *const members[] = { "status", "reason", "message" };

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!streq(text_of(a, members[i]), text_of(b, members[i])))
			return false;
	return true;
}

static json_t *make_condition(
	const char *type, const json_t *wanted, const json_t *stored, const char *now)
{
	json_t *condition = json_pack("{s:s, s:s, s:s}", "type", type, "lastHeartbeatTime", now,
		"status", text_of(wanted, "status"));

	(void)json_object_set(condition, "reason", json_object_get(wanted, "reason"));
	(void)json_object_set(condition, "message", json_object_get(wanted, "message"));
	/* The merge keeps the time of the last change. */
	if (!streq(text_of(wanted, "status"), text_of(stored, "status")))
		(void)json_object_set_new(condition, "lastTransitionTime", json_string(now));
	return condition;
}

/* The conditions of a write, which is empty if there is nothing to write. `all`: also those that
 * have not changed. */
static json_t *make_changes(const struct node_conditions *conditions, bool all)
{
	json_t *changes = json_array(), *wanted, *stored;
	char now[TEXT_TIME_MAX];
	const char *type;

	text_time(now_usec(CLOCK_REALTIME), now);
	json_object_foreach(conditions->wanted, type, wanted)
	{
		stored = json_object_get(conditions->stored, type);
		if (json_is_object(wanted) && (all || !stored || !is_equal(wanted, stored)))
			(void)json_array_append_new(
				changes, make_condition(type, wanted, stored, now));
	}
	json_object_foreach(conditions->stored, type, stored)
	{
		if (!json_object_get(conditions->wanted, type))
			(void)json_array_append_new(
				changes, json_pack("{s:s, s:s}", "$patch", "delete", "type", type));
	}
	return changes;
}

/* --- requests --- */

static void take_node(struct node_conditions *conditions, const json_t *node)
{
	json_t *list = json_object_get(json_object_get(node, "status"), "conditions"), *condition;
	size_t i;

	json_decref(conditions->stored);
	conditions->stored = json_object();
	json_array_foreach(list, i, condition)
	{
		const char *type = text_of(condition, "type");

		if (startswith(type, NODE_CONDITION_PREFIX))
			(void)json_object_set(conditions->stored, type, condition);
	}
}

static void fail(struct node_conditions *conditions, const struct dra_answer *answer)
{
	json_decref(conditions->stored);
	conditions->stored = NULL;
	timing_plan(conditions->timer,
		now_usec(CLOCK_MONOTONIC) + dra_api_retry_delay(&conditions->delay, answer));
	conditions->on_result(answer->failure, conditions->userdata);
}

static void ask(struct node_conditions *conditions);

static void on_node(const struct dra_answer *answer, void *userdata)
{
	struct node_conditions *conditions = userdata;

	conditions->asking = false;
	if (answer->failure) {
		fail(conditions, answer);
		return;
	}
	take_node(conditions, answer->body);
	ask(conditions);
}

static void on_written(const struct dra_answer *answer, void *userdata)
{
	struct node_conditions *conditions = userdata;

	conditions->asking = false;
	if (answer->failure) {
		fail(conditions, answer);
		return;
	}
	take_node(conditions, answer->body);
	conditions->delay = 0;
	/* What has changed meanwhile is written after the pause. */
	timing_plan(conditions->timer, conditions->wrote + NODE_CONDITIONS_PAUSE);
	conditions->on_result("", conditions->userdata);
}

static void request(struct node_conditions *conditions, const char *method, const char *path,
	const json_t *body, dra_answer_handler on_answer)
{
	const struct dra_answer none = { .failure = "out of memory" };

	conditions->asking =
		dra_api_request(conditions->api, method, path, body, on_answer, conditions) >= 0;
	if (!conditions->asking)
		fail(conditions, &none);
}

static void write_changes(struct node_conditions *conditions)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	bool all = now >= conditions->all_due;
	json_auto_t *changes = make_changes(conditions, all), *body = NULL;
	char path[320];

	if (all)
		conditions->all_due = now + NODE_CONDITIONS_HEARTBEAT;
	if (json_array_size(changes) == 0) {
		conditions->delay = 0;
		timing_plan(conditions->timer, conditions->all_due);
		conditions->on_result("", conditions->userdata);
		return;
	}
	body = json_pack("{s:{s:O}}", "status", "conditions", changes);
	(void)snprintf(path, sizeof(path), "/api/v1/nodes/%s/status", conditions->node);
	conditions->wrote = now;
	request(conditions, "PATCH", path, body, on_written);
}

/* Reads the Node if it is not known, and otherwise writes what has changed. */
static void ask(struct node_conditions *conditions)
{
	char path[320];

	if (!conditions->wanted)
		return;
	if (conditions->stored) {
		write_changes(conditions);
		return;
	}
	(void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", conditions->node);
	request(conditions, "GET", path, NULL, on_node);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct node_conditions *conditions = userdata;

	if (!conditions->asking)
		ask(conditions);
	return 0;
}

/* --- --- */

void node_conditions_set(struct node_conditions *conditions, json_t *wanted)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	bool same = conditions->wanted && json_equal(conditions->wanted, wanted);

	json_decref(conditions->wanted);
	conditions->wanted = wanted;
	/* A failure delays the next request, and the end of a request plans it. */
	if (!same && !conditions->asking && conditions->delay == 0)
		timing_plan_by(conditions->timer,
			MAX_OF(now + COALESCE_TIME, conditions->wrote + NODE_CONDITIONS_PAUSE));
}

int node_conditions_new(sd_event *event, struct dra_api *api, const char *node,
	node_conditions_handler on_result, void *userdata, struct node_conditions **ret)
{
	_cleanup_(node_conditions_freep) struct node_conditions *conditions =
		calloc(1, sizeof(*conditions));
	int r;

	if (!conditions)
		return -ENOMEM;
	conditions->api = api;
	conditions->node = node;
	conditions->on_result = on_result;
	conditions->userdata = userdata;
	r = sd_event_add_time(event, &conditions->timer, CLOCK_MONOTONIC, USEC_INFINITY,
		100 * USEC_PER_MSEC, on_timer, conditions);
	if (r >= 0)
		r = sd_event_source_set_enabled(conditions->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(conditions);
	return 0;
}

struct node_conditions *node_conditions_free(struct node_conditions *conditions)
{
	if (!conditions)
		return NULL;
	dra_api_cancel(conditions->api, conditions);
	sd_event_source_disable_unref(conditions->timer);
	json_decref(conditions->wanted);
	json_decref(conditions->stored);
	free(conditions);
	return NULL;
}
