/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes evictions for people and metrics, and lets an administrator confirm those that are
 * held.
 */
#include "common/json-read.h"
#include "common/text.h"
#include "dra/model/eviction-order.h"
#include "supervisor/control/request.h"
#include "supervisor/eviction/eviction-list.h"

/* How many devices of a resource the cluster learns of, and how much of their failures. */
#define REPORTED_MAX  64
#define REPORTED_TEXT 768

/* Why any eviction is held, for people; "": none is. */
static const char *held_text(const struct eviction_plan *plan)
{
	enum eviction_hold hold = EVICTION_HOLD_NONE;

	for (size_t i = 0; i < plan->n_failures; i++)
		if (plan->failures[i].state == EVICTION_HELD)
			hold = MAX_OF(hold, plan->failures[i].hold);
	return eviction_hold_texts[hold];
}

/* Formats a time of CLOCK_BOOTTIME. */
static void format_time(uint64_t at, char ret[static TEXT_TIME_MAX])
{
	text_time(now_usec(CLOCK_REALTIME) - now_usec(CLOCK_BOOTTIME) + at, ret);
}

static json_t *describe_pods(const struct evicting *evicting, const char *device)
{
	json_t *pods = json_array(), *result;
	size_t i;

	json_array_foreach(evicting->results, i, result)
	{
		if (streq(text_of(result, "device"), device))
			(void)json_array_append_new(pods,
				json_pack("{s:s, s:s, s:s, s:s, s:s}", "namespace",
					text_of(result, "namespace"), "pod",
					text_of(result, "name"), "uid", text_of(result, "uid"),
					"state", text_of(result, "state"), "text",
					text_of(result, "text")));
	}
	return pods;
}

static json_t *describe_failure(
	const struct evicting *evicting, const struct eviction_failure *failure)
{
	char since[TEXT_TIME_MAX], due[TEXT_TIME_MAX];

	format_time(failure->since, since);
	format_time(failure->since + failure->evict_after, due);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "device", failure->device, "state",
		eviction_states[failure->state], "hold", eviction_holds[failure->hold], "text",
		failure->text, "since", since, "due", due, "pods",
		describe_pods(evicting, failure->device));
}

json_t *evictions_describe(const struct evictions *evictions, const char *resource)
{
	const struct evicting *evicting = eviction_list_find(evictions, resource);
	json_t *failures;

	if (!evicting)
		return NULL;
	failures = json_array();
	for (size_t i = 0; i < evicting->plan.n_failures; i++)
		(void)json_array_append_new(
			failures, describe_failure(evicting, &evicting->plan.failures[i]));
	return json_pack("{s:s, s:s, s:o}", "held", held_text(&evicting->plan), "problem",
		evictions->active ? evictions->problem : "", "failures", failures);
}

static json_t *report_failure(const struct eviction_failure *failure, const char *resource)
{
	char since[TEXT_TIME_MAX], text[REPORTED_TEXT] = "";

	format_time(failure->begun, since);
	if (failure->state != EVICTION_WAITING)
		eviction_plan_text(failure, resource, text, sizeof(text));
	text_sanitize_cut(text, sizeof(text));
	return json_pack("{s:s, s:s, s:s, s:b}", "state", eviction_states[failure->state], "since",
		since, "text", text, "confirmed", (int)failure->confirmed);
}

json_t *evictions_report(const struct evictions *evictions, const char *resource)
{
	const struct evicting *evicting = eviction_list_find(evictions, resource);
	json_auto_t *reported = json_object();

	for (size_t i = 0; evicting && i < evicting->plan.n_failures; i++) {
		const struct eviction_failure *failure = &evicting->plan.failures[i];

		if ((failure->state != EVICTION_WAITING || failure->confirmed) &&
			json_object_size(reported) < REPORTED_MAX)
			(void)json_object_set_new(
				reported, failure->device, report_failure(failure, resource));
	}
	return json_object_size(reported) > 0 ? json_incref(reported) : NULL;
}

json_t *evictions_numbers(const struct evictions *evictions, const char *resource)
{
	const struct evicting *evicting = eviction_list_find(evictions, resource);
	json_t *numbers;

	if (!evicting)
		return NULL;
	numbers = json_pack("{s:I, s:I}", "evicted", (json_int_t)evicting->evicted, "deleted",
		(json_int_t)evicting->deleted);
	for (size_t i = 0; i < _EVICTION_STATE_MAX; i++)
		(void)json_object_set_new(numbers, eviction_states[i],
			json_integer((json_int_t)eviction_plan_count(
				&evicting->plan, (enum eviction_state)i)));
	return numbers;
}

int evict_request(struct request *request, json_t **ret_answer, struct error *error)
{
	struct evictions *evictions = request->manager->evictions;
	const char *name;
	struct evicting *evicting;
	json_auto_t *devices = json_array();
	int r;

	r = request_string(request, "resource", &name, error);
	if (r < 0)
		return r;
	if (!name || !manager_find_child(request->manager, name))
		return error_set(error, -ENOENT, "there is no resource \"%s\"", name ?: "");
	evicting = eviction_list_find(evictions, name);
	if (!evicting)
		return error_set(error, -EOPNOTSUPP,
			"%s evicts no pods: no health probe has severity = \"evict\", and neither has `missing`",
			name);
	for (size_t i = 0; i < evicting->plan.n_failures; i++)
		if (evicting->plan.failures[i].state == EVICTION_HELD &&
			json_array_append_new(
				devices, json_string(evicting->plan.failures[i].device)) < 0)
			return error_set(error, -ENOMEM, "out of memory");
	if (json_array_size(devices) == 0)
		return error_set(error, -ENODATA, "no eviction is held for %s", name);
	*ret_answer = json_pack("{s:O}", "devices", devices);
	if (!*ret_answer)
		return error_set(error, -ENOMEM, "out of memory");
	(void)eviction_plan_confirm(&evicting->plan);
	evictions_decide(evictions);
	return 0;
}
