/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the supervisor's decision about which devices belong to other resources
 * (supervisor/ownership/ownership.c), or are unhealthy because of an outdated answer, and decides
 * when a released device is ours. The decision arrives as a text of many lines, which is made into
 * a map first.
 */
#include "drivers/inventory/units.h"

#include "common/map.h"
#include "drivers/inventory/hardware-claims.h"

static int set_owner(struct unit *unit, const char *owner)
{
	char *copy;

	/* A removed unit keeps its owner. */
	if (!unit->present)
		return 0;
	/* An owner also releases a removed device, and may be the first to see the removal. */
	unit->owner_released = !owner && unit->owner_name;
	unit->list->owner_released = unit->list->owner_released || unit->owner_released;
	if (!owner || (unit->owner_name && streq(owner, unit->owner_name)))
		return 0;
	copy = strdup(owner);
	if (!copy)
		return -ENOMEM;
	free(unit->owner_name);
	unit->owner_name = copy;
	return unit_evaluate(unit) < 0 ? -ENOMEM : 1;
}

static int set_stale(struct unit *unit, const char *reason, bool in_use)
{
	char *copy = NULL;

	if (reason ? unit->stale && streq(reason, unit->stale) : !unit->stale)
		return 0;
	unit->stale_in_use = in_use;
	if (reason) {
		copy = strdup(reason);
		if (!copy)
			return -ENOMEM;
	}
	free(unit->stale);
	unit->stale = copy;
	return unit_evaluate(unit);
}

/* `text`: the part of the unit's line after the tab; NULL: there is no line. */
static int apply_line(struct unit *unit, const char *text)
{
	bool in_use = text && *text == OWNERS_IN_USE;
	bool is_reason = in_use || (text && *text == OWNERS_STALE);
	int changed = set_stale(unit, is_reason ? text + 1 : NULL, in_use), r;

	unit->has_owner = unit->has_owner || unit->awaits_owner;
	unit->awaits_owner = false;
	r = changed < 0 ? changed : set_owner(unit, is_reason ? NULL : text);
	return r < 0 ? r : changed | r;
}

int unit_list_set_owners(struct unit_list *list, const char *owners)
{
	_cleanup_(map_done) struct map by_id = { 0 };
	_cleanup_free_ char *text = strdup(owners);
	bool changed = false;
	int r = text ? 0 : -ENOMEM;
	char *rest = NULL;

	list->owner_released = false;
	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line && r >= 0;
		line = strtok_r(NULL, "\n", &rest)) {
		char *tab = strchr(line, '\t');

		if (!tab)
			continue;
		*tab = '\0';
		r = map_put(&by_id, line, tab + 1);
		if (r == -EEXIST)
			r = 0;
	}
	for (size_t i = 0; i < list->n_units && r >= 0; i++) {
		r = apply_line(list->units[i], map_get(&by_id, list->units[i]->device->id));
		changed = changed || r > 0;
	}
	return r < 0 ? r : changed;
}

int unit_list_take_released(struct unit_list *list)
{
	if (!list->owner_released)
		return 0;
	for (size_t i = 0; i < list->n_units; i++) {
		struct unit *unit = list->units[i];

		if (!unit->owner_released)
			continue;
		free(unit->owner_name);
		unit->owner_name = NULL;
		unit->owner_released = false;
		if (unit_evaluate(unit) < 0)
			return -ENOMEM;
	}
	list->owner_released = false;
	return 1;
}
