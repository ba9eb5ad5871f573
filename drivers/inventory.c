/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to scan and when to tell. Events bring the next scan forward, never more often than its cost
 * allows; changes are told at once, or when INVENTORY_QUIET allows it again. All else is in scan.c
 * (finding), scan-notes.c (what is said of it), units.c (merging) and health.c.
 */
#include "drivers/inventory.h"

#include "drivers/scan-notes.h"
#include "drivers/units.h"

/* Without any event: a net under lost events and what inotify cannot see. */
#define RESCAN_INTERVAL (60 * USEC_PER_SEC)
#define RESCAN_ACCURACY (10 * USEC_PER_SEC)
/* After a failure, and where inotify is not to be had. */
#define POLL_INTERVAL (5 * USEC_PER_SEC)
#define POLL_ACCURACY USEC_PER_SEC
/* Between two scans, so that a storm of events takes a fifth of a processor at most. */
#define SCAN_SPACING     (20 * USEC_PER_MSEC)
#define SCAN_COST_FACTOR 4

struct inventory {
	sd_event *event;
	const struct declaration *declaration;
	char *root;
	inventory_handler on_change;
	void *userdata;

	struct watcher *watcher;
	struct watch **watches; /* of the last good scan */
	size_t n_watches;
	struct uevents *uevents;
	struct unit_list list;
	struct snapshot *snapshot;
	void *driver_state;
	const void *previous_driver_state; /* until the driver is started */

	sd_event_source *scan_timer;
	uint64_t scan_at; /* USEC_INFINITY: no scan is planned */
	uint64_t scan_not_before;
	sd_event_source *tell_now, *tell_timer;
	uint64_t told;
	bool tell_planned;

	struct scan_notes notes;
	bool recalls_list; /* what is remembered was found for the same declaration */
	bool started;
};

static void plan_scan(struct inventory *inventory, uint64_t at, uint64_t accuracy)
{
	if (at >= inventory->scan_at)
		return;
	inventory->scan_at = at;
	(void)sd_event_source_set_time(inventory->scan_timer, at);
	(void)sd_event_source_set_time_accuracy(inventory->scan_timer, accuracy);
	(void)sd_event_source_set_enabled(inventory->scan_timer, SD_EVENT_ONESHOT);
}

static void plan_tell(struct inventory *inventory)
{
	uint64_t at = inventory->told + INVENTORY_QUIET;

	if (inventory->tell_planned || !inventory->started)
		return;
	inventory->tell_planned = true;
	if (at <= now_usec(CLOCK_MONOTONIC)) {
		(void)sd_event_source_set_enabled(inventory->tell_now, SD_EVENT_ONESHOT);
		return;
	}
	(void)sd_event_source_set_time(inventory->tell_timer, at);
	(void)sd_event_source_set_enabled(inventory->tell_timer, SD_EVENT_ONESHOT);
}

static void on_unit_health(void *userdata)
{
	struct unit *unit = userdata;

	unit_mark(unit, UNIT_REMEMBERED);
	if (unit_evaluate(unit) != 0)
		plan_tell(unit->owner);
}

static void on_event(void *userdata)
{
	struct inventory *inventory = userdata;

	plan_scan(inventory, MAX_OF(now_usec(CLOCK_MONOTONIC), inventory->scan_not_before), 1);
}

static void on_directory_change(enum watch_change change, const char *name, void *userdata)
{
	on_event(userdata);
}

static void swap_watches(struct inventory *inventory, struct scan *scan)
{
	struct watch **watches = inventory->watches;
	size_t n_watches = inventory->n_watches;

	inventory->watches = scan->watches;
	inventory->n_watches = scan->n_watches;
	scan->watches = watches;
	scan->n_watches = n_watches;
}

static bool lists(const void *userdata, const char *id, const struct device **ret_device)
{
	const struct inventory *inventory = userdata;
	const struct unit *unit = unit_list_find(&inventory->list, id);

	*ret_device = unit ? unit->device : NULL;
	return unit || (inventory->recalls_list && memory_find(inventory->list.memory, id));
}

