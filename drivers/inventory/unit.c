/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees and finds units, and answers questions about them. This file uses no other file of the
 * inventory, so that all others can use it.
 */
#include "drivers/inventory/unit.h"

struct unit *unit_free(struct unit *unit)
{
	if (!unit)
		return NULL;
	(void)health_unit_free(unit->health);
	(void)device_unref(unit->device);
	(void)device_unref(unit->excluded);
	free(unit->owner_name);
	free(unit->companion);
	free(unit->stale);
	free(unit->dirty);
	free(unit->loss);
	free(unit->reason);
	(void)finding_set_unref(unit->findings);
	free(unit);
	return NULL;
}

bool unit_may_be_gone(const struct unit *unit)
{
	return unit->away && !unit->device->anchor;
}

static int compare_id(const void *id, const void *element)
{
	const struct unit *const *unit = element;

	return strcmp(id, (*unit)->device->id);
}

const struct unit *unit_list_find(const struct unit_list *list, const char *id, size_t *ret_index)
{
	struct unit **found = list->n_units > 0
		? bsearch(id, list->units, list->n_units, sizeof(list->units[0]), compare_id)
		: NULL;

	if (found && ret_index)
		*ret_index = (size_t)(found - list->units);
	return found ? *found : NULL;
}
