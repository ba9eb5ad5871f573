/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when devices are scanned and when a change is sent. Events bring the next scan forward,
 * but not more often than its cost allows. A change is sent at once, or after INVENTORY_QUIET, or
 * later if the last one was expensive. Drivers find the devices (list()), units.c merges them,
 * device-health.c decides their health, scan-notes.c logs problems.
 */
#include "drivers/inventory/inventory.h"

#include "common/counters.h"
#include "common/pace.h"
#include "drivers/host/scan-notes.h"
#include "drivers/host/sysfs-locked.h"
#include "drivers/inventory/listing.h"
#include "drivers/inventory/published-attributes.h"
#include "drivers/inventory/published-capacity.h"
#include "drivers/inventory/units.h"

/* The interval without any event, as a safety net for lost events and for changes that inotify does
 * not report. */
#define RESCAN_INTERVAL (60 * USEC_PER_SEC)
#define RESCAN_ACCURACY (10 * USEC_PER_SEC)
/* After a failure, and where inotify is not to be had. */
#define POLL_INTERVAL (5 * USEC_PER_SEC)
#define POLL_ACCURACY USEC_PER_SEC
/* The delay after a scan that could not read an attribute because the kernel had locked it. */
#define LOCKED_INTERVAL USEC_PER_SEC
/* How long a scan may wait for attributes. The values that are kept are not read again, so the next
 * scans find the rest. Below CONTROL_ALIVE_TIMEOUT. */
#define LOCKED_MAX (20 * USEC_PER_SEC)
/* Between two scans, so that a storm of events takes a fifth of a processor at most. */
#define SCAN_SPACING (20 * USEC_PER_MSEC)

struct inventory {
	sd_event *event;
	const struct declaration *declaration;
	char *root;
	inventory_handler on_change, on_measured;
	inventory_handler on_scanned; /* see inventory_scan(); NULL: no caller waits */
	void *userdata;

	struct watcher *watcher;
	struct watch **watches; /* of the last good scan */
	size_t n_watches;
	struct uevents *uevents;
	struct unit_list list;
	struct snapshot *snapshot;
	/* Since that was made: units whose health has changed, and whether anything else has. */
	struct unit **changed;
	size_t n_changed;
	bool list_changed;
	void *driver_state;
	const void *previous_driver_state; /* until the driver is started */

	sd_event_source *scan_timer;
	uint64_t scan_at; /* USEC_INFINITY: no scan is planned */
	struct pace scanning;
	sd_event_source *report_now, *report_timer;
	struct pace reporting;
	bool report_planned;
	bool scanned; /* on_scanned() is due after the planned report */

	struct scan_notes notes;
	struct measurements measurements;
	bool inherits;      /* an earlier inventory, see inventory_inherit() */
	bool restores_list; /* the saved state was found by the same declaration */
	bool complete;      /* the last good scan was, see inventory_is_complete() */
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

static void plan_any_report(struct inventory *inventory)
{
	uint64_t at = inventory->reporting.not_before;

	if (inventory->report_planned || !inventory->started)
		return;
	inventory->report_planned = true;
	if (at <= now_usec(CLOCK_MONOTONIC)) {
		(void)sd_event_source_set_enabled(inventory->report_now, SD_EVENT_ONESHOT);
		return;
	}
	(void)sd_event_source_set_time(inventory->report_timer, at);
	(void)sd_event_source_set_enabled(inventory->report_timer, SD_EVENT_ONESHOT);
}

static void plan_report(struct inventory *inventory)
{
	inventory->list_changed = true;
	plan_any_report(inventory);
}

static void on_unit_health(void *userdata)
{
	struct unit *unit = userdata;
	struct inventory *inventory = unit->owner;

	if (unit_evaluate(unit) == 0)
		return;
	if (array_reserve((void **)&inventory->changed, inventory->n_changed, sizeof(unit)) < 0)
		inventory->list_changed = true;
	else
		inventory->changed[inventory->n_changed++] = unit;
	plan_any_report(inventory);
}

static void on_event(void *userdata)
{
	struct inventory *inventory = userdata;

	plan_scan(inventory, pace_next(&inventory->scanning), 1);
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
	const struct unit *unit = unit_list_find(&inventory->list, id, NULL);

	*ret_device = unit ? unit->device : NULL;
	return unit || (inventory->restores_list && saved_state_find(inventory->list.saved, id));
}

static bool measurements_equal(const struct measurements *a, const struct measurements *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct measurement *x = &a->items[i], *y = &b->items[i];

		if (x->value != y->value || x->code != y->code || !streq(x->name, y->name) ||
			!streq(x->device, y->device))
			return false;
	}
	return true;
}

