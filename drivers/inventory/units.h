/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of inventory: changes to its list of units. A unit stays when its device disappears, so
 * that the kubelet learns that it is unhealthy. It leaves when it is assigned to no container, or
 * if the list would otherwise exceed the kubelet's limit. An id that the kubelet has booked stays
 * listed even then.
 */

#include "drivers/host/scan-run.h"
#include "drivers/inventory/unit.h"

/* Makes a unit of a device, with its saved state; `index` is its place in the list. */
int unit_new(struct unit_list *list, struct device *device, size_t index, struct unit **ret);

/* See inventory_save() and inventory_write(). */
int unit_list_save(const struct unit_list *list, struct saved_state **ret);
int unit_list_write(const struct unit_list *list, uint64_t match_fingerprint, int fd);

/* Copies the units of another list that are removed, away or assigned into this one, which is
 * empty, so that the next scan treats them as it would have there. Returns 0 or -ENOMEM. */
int unit_list_inherit_gone(struct unit_list *list, const struct unit_list *previous);

/* Adds the units that are assigned in the saved state to this list, which is empty, as if a scan
 * had just found them. Returns 0 or -ENOMEM. */
int unit_list_restore_assigned(struct unit_list *list);

/* Has the scan keep the reasons for which it leaves out devices that are listed, also as missing.
 * Returns 0 or -ENOMEM. */
int unit_list_expect(const struct unit_list *list, struct scan *scan);

/* Sets the reason why the scan did not list the device of the unit, as far as that is known. */
void unit_describe_loss(struct unit *unit, const struct scan *scan);
/* Whether the scan has seen that the hardware is removed. */
bool unit_is_removed(const struct unit *unit, const struct scan *scan);
void unit_forget_loss(struct unit *unit);

/* Merges a complete scan. Returns 1 if that changed anything, 0 if not, -E2BIG if the list would
 * not fit the kubelet's limit, -ENOSPC for more than CLAIMS_MAX claims, or -ENOMEM; on failure the
 * list stays as it was. */
int unit_list_merge(struct unit_list *list, struct scan *scan, struct error *error);

/* See inventory_set_owners(). */
int unit_list_set_owners(struct unit_list *list, const char *owners);

/* See inventory_set_dirty(). */
int unit_list_set_dirty(struct unit_list *list, const char *dirty);

/* Sets it for one unit. Returns 0 or -ENOMEM. */
int unit_take_dirty(struct unit *unit);

/* After a scan: units that their owner released and that the scan found are ours. Returns 1 if
 * there was any, 0 if not, or -ENOMEM. */
int unit_list_take_released(struct unit_list *list);

/* Computes which units are booked, with which NUMA nodes, and which booked ids no unit offers.
 * Returns 1 if the list changes, 0 if not, or -ENOMEM. */
int unit_list_apply_bookings(struct unit_list *list);

/* Marks the current devices of these offered ids as assigned: a scan may have replaced the devices
 * that the caller was offered. */
void unit_list_note_assigned(struct unit_list *list, const char *const *ids, size_t n_ids);

/* See inventory_set_booked(), inventory_note_allocated(), inventory_set_pending() and
 * inventory_forget(); all return 1 if the list changes, 0 if not, or -ENOMEM. */
int unit_list_set_booked(struct unit_list *list, struct bookings *booked, uint64_t gone_until,
	uint64_t allocated_until);
int unit_list_note_allocated(
	struct unit_list *list, const struct snapshot *shown, const char *const *ids, size_t n_ids);
int unit_list_set_pending(struct unit_list *list, struct bookings *pending);
int unit_list_forget(struct unit_list *list, const char *id);

/* Frees the bookings. */
void unit_list_booked_done(struct unit_list *list);

/* The current list. `previous` is the previous snapshot, or NULL. `changed` contains all units that
 * differ from it, which were recorded because their health has changed; NULL: any may differ.
 * Returns 0 or -ENOMEM. */
int unit_list_snapshot(struct unit_list *list, const struct snapshot *previous,
	struct unit *const *changed, size_t n_changed, struct snapshot **ret);
void unit_list_done(struct unit_list *list);
