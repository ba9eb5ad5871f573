/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the pods of a failed device are evicted: `evict_after` after the failure, unless
 * something suggests that the probe is wrong and not the device. A failure that is held stays held
 * until it ends, or until an administrator confirms it. So one mistyped probe does not empty a
 * fleet.
 */
#include "supervisor/eviction/eviction-plan.h"

#include <stdlib.h>

#include "common/json-read.h"

const char *const eviction_states[_EVICTION_STATE_MAX] = {
	[EVICTION_WAITING] = "waiting",
	[EVICTION_HELD] = "held",
	[EVICTION_ACTIVE] = "evicting",
};

const char *const eviction_holds[_EVICTION_HOLD_MAX] = {
	[EVICTION_HOLD_NONE] = "",
	[EVICTION_HOLD_NOT_RUN] = "probe",
	[EVICTION_HOLD_CONFIGURATION] = "configuration",
	[EVICTION_HOLD_MANY] = "many",
};

const char *const eviction_hold_texts[_EVICTION_HOLD_MAX] = {
	[EVICTION_HOLD_NONE] = "",
	[EVICTION_HOLD_NOT_RUN] = "a health probe could not run",
	[EVICTION_HOLD_CONFIGURATION] =
		"a device has failed within 10 minutes after a change of the configuration",
	[EVICTION_HOLD_MANY] =
		"more than half of the devices, or all of them, would lose their pods within an hour",
};

static void failure_done(struct eviction_failure *failure)
{
	free(failure->device);
	free(failure->text);
}

void eviction_plan_done(struct eviction_plan *plan)
{
	for (size_t i = 0; i < plan->n_failures; i++)
		failure_done(&plan->failures[i]);
	for (size_t i = 0; i < plan->n_hits; i++)
		free(plan->hits[i].device);
	free(plan->failures);
	free(plan->hits);
	*plan = (struct eviction_plan){ 0 };
}

static struct eviction_failure *find(const struct eviction_plan *plan, const char *device)
{
	for (size_t i = 0; i < plan->n_failures; i++)
		if (streq(plan->failures[i].device, device))
			return &plan->failures[i];
	return NULL;
}

const struct eviction_failure *eviction_plan_find(
	const struct eviction_plan *plan, const char *device)
{
	return find(plan, device);
}

size_t eviction_plan_count(const struct eviction_plan *plan, enum eviction_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n_failures; i++)
		n += plan->failures[i].state == state;
	return n;
}

void eviction_plan_text(
	const struct eviction_failure *failure, const char *resource, char *ret, size_t size)
{
	if (failure->state == EVICTION_HELD)
		(void)snprintf(ret, size,
			"eviction is held for device %s, because %s; to evict its pods, run \"devplugctl evict %s\"; the failure: %s",
			failure->device, eviction_hold_texts[failure->hold], resource,
			failure->text);
	else
		(void)snprintf(ret, size, "the pods of device %s are evicted: %s", failure->device,
			failure->text);
}

/* --- what is reported --- */

bool eviction_plan_configure(struct eviction_plan *plan, uint64_t hash, uint64_t now)
{
	if (plan->configuration == hash)
		return false;
	plan->configuration = hash;
	plan->changed_at = now;
	return true;
}

static int add_failure(struct eviction_plan *plan, const char *device, const char *text)
{
	struct eviction_failure failure = { .device = strdup(device), .text = strdup(text) };
	int r = failure.device && failure.text ? 0 : -ENOMEM;

	if (r >= 0)
		r = array_reserve((void **)&plan->failures, plan->n_failures, sizeof(failure));
	if (r < 0) {
		failure_done(&failure);
		return r;
	}
	plan->failures[plan->n_failures++] = failure;
	return 0;
}

/* A probe that could not run and now finds a failure begins a new one. */
static int update(
	struct eviction_failure *failure, const struct eviction_report *report, uint64_t now)
{
	if (!streq(failure->text, report->text)) {
		char *copy = strdup(report->text);

		if (!copy)
			return -ENOMEM;
		free(failure->text);
		failure->text = copy;
	}
	failure->evict_after = report->evict_after;
	if (failure->hold == EVICTION_HOLD_NOT_RUN && !report->could_not_run) {
		failure->state = EVICTION_WAITING;
		failure->hold = EVICTION_HOLD_NONE;
		failure->since = now;
	}
	failure->could_not_run = report->could_not_run;
	return 0;
}

static bool is_reported(const struct eviction_report *reports, size_t n, const char *device)
{
	for (size_t i = 0; i < n; i++)
		if (streq(reports[i].device, device))
			return true;
	return false;
}

static void drop_ended(
	struct eviction_plan *plan, const struct eviction_report *reports, size_t n_reports)
{
	size_t kept = 0;

	for (size_t i = 0; i < plan->n_failures; i++) {
		struct eviction_failure *failure = &plan->failures[i];

		if (is_reported(reports, n_reports, failure->device))
			plan->failures[kept++] = *failure;
		else
			failure_done(failure);
	}
	plan->n_failures = kept;
}

