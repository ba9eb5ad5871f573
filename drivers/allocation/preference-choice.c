/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses from groups in two ways: in their order, or from as few units as possible. Other
 * preferences end with one of the two.
 */
#include "drivers/allocation/preference-choice.h"

void choice_take(struct choice *choice, struct group *group, size_t count)
{
	assert(count <= group->n_free && count <= choice->need);
	group->n_free -= count;
	choice->need -= count;
	for (; count > 0; group->next++)
		if (!group->next->must) {
			choice->ids[choice->n_ids++] = group->next->id;
			count--;
		}
}

void choose_first(struct choice *choice)
{
	for (size_t i = 0; i < choice->n_groups && choice->need > 0; i++)
		choice_take(
			choice, &choice->groups[i], MIN_OF(choice->groups[i].n_free, choice->need));
}

/* Most free first; equal groups in the order of the snapshot, in which their ids lie in one array.
 */
static int compare_most_free(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->n_free != y->n_free)
		return x->n_free > y->n_free ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* First uses the remaining ids of units that the request uses anyway, then as few further units as
 * possible; the last one is the unit with the fewest free ids. */
void choose_packed(struct choice *choice)
{
	struct group *groups = choice->groups;

	for (size_t i = 0; i < choice->n_groups && choice->need > 0; i++)
		if (groups[i].n_must > 0)
			choice_take(choice, &groups[i], MIN_OF(groups[i].n_free, choice->need));
	qsort(groups, choice->n_groups, sizeof(*groups), compare_most_free);
	for (size_t i = 0; choice->need > 0; i++) {
		size_t fit = i;

		for (size_t k = i + 1; k < choice->n_groups && groups[k].n_free >= choice->need;
			k++)
			if (groups[k].n_free < groups[fit].n_free)
				fit = k;
		choice_take(choice, &groups[fit], MIN_OF(groups[fit].n_free, choice->need));
	}
}