/* Scans once and plans the next. Returns 1 if something changed, 0 if not, or negative errno. */
static int scan_now(struct inventory *inventory, struct error *error)
{
	_cleanup_scan_ struct scan scan = {
		.root = inventory->root,
		.state = inventory->driver_state,
		.watcher = inventory->watcher,
		.on_change = on_directory_change,
		.userdata = inventory,
		.uevents = inventory->uevents,
		.lists = lists,
	};
	uint64_t begin = now_usec(CLOCK_MONOTONIC), end;
	int r;

	inventory->scan_at = USEC_INFINITY;
	r = inventory->declaration->driver->list(inventory->declaration, &scan, error);
	if (r >= 0)
		r = unit_list_merge(&inventory->list, &scan, error);
	if (r >= 0) {
		if (unit_list_take_let_go(&inventory->list) != 0)
			r = 1;
		swap_watches(inventory, &scan);
		if (scan_notes_take(&inventory->notes, &scan))
			r = 1;
		scan_notes_take_missing(&inventory->notes, &scan, POLL_INTERVAL);
		if (!scan.incomplete)
			inventory->list.memory = memory_free(inventory->list.memory);
	}
	end = now_usec(CLOCK_MONOTONIC);
	inventory->scan_not_before = end + MAX_OF(SCAN_SPACING, SCAN_COST_FACTOR * (end - begin));
	if (r < 0 || inventory->notes.watches_missing || inventory->notes.events_missing)
		plan_scan(inventory, end + POLL_INTERVAL, POLL_ACCURACY);
	else if (inventory->n_watches > 0 || uevents_wanted(inventory->uevents))
		plan_scan(inventory, end + RESCAN_INTERVAL, RESCAN_ACCURACY);
	return r;
}

static int on_scan_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct inventory *inventory = userdata;
	struct error error;
	int r;

	r = scan_now(inventory, &error);
	if (scan_notes_take_end(&inventory->notes, r < 0 ? &error : NULL) || r > 0)
		plan_tell(inventory);
	return 0;
}

static int renew_snapshot(struct inventory *inventory)
{
	struct snapshot *snapshot;
	int r;

	r = unit_list_snapshot(&inventory->list, inventory->snapshot, &snapshot);
	if (r < 0)
		return r;
	(void)snapshot_unref(inventory->snapshot);
	inventory->snapshot = snapshot;
	return 0;
}

static void tell(struct inventory *inventory)
{
	inventory->tell_planned = false;
	inventory->told = now_usec(CLOCK_MONOTONIC);
	if (renew_snapshot(inventory) < 0)
		plan_tell(inventory); /* memory may be there by then */
	else if (inventory->on_change)
		inventory->on_change(inventory, inventory->userdata);
}

static int on_tell_now(sd_event_source *source, void *userdata)
{
	tell(userdata);
	return 0;
}

static int on_tell_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	tell(userdata);
	return 0;
}

static int add_timer(
	struct inventory *inventory, sd_event_time_handler_t handler, sd_event_source **ret)
{
	int r;