static void take_measurements(struct inventory *inventory, struct scan *scan)
{
	struct measurements before = inventory->measurements;

	inventory->measurements = scan->measurements;
	scan->measurements = before;
	if (inventory->started && inventory->on_measured &&
		!measurements_equal(&before, &inventory->measurements))
		inventory->on_measured(inventory, inventory->userdata);
}

/* The list need not have changed. */
static void take_completeness(struct inventory *inventory, bool complete)
{
	bool changed = complete != inventory->complete;

	inventory->complete = complete;
	if (changed && inventory->started && inventory->on_measured)
		inventory->on_measured(inventory, inventory->userdata);
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
		.booked = inventory->list.all_booked,
	};
	unsigned refusals = sysfs_locked_refusals();
	uint64_t end;
	int r;

	inventory->scan_at = USEC_INFINITY;
	pace_begin(&inventory->scanning);
	sysfs_locked_limit(LOCKED_MAX);
	r = unit_list_expect(&inventory->list, &scan);
	if (r >= 0)
		r = list_devices(inventory->declaration, &scan, error);
	else
		(void)error_set(error, r, "out of memory");
	if (r >= 0 &&
		(published_attributes_add(inventory->declaration, &scan) < 0 ||
			published_capacity_add(inventory->declaration, &scan) < 0))
		r = error_set(error, -ENOMEM, "out of memory");
	sysfs_locked_limit(USEC_INFINITY);
	refusals = sysfs_locked_refusals() - refusals;
	if (refusals > 0)
		scan_incomplete(&scan);
	if (r >= 0)
		r = unit_list_merge(&inventory->list, &scan, error);
	if (r >= 0) {
		if (unit_list_take_released(&inventory->list) != 0)
			r = 1;
		swap_watches(inventory, &scan);
		take_measurements(inventory, &scan);
		if (scan_notes_take(&inventory->notes, &scan))
			r = 1;
		scan_notes_take_missing(&inventory->notes, &scan, POLL_INTERVAL);
		take_completeness(inventory, !scan.incomplete);
		if (!scan.incomplete) {
			inventory->list.saved = saved_state_free(inventory->list.saved);
			inventory->list.scanned = true;
		}
	}
	end = pace_end(&inventory->scanning, SCAN_SPACING);
	counters_add(COUNTER_SCANS, 1);
	counters_add(COUNTER_SCANS_FAILED, r < 0);
	counters_add(COUNTER_SCAN_USEC, end - inventory->scanning.begun);
	if (refusals > 0)
		plan_scan(inventory, end + LOCKED_INTERVAL, POLL_ACCURACY);
	else if (r < 0 || inventory->notes.watches_missing || inventory->notes.events_missing)
		plan_scan(inventory, end + POLL_INTERVAL, POLL_ACCURACY);
	else if (inventory->n_watches > 0 || uevents_wanted(inventory->uevents))
		plan_scan(inventory, end + RESCAN_INTERVAL, RESCAN_ACCURACY);
	return r;
}

static void finish_scan(struct inventory *inventory)
{
	inventory_handler on_scanned = inventory->on_scanned;

	if (!inventory->scanned)
		return;
	inventory->scanned = false;
	inventory->on_scanned = NULL;
	on_scanned(inventory, inventory->userdata);
}

