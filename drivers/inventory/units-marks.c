/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which units have changed since the last reader. Ten thousand units are spread over the memory, so
 * reading each takes longer than everything else that a change of one costs. If it is not known,
 * all count as changed.
 */
#include "drivers/inventory/units.h"

void unit_mark(struct unit *unit, enum unit_mark mark)
{
	struct unit_marks *marks = &unit->list->marks[mark];

	if (!marks->complete || unit->marked[mark])
		return;
	if (array_reserve((void **)&marks->units, marks->count, sizeof(marks->units[0])) < 0) {
		marks->complete = false;
		return;
	}
	marks->units[marks->count++] = unit;
	unit->marked[mark] = true;
}

void unit_list_unmark(struct unit_list *list, enum unit_mark mark)
{
	struct unit_marks *marks = &list->marks[mark];

	for (size_t i = 0; marks->complete && i < marks->count; i++)
		marks->units[i]->marked[mark] = false;
	for (size_t i = 0; !marks->complete && i < list->n_units; i++)
		list->units[i]->marked[mark] = false;
	marks->count = 0;
	marks->complete = true;
}

void unit_list_disturb(struct unit_list *list)
{
	for (size_t mark = 0; mark < _UNIT_MARKS_MAX; mark++)
		list->marks[mark].complete = false;
}
