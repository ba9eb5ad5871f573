/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the program that cleans a device: decides whether that is possible now. It is not while a
 * process of the host has the device open.
 */
#include "supervisor/books/cleaning-run.h"

#include "common/control-child.h"
#include "supervisor/books/booked.h"
#include "supervisor/children/child.h"
#include "supervisor/ownership/arbiter.h"

#define RETRY     USEC_PER_SEC
#define RETRY_MAX (60 * USEC_PER_SEC)
/* How long it counts that no process has a device open. */
#define UNUSED_AGE USEC_PER_SEC

void usage_done(struct usage *usage)
{
	strings_done(&usage->all);
	strings_done(&usage->live);
}

int usage_booked(const struct cleaning *cleaning, const struct dirty *dirty, struct usage *ret)
{
	const struct child *child = manager_find_child(cleaning->manager, dirty->resource);
	int r = booked_users(cleaning->manager->booked, dirty->resource, dirty->id, NULL, &ret->all,
		&ret->live, &ret->admin);

	ret->unknown = !dirty->unnamed && child && child_registration(child) != REGISTRATION_DRA &&
		!booked_has_checkpoint(cleaning->manager->booked);

	for (size_t i = 0; i < dirty->ended.count && r >= 0; i++)
		(void)strings_remove(&ret->live, dirty->ended.items[i]);
	return r;
}

int usage_of(const struct cleaning *cleaning, const struct dirty *dirty, struct usage *ret)
{
	int r = usage_booked(cleaning, dirty, ret);

	for (size_t i = 0; i < dirty->preparing.count && r >= 0; i++) {
		r = strings_add_once(&ret->all, dirty->preparing.items[i]);
		if (r >= 0)
			r = strings_add_once(&ret->live, dirty->preparing.items[i]);
	}
	return r;
}

bool usage_is_any(const struct dirty *dirty, const struct usage *usage)
{
	return usage->live.count > 0 || usage->admin || usage->unknown || dirty->taken_at > 0;
}

int cleaning_run_add_once(struct dirty_devices *devices, struct strings *strings, const char *text)
{
	if (strings_contain(strings, text))
		return 0;
	devices->unsaved = true;
	return strings_add(strings, text, strlen(text));
}

int64_t cleaning_run_seconds_left(const struct cleaning *cleaning, const struct dirty *running)
{
	const struct child *child = cleaning_run_ready_child(cleaning, running->resource);
	uint64_t now = now_usec(CLOCK_MONOTONIC), end;

	if (!child)
		return 0;
	end = running->since + child_declaration(child)->release.timeout;
	return (int64_t)((end - MIN_OF(end, now) + USEC_PER_SEC - 1) / USEC_PER_SEC);
}

/* --- saving --- */

/* Returns 0, or negative errno with the error filled. */
int cleaning_run_save(struct cleaning *cleaning, struct error *error)
{
	int r = cleaning->devices.unsaved ? dirty_devices_open(&cleaning->devices) : 0;

	if (r >= 0)
		r = dirty_devices_save(&cleaning->devices);

	if (log_once_admits(&cleaning->save_logged, r < 0 ? strerror(-r) : NULL))
		log_error(
			"cannot save which devices are dirty in %s: %s; no pod gets a device of a resource with `release` until that works",
			cleaning->devices.path, strerror(-r));
	if (r < 0)
		return error_set(error, r,
			"cannot save that the device is in use in %s: %s; make room there",
			cleaning->devices.path, strerror(-r));
	return 0;
}

void cleaning_run_look_soon(struct cleaning *cleaning)
{
	(void)sd_event_source_set_enabled(cleaning->look, SD_EVENT_ONESHOT);
}

/* --- the program --- */

const struct child *cleaning_run_ready_child(const struct cleaning *cleaning, const char *resource)
{
	const struct child *child = manager_find_child(cleaning->manager, resource);
	const struct declaration *declaration = child ? child_declaration(child) : NULL;

	return declaration && declaration_cleans(declaration) &&
			(child->devices_fd >= 0 || child->devices_too_large)
		? child
		: NULL;
}

static bool is_shared(const struct child *child)
{
	const struct declaration *declaration = child ? child_declaration(child) : NULL;

	return declaration && declaration->overlap == OVERLAP_SHARED;
}