int eviction_plan_take(struct eviction_plan *plan, const struct eviction_report *reports, size_t n,
	uint64_t n_devices, uint64_t n_failing, uint64_t now)
{
	int r = 0;

	plan->n_devices = n_devices;
	plan->n_failing = n_failing;
	drop_ended(plan, reports, n);
	for (size_t i = 0; i < n && r >= 0; i++) {
		struct eviction_failure *failure = find(plan, reports[i].device);

		if (!failure) {
			r = add_failure(plan, reports[i].device, reports[i].text);
			if (r < 0)
				return r;
			failure = &plan->failures[plan->n_failures - 1];
			failure->since = now;
		}
		r = update(failure, &reports[i], now);
	}
	return r;
}

/* --- the decision --- */

static void drop_old_hits(struct eviction_plan *plan, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < plan->n_hits; i++)
		if (plan->hits[i].at + EVICTION_WINDOW > now)
			plan->hits[kept++] = plan->hits[i];
		else
			free(plan->hits[i].device);
	plan->n_hits = kept;
}

/* Without memory the device is not counted, and not hit either. */
static int add_hit(struct eviction_plan *plan, const char *device, uint64_t now)
{
	char *copy;
	int r;

	for (size_t i = 0; i < plan->n_hits; i++)
		if (streq(plan->hits[i].device, device)) {
			plan->hits[i].at = now;
			return 0;
		}
	r = array_reserve((void **)&plan->hits, plan->n_hits, sizeof(plan->hits[0]));
	if (r < 0)
		return r;
	copy = strdup(device);
	if (!copy)
		return -ENOMEM;
	plan->hits[plan->n_hits++] = (struct eviction_hit){ copy, now };
	return 0;
}

static uint64_t due_of(const struct eviction_failure *failure)
{
	return failure->since + failure->evict_after;
}

/* Whether the failure is to be acted on within EVICTION_WINDOW. */
static bool would_hit(const struct eviction_failure *failure, uint64_t now)
{
	return failure->state == EVICTION_ACTIVE ||
		((failure->confirmed || !failure->could_not_run) &&
			due_of(failure) <= now + EVICTION_WINDOW);
}

/* Whether more than half of the devices would be hit, or all of one or two. */
static bool are_too_many(const struct eviction_plan *plan, uint64_t now)
{
	uint64_t n = plan->n_failing - MIN_OF(plan->n_failing, (uint64_t)plan->n_failures);

	for (size_t i = 0; i < plan->n_failures; i++)
		n += would_hit(&plan->failures[i], now);
	for (size_t i = 0; i < plan->n_hits; i++) {
		const struct eviction_failure *failure = find(plan, plan->hits[i].device);

		n += !failure || !would_hit(failure, now);
	}
	return plan->n_devices <= 2 ? n >= plan->n_devices : n * 2 > plan->n_devices;
}

/* Whether the failure has begun, or the time is, too soon after a change. */
static bool is_settling(
	const struct eviction_plan *plan, const struct eviction_failure *failure, uint64_t now)
{
	uint64_t settled = plan->changed_at + EVICTION_SETTLING;

	return now < settled || (failure->since >= plan->changed_at && failure->since < settled);
}

static enum eviction_hold find_hold(
	const struct eviction_plan *plan, const struct eviction_failure *failure, uint64_t now)
{
	if (failure->confirmed)
		return EVICTION_HOLD_NONE;
	if (failure->could_not_run)
		return EVICTION_HOLD_NOT_RUN;
	if (is_settling(plan, failure, now))
		return EVICTION_HOLD_CONFIGURATION;
	if (failure->state == EVICTION_WAITING && now >= due_of(failure) && are_too_many(plan, now))
		return EVICTION_HOLD_MANY;
	return EVICTION_HOLD_NONE;
}

/* Returns whether the state of the failure has changed. */
static bool decide(struct eviction_plan *plan, struct eviction_failure *failure, uint64_t now)
{
	if (failure->state == EVICTION_HELD)
		return false;
	failure->hold = find_hold(plan, failure, now);
	if (failure->hold != EVICTION_HOLD_NONE) {
		failure->state = EVICTION_HELD;
		failure->begun = now;
		return true;
	}
	if (failure->state == EVICTION_ACTIVE || now < due_of(failure) ||
		add_hit(plan, failure->device, now) < 0)
		return false;
	failure->state = EVICTION_ACTIVE;
	failure->begun = now;
	return true;
}

uint64_t eviction_plan_run(
	struct eviction_plan *plan, uint64_t now, eviction_handler on_change, void *userdata)
{
	uint64_t next = USEC_INFINITY;

	drop_old_hits(plan, now);
	for (size_t i = 0; i < plan->n_failures; i++) {
		struct eviction_failure *failure = &plan->failures[i];

		if (decide(plan, failure, now))
			on_change(failure, userdata);
		/* Without memory, a second later. */
		if (failure->state == EVICTION_WAITING)
			next = MIN_OF(next, MAX_OF(due_of(failure), now + USEC_PER_SEC));
	}
	return next;
}