static int on_scan_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct inventory *inventory = userdata;
	struct error error;
	int r;

	r = scan_now(inventory, &error);
	if (scan_notes_take_end(&inventory->notes, r < 0 ? &error : NULL) || r > 0)
		plan_report(inventory);
	inventory->scanned = inventory->on_scanned;
	if (!inventory->report_planned)
		finish_scan(inventory);
	return 0;
}

static int renew_snapshot(struct inventory *inventory)
{
	struct unit **changed = inventory->list_changed ? NULL : inventory->changed;
	struct snapshot *snapshot;
	int r;

	r = unit_list_snapshot(
		&inventory->list, inventory->snapshot, changed, inventory->n_changed, &snapshot);
	if (r < 0)
		return r;
	(void)snapshot_unref(inventory->snapshot);
	inventory->snapshot = snapshot;
	inventory->n_changed = 0;
	inventory->list_changed = false;
	return 0;
}

static void report(struct inventory *inventory)
{
	int r;

	inventory->report_planned = false;
	pace_begin(&inventory->reporting);
	r = renew_snapshot(inventory);
	if (r >= 0 && inventory->on_change)
		inventory->on_change(inventory, inventory->userdata);
	(void)pace_end(&inventory->reporting, INVENTORY_QUIET);
	if (r >= 0)
		finish_scan(inventory);
	else
		plan_report(inventory); /* memory may be there by then */
}

static int on_report_now(sd_event_source *source, void *userdata)
{
	report(userdata);
	return 0;
}

static int on_report_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	report(userdata);
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
		r = add_timer(inventory, on_report_due, &inventory->report_timer);
	if (r >= 0)
		r = sd_event_add_defer(event, &inventory->report_now, on_report_now, inventory);
	if (r >= 0)
		r = sd_event_source_set_enabled(inventory->report_now, SD_EVENT_OFF);
	if (r >= 0)
		r = renew_snapshot(inventory);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(inventory);
	return 0;
}

void inventory_restore(struct inventory *inventory, struct saved_state *saved)
{
	saved_state_free(inventory->list.saved);
	inventory->list.saved = saved;
	(void)bookings_unref(inventory->list.allocations);
	inventory->list.allocations = bookings_ref(saved->allocations);
}

int inventory_restore_list(struct inventory *inventory)
{
	inventory->restores_list = true;
	return unit_list_restore_assigned(&inventory->list);
}

int inventory_save(const struct inventory *inventory, struct saved_state **ret)
{
	return unit_list_save(&inventory->list, ret);
}

int inventory_write(const struct inventory *inventory, uint64_t match_fingerprint, int fd)
{
	return unit_list_write(&inventory->list, match_fingerprint, fd);
}

int inventory_inherit(struct inventory *inventory, const struct inventory *previous, bool keep_gone)
{
	struct saved_state *saved;
	int r;

	r = inventory_save(previous, &saved);
	if (r < 0)
		return r;
	inventory_restore(inventory, saved);
	r = unit_list_set_dirty(&inventory->list, previous->list.dirty ?: "");
	if (r >= 0)
		r = unit_list_set_booked(&inventory->list, previous->list.kubelet_booked, 0, 0);
	if (r >= 0)
		r = unit_list_set_pending(&inventory->list, previous->list.pending);
	if (r < 0)
		return r;
	inventory->inherits = true;
	inventory->restores_list = keep_gone;
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
	if (r == -E2BIG || r == -EINVAL || (r == -ENOSPC && inventory->inherits))
		return error_set(error, r, "%s", scan_error.message);
	(void)scan_notes_take_end(&inventory->notes, r < 0 ? &scan_error : NULL);
	inventory->list_changed = true;
	r = renew_snapshot(inventory);
	if (r < 0)
		return error_set(error, r, "out of memory");
	inventory->started = true;
	return 0;
}

void inventory_await_owners(struct inventory *inventory)
{
	for (size_t i = 0; i < inventory->list.n_units; i++) {
		struct unit *unit = inventory->list.units[i];

		unit->awaits_owner = unit->present && !unit->has_owner;
	}
}