/* A pod may have it still as a device of a resource that shares it. */
static bool is_used_elsewhere(
	const struct cleaning *cleaning, const struct child *child, const struct dirty *dirty)
{
	for (size_t i = 0; i < cleaning->devices.count; i++) {
		const struct dirty *other = cleaning->devices.items[i];

		if (other != dirty && !other->clean && other->due_at == 0 &&
			streq(other->id, dirty->id) && is_shared(child) &&
			is_shared(manager_find_child(cleaning->manager, other->resource)))
			return true;
	}
	return false;
}

/* The device may have moved from another resource, which cannot clean it any more. It has not if
 * both share it. */
static bool is_dirty_elsewhere(
	const struct cleaning *cleaning, const struct child *child, const char *id)
{
	for (size_t i = 0; i < cleaning->devices.count; i++) {
		const struct dirty *dirty = cleaning->devices.items[i];

		if (!dirty->clean && streq(dirty->id, id) &&
			!(is_shared(child) &&
				is_shared(manager_find_child(cleaning->manager, dirty->resource))))
			return true;
	}
	return false;
}

int cleaning_run_add(
	struct cleaning *cleaning, const struct child *child, const char *id, struct dirty **ret)
{
	const char *name = child->resource->name;
	bool is_new = !dirty_devices_find(&cleaning->devices, name, id);
	bool elsewhere = is_new && is_dirty_elsewhere(cleaning, child, id);
	int r = dirty_devices_add(&cleaning->devices, name, id, ret);

	if (r >= 0 && elsewhere)
		(*ret)->clean = false;
	return r;
}

static size_t count_running(const struct cleaning *cleaning, const char *resource)
{
	size_t n = 0;

	for (size_t i = 0; i < cleaning->devices.count; i++)
		n += cleaning->devices.items[i]->number > 0 &&
			streq(cleaning->devices.items[i]->resource, resource);
	return n;
}

/* It is tried again after a second, which doubles up to RETRY_MAX. */
static void set_pause(struct dirty *dirty, unsigned doublings)
{
	uint64_t pause = RETRY << MIN_OF(doublings, 6U);

	dirty->again = now_usec(CLOCK_MONOTONIC) + MIN_OF(pause, RETRY_MAX);
}

/* --- processes that have a device open --- */

void cleaning_run_set_open(struct dirty *dirty, const char *why)
{
	if (why && (!dirty->open || !streq(why, dirty->open)))
		log_full(LOG_NOTICE,
			&(struct log_fields){ .resource = dirty->resource, .device = dirty->id },
			"device %s waits to be cleaned after a pod: %s", dirty->id, why);
	free(dirty->open);
	dirty->open = why ? strdup(why) : NULL;
}

/* Examining devices reads the whole of /proc each time, so the pause grows while nothing changes.
 */
static void note_open(struct dirty *dirty, const char *why)
{
	dirty->held = dirty->open && streq(why, dirty->open) ? dirty->held + 1 : 0;
	cleaning_run_set_open(dirty, why);
	set_pause(dirty, dirty->held);
}

void cleaning_run_hasten(struct dirty *dirty)
{
	uint64_t soon = now_usec(CLOCK_MONOTONIC) + RETRY;

	if (dirty->held > 0)
		dirty->again = MIN_OF(dirty->again, soon);
	dirty->held = 0;
}

static void on_node_users(const char *user, const char *failure, void *userdata)
{
	struct cleaning *cleaning = userdata;
	struct dirty *dirty = dirty_devices_find(
		&cleaning->devices, cleaning->asked_resource, cleaning->asked_id);

	cleaning_run_look_soon(cleaning);
	/* An administrator may have decided meanwhile. */
	if (!dirty || dirty->clean)
		return;
	if (user && !*user) {
		dirty->unused_at = now_usec(CLOCK_MONOTONIC);
		cleaning_run_set_open(dirty, NULL);
	} else {
		note_open(dirty, user ?: failure);
	}
}

static int ask_users(struct cleaning *cleaning, const struct dirty *dirty,
	const struct child *child, struct error *error)
{
	_cleanup_strings_ struct strings paths = { 0 };
	char *resource, *id;
	int r;

	r = claimant_nodes(child->claimant, dirty->id, &paths);
	if (r < 0)
		return error_set(error, r, "its nodes are not known");
	r = node_users_ask(cleaning->node_users,
		declaration_root(&resource_applied(child->resource)->declaration), &paths,
		on_node_users, cleaning, error);
	if (r <= 0)
		return r;
	resource = strdup(dirty->resource);
	id = strdup(dirty->id);
	free(cleaning->asked_resource);
	free(cleaning->asked_id);
	/* Without memory, the answer is about no device. */
	cleaning->asked_resource = resource ?: strdup("");
	cleaning->asked_id = id ?: strdup("");
	return 1;
}

