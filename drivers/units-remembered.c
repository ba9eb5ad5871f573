/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units as the next configuration, or the next process, is to find them. Of ten thousand few change
 * at a time, and what changed is found without a copy: by a fingerprint of what was remembered.
 */
#include "drivers/memory-device.h"
#include "drivers/units.h"

static uint64_t fingerprint(const struct unit *unit)
{
	uint64_t value = health_unit_fingerprint(unit->health);

	value = hash_number(value, unit->healthy);
	value = hash_number(value, unit->since);
	return hash_number(value, device_was_lent(unit->device));
}

/* Of a unit that unit_fetch_ahead() has had fetched. */
static void fetch_parts_ahead(const struct unit_list *list, size_t index)
{
	const size_t ahead = 8;

	if (index + ahead < list->n_units) {
		__builtin_prefetch(&list->units[index + ahead]->device->lent);
		__builtin_prefetch(list->units[index + ahead]->health);
	}
}

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
	_cleanup_memory_ struct memory *memory = NULL;
	int r;

	/* What is no longer remembered cannot be taken back. */
	if (list->memory || list->remembered_more)
		return -ESTALE;
	r = memory_new(&memory);
	for (size_t i = 0; r >= 0 && i < list->n_units; i++) {
		struct unit *unit = list->units[i];
		uint64_t now;

		unit_fetch_ahead(list, i);
		fetch_parts_ahead(list, i);
		now = fingerprint(unit);
		if (now == unit->remembered)
			continue;
		r = remember(unit, memory);
		unit->remembered = now;
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(memory);
	return 0;
}

void unit_list_note_remembered(struct unit_list *list)
{
	for (size_t i = 0; i < list->n_units; i++)
		list->units[i]->remembered = fingerprint(list->units[i]);
	list->remembered_more = list->memory;
}
