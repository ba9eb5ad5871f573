/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes snapshots of the units. One is made for every change of health, so it begins as a copy of
 * the previous one, and reads nothing of a device that is in that.
 */
#include "drivers/inventory/units.h"

/* Rules of sharing are texts to match, so what was found for a device is kept. */
static unsigned replicas_of(const struct unit *unit, const struct snapshot *previous)
{
	size_t i = unit->index;

	if (previous && i < previous->n_units && previous->units[i].device == unit->device)
		return previous->units[i].replicas;
	return declaration_replicas(unit->list->declaration, unit->device->id);
}

static void show(
	const struct unit *unit, const struct snapshot *previous, struct snapshot_unit *ret)
{
	*ret = (struct snapshot_unit){
		.device = unit->device,
		.replicas = replicas_of(unit, previous),
		.present = unit->present,
		.may_be_gone = unit_may_be_gone(unit),
		.healthy = unit->healthy,
		.claimed_by_other = unit->owner_name && !unit->booked,
		.numa_kept = unit->numa_kept != 0,
		.cause = unit->cause,
		.reason = unit->reason,
		.changes = unit->changes,
		.since = unit->since,
	};
}

static void show_all(
	struct unit_list *list, const struct snapshot *previous, struct snapshot *snapshot)
{
	for (size_t i = 0; i < list->n_units; i++) {
		list->units[i]->index = i;
		show(list->units[i], previous, &snapshot->units[i]);
		if (list->units[i]->numa_kept && !snapshot->bookings)
			snapshot->bookings = bookings_ref(list->booked);
	}
	for (size_t i = 0; i < list->n_held; i++)
		snapshot->units[list->n_units + i] = (struct snapshot_unit){
			.device = list->held[i]->device,
			.excluded = list->held[i]->excluded,
			.replicas = 1,
			.cause = CAUSE_BOOKED,
			.reason = list->held[i]->reason,
			.since = list->held[i]->since,
		};
}

static void show_changes(
	const struct unit_list *list, const struct snapshot *previous, struct snapshot *snapshot)
{
	const struct unit_marks *marks = &list->marks[UNIT_SHOWN];

	memcpy(snapshot->units, previous->units, snapshot->n_units * sizeof(snapshot->units[0]));
	snapshot->bookings = bookings_ref(previous->bookings);
	for (size_t i = 0; i < marks->count; i++)
		show(marks->units[i], previous, &snapshot->units[marks->units[i]->index]);
}

/* Until here they are those of units and of another snapshot. */
static int copy_reasons(struct snapshot *snapshot)
{
	size_t size = 1;
	char *p;

	for (size_t i = 0; i < snapshot->n_units; i++)
		if (snapshot->units[i].reason)
			size += strlen(snapshot->units[i].reason) + 1;
	p = snapshot->reasons = malloc(size);
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->n_units; i++) {
		char *copy = p;

		if (!snapshot->units[i].reason)
			continue;
		p = stpcpy(p, snapshot->units[i].reason) + 1;
		snapshot->units[i].reason = copy;
	}
	return 0;
}

int unit_list_snapshot(
	struct unit_list *list, const struct snapshot *previous, struct snapshot **ret)
{
	_cleanup_snapshot_ struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	int r;

	if (!snapshot)
		return -ENOMEM;
	if (!list->marks[UNIT_SHOWN].complete) {
		r = unit_list_cover_booked(list);
		if (r < 0)
			return r;
	}
	atomic_init(&snapshot->references, 1);
	snapshot->generation = previous ? previous->generation + 1 : 0;
	snapshot->shared = declaration_is_shared(list->declaration);
	snapshot->n_held = list->n_held;
	snapshot->n_units = list->n_units + list->n_held;
	snapshot->units = malloc((snapshot->n_units + 1) * sizeof(*snapshot->units));
	if (!snapshot->units)
		return -ENOMEM;
	if (list->marks[UNIT_SHOWN].complete && previous && previous == list->shown)
		show_changes(list, previous, snapshot);
	else
		show_all(list, previous, snapshot);
	r = copy_reasons(snapshot);
	if (r >= 0)
		r = snapshot_keep_devices(snapshot, previous);
	if (r < 0)
		return r;
	unit_list_unmark(list, UNIT_SHOWN);
	list->shown = snapshot;
	*ret = TAKE_PTR(snapshot);
	return 0;
}
