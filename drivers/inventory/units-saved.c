/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units as they are saved for the next configuration, or the next process.
 */
#include "drivers/health/saved-device.h"
#include "drivers/inventory/units.h"

static int save_unit(const struct unit *unit, struct saved_state *saved)
{
	struct saved_unit *saved_unit;
	int r;

	r = saved_state_add(saved, unit->device->id, unit->healthy, unit->since, &saved_unit);
	if (r < 0)
		return r;
	saved_unit->changes = unit->changes;
	saved_unit->assigned = device_was_assigned(unit->device);
	/* It cannot be scanned again. */
	if (saved_unit->assigned && unit->present && saved_device_is_plain(unit->device))
		saved_unit->device = device_ref(unit->device);
	return unit->health ? health_unit_save(unit->health, saved_unit) : 0;
}

int unit_list_save(const struct unit_list *list, struct saved_state **ret)
{
	_cleanup_saved_state_ struct saved_state *saved = NULL;
	int r;

	r = saved_state_new(&saved);
	for (size_t i = 0; r >= 0 && i < list->n_units; i++)
		r = save_unit(list->units[i], saved);
	if (r >= 0 && list->saved)
		r = saved_state_merge(saved, list->saved);
	if (r < 0)
		return r;
	saved->allocations = bookings_ref(list->allocations);
	*ret = TAKE_PTR(saved);
	return 0;
}

int unit_list_save_changes(struct unit_list *list, struct saved_state **ret)
{
	const struct unit_marks *marks = &list->marks[UNIT_SAVED];
	_cleanup_saved_state_ struct saved_state *saved = NULL;
	int r;

	if (!marks->complete)
		return -ESTALE;
	r = saved_state_new(&saved);
	for (size_t i = 0; r >= 0 && i < marks->count; i++)
		r = save_unit(marks->units[i], saved);
	if (r < 0)
		return r;
	unit_list_unmark(list, UNIT_SAVED);
	*ret = TAKE_PTR(saved);
	return 0;
}

void unit_list_note_saved(struct unit_list *list)
{
	unit_list_unmark(list, UNIT_SAVED);
}