/* Returns whether the next one can be examined now. */
static bool examine(struct cleaning *cleaning, struct dirty *dirty)
{
	const struct child *child = cleaning_run_ready_child(cleaning, dirty->resource);
	struct error error = { 0 };
	int r;

	dirty->examine = false;
	if (!child || count_running(cleaning, dirty->resource) >= CHILD_CLEANINGS_MAX)
		return true;
	r = ask_users(cleaning, dirty, child, &error);
	dirty->examined = ++cleaning->examined;
	if (r == 0) {
		dirty->unused_at = now_usec(CLOCK_MONOTONIC);
		cleaning_run_set_open(dirty, NULL);
		cleaning_run_begin(cleaning, dirty);
		cleaning_run_look_soon(cleaning);
	}
	if (r == -EAGAIN)
		cleaning_run_note_delay(dirty);
	else if (r < 0)
		note_open(dirty, error.message);
	return r <= 0;
}

void cleaning_run_examine(struct cleaning *cleaning)
{
	struct dirty *next;

	if (node_users_is_busy(cleaning->node_users))
		return;
	do {
		next = NULL;
		for (size_t i = 0; i < cleaning->devices.count; i++) {
			struct dirty *dirty = cleaning->devices.items[i];

			if (dirty->examine && (!next || dirty->examined < next->examined))
				next = dirty;
		}
	} while (next && examine(cleaning, next));
}

void cleaning_run_begin(struct cleaning *cleaning, struct dirty *dirty)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CLEAN);
	const struct child *child = cleaning_run_ready_child(cleaning, dirty->resource);
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (!child || dirty->again > now ||
		dirty_devices_find_running(&cleaning->devices, dirty->id) ||
		is_used_elsewhere(cleaning, child, dirty) ||
		count_running(cleaning, dirty->resource) >= CHILD_CLEANINGS_MAX)
		return;
	dirty->examine = dirty->unused_at == 0 || now - dirty->unused_at >= UNUSED_AGE;
	if (dirty->examine)
		return;
	cleaning_run_note_delay(dirty);
	dirty->unused_at = 0;
	message.number = ++cleaning->number;
	(void)snprintf(message.text, sizeof(message.text), "%s", dirty->id);
	if (control_send(child->process.control_fd, &message) < 0)
		return;
	dirty->number = message.number;
	dirty->since = now;
}

void cleaning_run_note_delay(struct dirty *dirty)
{
	set_pause(dirty, 0);
}

void cleaning_run_note_absence(struct dirty *dirty)
{
	set_pause(dirty, ++dirty->absent);
}

void cleaning_run_note_failure(struct cleaning *cleaning, struct dirty *dirty,
	const struct log_fields *fields, const char *why)
{
	free(dirty->failure);
	dirty->failure = strdup(*why ? why : "the program gave no reason");
	cleaning->devices.unsaved = true;
	log_full(LOG_WARNING, fields,
		"device %s could not be cleaned after a pod, and is not offered until \"devplugctl resume %s %s\": %s",
		dirty->id, dirty->resource, dirty->id, dirty->failure ?: "");
}

/* No pod that had it until now matters any more. */
void cleaning_run_note_clean(struct cleaning *cleaning, struct dirty *dirty)
{
	struct usage usage = { 0 };

	dirty_devices_remove_elsewhere(&cleaning->devices, dirty);
	strings_done(&dirty->users);
	strings_done(&dirty->seen);
	cleaning_run_set_open(dirty, NULL);
	dirty->clean = dirty->taken_at <= dirty->since;
	cleaning->devices.unsaved = true;
	(void)usage_of(cleaning, dirty, &usage);
	/* It may have been allocated meanwhile. */
	dirty->clean = dirty->clean && usage.live.count == 0;
	usage_done(&usage);
}

/* The device of an offered id. */
void cleaning_run_device_of(
	const struct child *child, const char *offered, char ret[OFFERED_ID_MAX + 1])
{
	const struct declaration *declaration = child_declaration(child);
	size_t length = strlen(offered);
	unsigned replica;

	if (declaration && declaration_is_shared(declaration))
		(void)offered_id_split(offered, &length, &replica);
	(void)snprintf(ret, OFFERED_ID_MAX + 1, "%.*s", (int)MIN_OF(length, (size_t)OFFERED_ID_MAX),
		offered);
}
