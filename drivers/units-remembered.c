/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units as the next configuration, or the next process, is to find them.
 */
#include "drivers/memory-device.h"
#include "drivers/units.h"

static int remember(const struct unit *unit, struct memory *memory)
{
	struct memory_unit *remembered;
	int r;

	r = memory_add(memory, unit->device->id, unit->healthy, unit->since, &remembered);
	if (r < 0)
		return r;
	remembered->lent = device_was_lent(unit->device);
	/* Nobody can look at it again. */
	if (remembered->lent && unit->present && memory_device_is_plain(unit->device))
		remembered->device = device_ref(unit->device);
	return unit->health ? health_unit_remember(unit->health, remembered) : 0;
}

int unit_list_remember(const struct unit_list *list, struct memory **ret)
{
	_cleanup_memory_ struct memory *memory = NULL;
	int r;

	r = memory_new(&memory);
	for (size_t i = 0; r >= 0 && i < list->n_units; i++)
		r = remember(list->units[i], memory);
	if (r >= 0 && list->memory)
		r = memory_merge(memory, list->memory);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(memory);
	return 0;
}

int unit_list_remember_changes(struct unit_list *list, struct memory **ret)
{
	const struct unit_marks *marks = &list->marks[UNIT_REMEMBERED];
	_cleanup_memory_ struct memory *memory = NULL;
	int r;

	if (!marks->complete)
		return -ESTALE;
	r = memory_new(&memory);
	for (size_t i = 0; r >= 0 && i < marks->count; i++)
		r = remember(marks->units[i], memory);
	if (r < 0)
		return r;
	unit_list_unmark(list, UNIT_REMEMBERED);
	*ret = TAKE_PTR(memory);
	return 0;
}

void unit_list_note_remembered(struct unit_list *list)
{
	unit_list_unmark(list, UNIT_REMEMBERED);
}
