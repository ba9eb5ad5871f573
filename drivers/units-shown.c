/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units as a snapshot shows them. It is made for every change of health, so it asks nothing of a
 * device that the snapshot before knew.
 */
#include "drivers/units.h"

/* Rules of sharing are texts to match, so what was found for a device is kept. */
static unsigned replicas_of(
	const struct unit_list *list, const struct snapshot *previous, size_t index)
{
	const struct device *device = list->units[index]->device;

	if (previous && index < previous->n_units && previous->units[index].device == device)
		return previous->units[index].replicas;
	return declaration_replicas(list->declaration, device->id);
}

int unit_list_snapshot(
	const struct unit_list *list, const struct snapshot *previous, struct snapshot **ret)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	size_t size = 1;
	char *reasons;
	int r;

	snapshot = calloc(1, sizeof(*snapshot));
	if (!snapshot)
		return -ENOMEM;
	atomic_init(&snapshot->references, 1);
	snapshot->generation = previous ? previous->generation + 1 : 0;
	snapshot->shared = declaration_is_shared(list->declaration);
	for (size_t i = 0; i < list->n_units; i++) {
		unit_fetch_ahead(list, i);
		if (list->units[i]->reason)
			size += strlen(list->units[i]->reason) + 1;
	}
	snapshot->units = malloc((list->n_units + 1) * sizeof(*snapshot->units));
	snapshot->reasons = reasons = malloc(size);
	if (!snapshot->units || !reasons)
		return -ENOMEM;
	for (size_t i = 0; i < list->n_units; i++) {
		const struct unit *unit = list->units[i];

		snapshot->units[i] = (struct snapshot_unit){
			.device = unit->device,
			.replicas = replicas_of(list, previous, i),
			.present = unit->present,
			.may_be_gone = unit_may_be_gone(unit),
			.healthy = unit->healthy,
			.foreign = unit->owner_name != NULL,
			.reason = unit->reason ? reasons : NULL,
			.since = unit->since,
		};
		if (unit->reason)
			reasons = stpcpy(reasons, unit->reason) + 1;
	}
	snapshot->n_units = list->n_units;
	r = snapshot_keep_devices(snapshot, previous);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(snapshot);
	return 0;
}