int inventory_set_owners(struct inventory *inventory, const char *owners)
{
	int r = unit_list_set_owners(&inventory->list, owners);

	if (inventory->list.owner_released)
		on_event(inventory);
	inventory->list_changed = inventory->list_changed || r != 0;
	if (r > 0 && renew_snapshot(inventory) < 0)
		r = -ENOMEM;
	return r;
}

int inventory_set_dirty(struct inventory *inventory, const char *dirty)
{
	int r = unit_list_set_dirty(&inventory->list, dirty);

	inventory->list_changed = inventory->list_changed || r != 0;
	if (r > 0 && inventory->started && renew_snapshot(inventory) < 0)
		r = -ENOMEM;
	return r;
}

/* Before the start, there is no snapshot yet. */
static int show_booked(struct inventory *inventory, int r)
{
	inventory->list_changed = inventory->list_changed || r != 0;
	return r > 0 && inventory->started && renew_snapshot(inventory) < 0 ? -ENOMEM : r;
}

int inventory_set_booked(struct inventory *inventory, struct bookings *booked, uint64_t gone_until,
	uint64_t allocated_until)
{
	return show_booked(inventory,
		unit_list_set_booked(&inventory->list, booked, gone_until, allocated_until));
}

/* A device may have left the list while it was being allocated: no older snapshot may be offered.
 */
static int report_bookings(struct inventory *inventory, int r)
{
	if (r > 0)
		plan_report(inventory);
	/* With a report planned, the snapshot may lack a device that the units have. */
	r = show_booked(inventory, r >= 0 && inventory->report_planned ? 1 : r);
	return r < 0 ? r : 0;
}

int inventory_note_allocated(struct inventory *inventory, const struct snapshot *listed,
	const char *const *ids, size_t n_ids)
{
	return report_bookings(
		inventory, unit_list_note_allocated(&inventory->list, listed, ids, n_ids));
}

void inventory_note_assigned(struct inventory *inventory, const char *const *ids, size_t n_ids)
{
	unit_list_note_assigned(&inventory->list, ids, n_ids);
}

int inventory_set_pending(struct inventory *inventory, struct bookings *pending)
{
	return report_bookings(inventory, unit_list_set_pending(&inventory->list, pending));
}

int inventory_forget(struct inventory *inventory, const char *id)
{
	return show_booked(inventory, unit_list_forget(&inventory->list, id));
}

int inventory_resume(struct inventory *inventory, const char *id, bool untested)
{
	struct unit *unit;
	size_t index;

	if (!unit_list_find(&inventory->list, id, &index))
		return 0;
	unit = inventory->list.units[index];
	if (!unit->health || !health_unit_resume(unit->health, untested))
		return 0;
	on_unit_health(unit);
	return 1;
}

int inventory_release(struct inventory *inventory, bool released, const char *reset)
{
	const struct driver *driver = inventory->declaration->driver;
	int r;

	if (!driver->release || !inventory->driver_state)
		return -EOPNOTSUPP;
	r = driver->release(inventory->driver_state, released, reset);
	on_event(inventory);
	return r;
}

void inventory_scan(struct inventory *inventory, inventory_handler on_scanned)
{
	inventory->on_scanned = on_scanned;
	inventory->scanned = false;
	on_event(inventory);
}

void inventory_on_measured(struct inventory *inventory, inventory_handler on_measured)
{
	inventory->on_measured = on_measured;
}

const struct measurements *inventory_measurements(const struct inventory *inventory)
{
	return &inventory->measurements;
}

const char *inventory_failure(const struct inventory *inventory)
{
	return inventory->notes.failure;
}

const struct strings *inventory_notes(const struct inventory *inventory)
{
	return &inventory->notes.notes;
}

bool inventory_is_complete(const struct inventory *inventory)
{
	return inventory->complete;
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
	(void)sd_event_source_disable_unref(inventory->report_now);
	(void)sd_event_source_disable_unref(inventory->report_timer);
	(void)snapshot_unref(inventory->snapshot);
	free(inventory->changed);
	scan_notes_done(&inventory->notes);
	free(inventory->measurements.items);
	free(inventory->root);
	sd_event_unref(inventory->event);
	free(inventory);
	return NULL;
}
