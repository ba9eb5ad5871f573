/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the supervisor's decision about which devices are being cleaned after a pod, or could not
 * be (supervisor/books/cleaning.c). The text is kept, because a scan may find such a device later.
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
	bool changed = false;
	int r = copy ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	free(list->dirty);
	list->dirty = copy;
	for (size_t i = 0; i < list->n_units && r >= 0; i++) {
		r = unit_take_dirty(list->units[i]);
		if (r >= 0)
			r = unit_evaluate(list->units[i]);
		changed = changed || r > 0;
	}
	return r < 0 ? r : changed;
}
