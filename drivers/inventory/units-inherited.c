/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units that are known although the first scan may not find them: those of the previous inventory,
 * and, after a restart, those that were in containers. Later decisions treat them as if they had
 * always been here.
 */
#include "drivers/inventory/units.h"

int unit_list_inherit_gone(struct unit_list *list, const struct unit_list *previous)
{
	assert(list->n_units == 0 && !list->units);
	unit_list_disturb(list);

	list->units = calloc(previous->n_units + 1, sizeof(list->units[0]));
	if (!list->units)
		return -ENOMEM;
	for (size_t i = 0; i < previous->n_units; i++) {
		const struct unit *old = previous->units[i];
		struct unit **unit = &list->units[list->n_units];
		int r;

		if ((old->present && !old->away) ||
			declaration_excludes(list->declaration, old->device))
			continue;
		r = unit_new(list, old->device, list->n_units, unit);
		if (r < 0)
			return r;
		list->n_units++;
		(*unit)->present = old->away;
		(*unit)->away = old->away;
		(*unit)->gone_since = old->gone_since;
		if ((*unit)->health && !old->away)
			(void)health_unit_update((*unit)->health, NULL, list->n_units - 1);
		r = unit_evaluate(*unit);
		if (r < 0)
			return r;
		(*unit)->since = old->since;
		(*unit)->changes = old->changes;
	}
	return 0;
}

static int compare_units(const void *a, const void *b)
{
	const struct unit *const *x = a, *const *y = b;

	return strcmp((*x)->device->id, (*y)->device->id);
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

int unit_list_restore_assigned(struct unit_list *list)
{
	assert(list->n_units == 0 && !list->units);
	unit_list_disturb(list);

	if (!list->saved)
		return 0;
	list->units = calloc(list->saved->n_units + 1, sizeof(list->units[0]));
	if (!list->units)
		return -ENOMEM;
	for (size_t i = 0; i < list->saved->n_units; i++) {
		struct device *device = list->saved->units[i]->device;
		struct unit **unit = &list->units[list->n_units];
		int r;

		if (!device || declaration_excludes(list->declaration, device))
			continue;
		r = unit_new(list, device, list->n_units, unit);
		if (r < 0)
			return r;
		list->n_units++;
	}
	qsort(list->units, list->n_units, sizeof(list->units[0]), compare_units);
	return 0;
}
