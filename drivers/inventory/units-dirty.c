/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the supervisor's decision about which devices are being cleaned after a pod, or could not
 * be (supervisor/books/cleaning.c). No pod has such a device. The text is kept, because a scan may
 * find such a device later.
 */
#include "drivers/inventory/units.h"

/* The reason in the line of that device, which ends at the line's end; NULL: it has no line. */
static const char *find_line(const char *text, const char *id)
{
	size_t length = strlen(id);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, id, length) == 0 && line[length] == '\t')
			return line + length + 1;
	}
	return NULL;
}

bool unit_has_pod(const struct unit *unit)
{
	char id[OFFERED_ID_MAX + 1];
	size_t length = strlen(unit->device->id);
	unsigned replica;

	if (!unit->in_use || !unit->list->dirty || unit->dirty)
		return unit->in_use && !unit->dirty;
	/* A placeholder has an offered id, and does not follow the text. */
	if (declaration_is_shared(unit->list->declaration))
		(void)offered_id_split(unit->device->id, &length, &replica);
	(void)snprintf(id, sizeof(id), "%.*s", (int)length, unit->device->id);
	return !find_line(unit->list->dirty, id);
}

int unit_take_dirty(struct unit *unit)
{
	const char *reason = find_line(unit->list->dirty, unit->device->id);
	char *copy = NULL;

	if (reason) {
		copy = strndup(reason, strcspn(reason, "\n"));
		if (!copy)
			return -ENOMEM;
	}
	free(unit->dirty);
	unit->dirty = copy;
	return 0;
}

int unit_list_set_dirty(struct unit_list *list, const char *dirty)
{
	char *copy = strdup(dirty);
	bool changed;
	int r = copy ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	changed = list->n_placeholders > 0 && !streq(dirty, list->dirty ?: "");
	free(list->dirty);
	list->dirty = copy;
	for (size_t i = 0; i < list->n_units && r >= 0; i++) {
		struct unit *unit = list->units[i];
		bool had_pod = unit_has_pod(unit);

		r = unit_take_dirty(unit);
		if (r >= 0)
			r = unit_evaluate(unit);
		/* Whether a pod loses it. */
		changed = changed || r > 0 || (!unit->present && had_pod != unit_has_pod(unit));
	}
	return r < 0 ? r : changed;
}