	r = sd_event_add_time(
		inventory->event, ret, CLOCK_MONOTONIC, USEC_INFINITY, 1, handler, inventory);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

int inventory_new(sd_event *event, const struct declaration *declaration, const char *root,
	inventory_handler on_change, void *userdata, struct inventory **ret)
{
	_cleanup_(inventory_freep) struct inventory *inventory = NULL;
	int r;

	inventory = calloc(1, sizeof(*inventory));
	if (!inventory)
		return -ENOMEM;
	inventory->event = sd_event_ref(event);
	inventory->declaration = declaration;
	inventory->on_change = on_change;
	inventory->userdata = userdata;
	inventory->notes.fields = (struct log_fields){ .resource = declaration->name };
	inventory->list.declaration = declaration;
	inventory->list.owner = inventory;
	inventory->scan_at = USEC_INFINITY;
	inventory->root = strdup(streq(root, "/") ? "" : root);
	if (!inventory->root)
		return -ENOMEM;
	r = watcher_new(event, inventory->root, &inventory->watcher);
	if (r < 0)
		return r;
	r = uevents_new(event, on_event, inventory, &inventory->uevents);
	if (r < 0)
		return r;
	if (declaration->health.count > 0) {
		r = health_new(event, declaration, inventory->root, inventory->watcher,
			on_unit_health, &inventory->list.health);
		if (r < 0)
			return r;
	}
	r = add_timer(inventory, on_scan_due, &inventory->scan_timer);
	if (r >= 0)
		r = add_timer(inventory, on_tell_due, &inventory->tell_timer);
	if (r >= 0)
		r = sd_event_add_defer(event, &inventory->tell_now, on_tell_now, inventory);
	if (r >= 0)
		r = sd_event_source_set_enabled(inventory->tell_now, SD_EVENT_OFF);
	if (r >= 0)
		r = renew_snapshot(inventory);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(inventory);
	return 0;
}

void inventory_recall(struct inventory *inventory, struct memory *memory)
{
	memory_free(inventory->list.memory);
	inventory->list.memory = memory;
}

int inventory_recall_list(struct inventory *inventory)
{
	inventory->recalls_list = true;
	return unit_list_recall_lent(&inventory->list);
}

int inventory_remember(const struct inventory *inventory, struct memory **ret)
{
	return unit_list_remember(&inventory->list, ret);
}

int inventory_remember_changes(struct inventory *inventory, struct memory **ret)
{
	return unit_list_remember_changes(&inventory->list, ret);
}

void inventory_note_remembered(struct inventory *inventory)
{
	unit_list_note_remembered(&inventory->list);
}

int inventory_inherit(struct inventory *inventory, const struct inventory *previous, bool keep_gone)
{
	struct memory *memory;
	int r;

	r = inventory_remember(previous, &memory);
	if (r < 0)
		return r;
	inventory_recall(inventory, memory);
	inventory->recalls_list = keep_gone;
	if (inventory->declaration->driver == previous->declaration->driver)
		inventory->previous_driver_state = previous->driver_state;
	return keep_gone ? unit_list_inherit_gone(&inventory->list, &previous->list) : 0;
}

static int start_driver(struct inventory *inventory, struct error *error)
{
	const struct driver_context context = {
		.event = inventory->event,
		.declaration = inventory->declaration,
		.root = inventory->root,
		.changed = on_event,
		.userdata = inventory,
	};
	const void *previous = inventory->previous_driver_state;

	inventory->previous_driver_state = NULL;
	if (!inventory->declaration->driver->start)
		return 0;
	return inventory->declaration->driver->start(
		&context, previous, &inventory->driver_state, error);
}

int inventory_start(struct inventory *inventory, struct error *error)
{
	struct error scan_error;
	int r;

	r = start_driver(inventory, error);
	if (r < 0)
		return r;
	r = scan_now(inventory, &scan_error);
	if (r == -E2BIG || r == -EINVAL)
		return error_set(error, r, "%s", scan_error.message);
	(void)scan_notes_take_end(&inventory->notes, r < 0 ? &scan_error : NULL);
	r = renew_snapshot(inventory);
	if (r < 0)
		return error_set(error, r, "out of memory");
	inventory->started = true;
	inventory->told = now_usec(CLOCK_MONOTONIC) - INVENTORY_QUIET;
	return 0;
}

int inventory_set_owners(struct inventory *inventory, const char *owners)
{
	int r = unit_list_set_owners(&inventory->list, owners);

	if (inventory->list.let_go)
		on_event(inventory);
	if (r > 0 && renew_snapshot(inventory) < 0)
		r = -ENOMEM;
	return r;
}

int inventory_drop_gone(struct inventory *inventory, const char *in_use, uint64_t until)
{
	int r = unit_list_drop_gone(&inventory->list, in_use, until);

	if (r > 0 && renew_snapshot(inventory) < 0)
		r = -ENOMEM;
	return r;
}

const char *inventory_failure(const struct inventory *inventory)
{
	return inventory->notes.failure;
}

const struct strings *inventory_notes(const struct inventory *inventory)
{
	return &inventory->notes.notes;
}

struct snapshot *inventory_snapshot(struct inventory *inventory)
{
	return snapshot_ref(inventory->snapshot);
}

struct inventory *inventory_free(struct inventory *inventory)
{
	if (!inventory)
		return NULL;
	if (inventory->driver_state)
		inventory->driver_state =
			inventory->declaration->driver->stop(inventory->driver_state);
	unit_list_done(&inventory->list);
	for (size_t i = 0; i < inventory->n_watches; i++)
		(void)watch_free(inventory->watches[i]);
	free(inventory->watches);
	(void)health_free(inventory->list.health);
	(void)watcher_free(inventory->watcher);
	(void)uevents_free(inventory->uevents);
	(void)sd_event_source_disable_unref(inventory->scan_timer);
	(void)sd_event_source_disable_unref(inventory->tell_now);
	(void)sd_event_source_disable_unref(inventory->tell_timer);
	(void)snapshot_unref(inventory->snapshot);
	scan_notes_done(&inventory->notes);
	free(inventory->root);
	sd_event_unref(inventory->event);
	free(inventory);
	return NULL;
}
