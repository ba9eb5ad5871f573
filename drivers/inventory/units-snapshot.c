/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the snapshot of the list. One is made for every change of health, so it begins as a copy of
 * the previous one and reads nothing of a device that is in that.
 */
#include "drivers/inventory/units.h"

static void show(const struct unit *unit, struct snapshot_unit *ret)
{
	*ret = (struct snapshot_unit){
		.device = unit->device,
		.replicas = unit->replicas,
		.present = unit->present,
		.may_be_gone = unit_may_be_gone(unit),
		.lost = unit->lost,
		.healthy = unit->healthy,
		.has_pod = unit_has_pod(unit),
		.claimed_by_other =
			(unit->owner_name || unit_is_withheld(unit) || unit->companion) &&
			!unit->booked,
		.of_other_resource = unit->owner_name,
		.withheld = unit->withheld,
		.numa_kept = unit->numa_kept != 0,
		.cause = unit->cause,
		.reason = unit->reason,
		.findings = unit->findings,
		.changes = unit->changes,
		.since = unit->since,
	};
}

static void show_all(const struct unit_list *list, struct snapshot *snapshot)
{
	for (size_t i = 0; i < list->n_units; i++) {
		list->units[i]->index = i;
		show(list->units[i], &snapshot->units[i]);
		if (list->units[i]->numa_kept && !snapshot->bookings)
			snapshot->bookings = bookings_ref(list->booked);
	}
	snapshot->elsewhere = bookings_ref(list->elsewhere);
	for (size_t i = 0; i < list->n_placeholders; i++)
		snapshot->units[list->n_units + i] = (struct snapshot_unit){
			.device = list->placeholders[i]->device,
			.excluded = list->placeholders[i]->excluded,
			.replicas = 1,
			.has_pod = unit_has_pod(list->placeholders[i]),
			.cause = CAUSE_BOOKED,
			.reason = list->placeholders[i]->reason,
			.since = list->placeholders[i]->since,
		};
}

/* So that one device among thousands that changes often does not cost reading all of them. */
static void show_changed(const struct snapshot *previous, struct unit *const *changed,
	size_t n_changed, struct snapshot *snapshot)
{
	memcpy(snapshot->units, previous->units, snapshot->n_units * sizeof(snapshot->units[0]));
	snapshot->bookings = bookings_ref(previous->bookings);
	snapshot->elsewhere = bookings_ref(previous->elsewhere);
	for (size_t i = 0; i < n_changed; i++)
		show(changed[i], &snapshot->units[changed[i]->index]);
}

/* Until here, the devices are borrowed from units and from another snapshot. */
static int keep_reasons(struct snapshot *snapshot)
{
	size_t size = 1;
	char *p;

	for (size_t i = 0; i < snapshot->n_units; i++) {
		if (finding_set_ref(snapshot->units[i].findings))
			snapshot->keeps_findings = true;
		if (snapshot->units[i].reason)
			size += strlen(snapshot->units[i].reason) + 1;
	}
	p = snapshot->reasons = malloc(size);
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->n_units; i++) {
		char *copy = p;

		if (!snapshot->units[i].reason)
			continue;
		p = stpcpy(p, snapshot->units[i].reason) + 1;
		snapshot->units[i].reason = copy;
	}
	return 0;
}

int unit_list_snapshot(struct unit_list *list, const struct snapshot *previous,
	struct unit *const *changed, size_t n_changed, struct snapshot **ret)
{
	_cleanup_snapshot_ struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	int r;

	if (!snapshot)
		return -ENOMEM;
	if (list->not_applied) {
		r = unit_list_apply_bookings(list);
		if (r < 0)
			return r;
		changed = NULL;
	}
	atomic_init(&snapshot->references, 1);
	snapshot->generation = previous ? previous->generation + 1 : 0;
	snapshot->shared = declaration_is_shared(list->declaration);
	snapshot->n_placeholders = list->n_placeholders;
	snapshot->n_units = list->n_units + list->n_placeholders;
	snapshot->units = malloc((snapshot->n_units + 1) * sizeof(*snapshot->units));
	if (!snapshot->units)
		return -ENOMEM;
	if (changed && previous)
		show_changed(previous, changed, n_changed, snapshot);
	else
		show_all(list, snapshot);
	r = keep_reasons(snapshot);
	if (r >= 0)
		r = snapshot_keep_devices(snapshot, previous);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(snapshot);
	return 0;
}