size_t eviction_plan_confirm(struct eviction_plan *plan)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n_failures; i++) {
		struct eviction_failure *failure = &plan->failures[i];

		if (failure->state != EVICTION_HELD)
			continue;
		failure->confirmed = true;
		failure->state = EVICTION_WAITING;
		failure->hold = EVICTION_HOLD_NONE;
		n++;
	}
	return n;
}

/* --- across restarts --- */

static json_t *save_failure(const struct eviction_failure *failure)
{
	return json_pack("{s:s, s:s, s:I, s:I, s:b, s:b, s:s, s:s, s:I}", "device", failure->device,
		"text", failure->text, "since", (json_int_t)failure->since, "evict_after",
		(json_int_t)failure->evict_after, "could_not_run", (int)failure->could_not_run,
		"confirmed", (int)failure->confirmed, "state", eviction_states[failure->state],
		"hold", eviction_holds[failure->hold], "begun", (json_int_t)failure->begun);
}

json_t *eviction_plan_save(const struct eviction_plan *plan)
{
	json_auto_t *failures = json_array(), *hits = json_array();
	char hash[17];
	int r = 0;

	for (size_t i = 0; i < plan->n_failures; i++)
		r |= json_array_append_new(failures, save_failure(&plan->failures[i]));
	for (size_t i = 0; i < plan->n_hits; i++)
		r |= json_array_append_new(hits,
			json_pack("{s:s, s:I}", "device", plan->hits[i].device, "at",
				(json_int_t)plan->hits[i].at));
	if (r < 0)
		return NULL;
	(void)snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)plan->configuration);
	return json_pack("{s:s, s:I, s:O, s:O}", "configuration", hash, "changed_at",
		(json_int_t)plan->changed_at, "failures", failures, "hits", hits);
}

/* The position of a word, or `count`. */
static size_t find_word(const char *const *words, size_t count, const char *word)
{
	for (size_t i = 0; i < count; i++)
		if (streq(words[i], word))
			return i;
	return count;
}

/* A time that is not in the future, or -1. */
static json_int_t time_of(const json_t *object, const char *key, uint64_t now)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value >= 0 && (uint64_t)value <= now ? value : -1;
}

static int load_failure(struct eviction_plan *plan, const json_t *saved, uint64_t now)
{
	json_int_t evict_after = json_integer_value(json_object_get(saved, "evict_after"));
	json_int_t since = time_of(saved, "since", now), begun = time_of(saved, "begun", now);
	size_t state = find_word(eviction_states, _EVICTION_STATE_MAX, text_of(saved, "state"));
	size_t hold = find_word(eviction_holds, _EVICTION_HOLD_MAX, text_of(saved, "hold"));
	struct eviction_failure *failure;
	int r;

	if (since < 0 || begun < 0 || evict_after < 0 || state == _EVICTION_STATE_MAX ||
		hold == _EVICTION_HOLD_MAX || (state == EVICTION_HELD) != (hold > 0) ||
		find(plan, text_of(saved, "device")))
		return -EBADMSG;
	r = add_failure(plan, text_of(saved, "device"), text_of(saved, "text"));
	if (r < 0)
		return r;
	failure = &plan->failures[plan->n_failures - 1];
	failure->since = (uint64_t)since;
	failure->begun = (uint64_t)begun;
	failure->evict_after = (uint64_t)evict_after;
	failure->could_not_run = json_is_true(json_object_get(saved, "could_not_run"));
	failure->confirmed = json_is_true(json_object_get(saved, "confirmed"));
	failure->state = (enum eviction_state)state;
	failure->hold = (enum eviction_hold)hold;
	return 0;
}

static int load_all(struct eviction_plan *plan, const json_t *saved, uint64_t now)
{
	json_int_t changed_at = time_of(saved, "changed_at", now);
	json_t *item;
	size_t i;
	int r;

	if (changed_at < 0)
		return -EBADMSG;
	plan->changed_at = (uint64_t)changed_at;
	plan->configuration = strtoull(text_of(saved, "configuration"), NULL, 16);
	json_array_foreach(json_object_get(saved, "failures"), i, item)
	{
		r = load_failure(plan, item, now);
		if (r < 0)
			return r;
	}
	json_array_foreach(json_object_get(saved, "hits"), i, item)
	{
		json_int_t at = time_of(item, "at", now);

		r = at < 0 ? -EBADMSG : add_hit(plan, text_of(item, "device"), (uint64_t)at);
		if (r < 0)
			return r;
	}
	return 0;
}

int eviction_plan_load(const json_t *saved, uint64_t now, struct eviction_plan *ret)
{
	int r;

	*ret = (struct eviction_plan){ 0 };
	r = load_all(ret, saved, now);
	if (r < 0)
		eviction_plan_done(ret);
	return r;
}
