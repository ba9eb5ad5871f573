/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of inventory: its units, devices that scans found, merged over time, each with its health.
 * Sorted by id. A unit stays when its device disappears, so that the kubelet learns that it is
 * unhealthy. It leaves when it is assigned to no container, or if the list would otherwise exceed
 * the kubelet's limit. An id that the kubelet has booked stays listed even then.
 */

#include "drivers/health/probes.h"
#include "drivers/host/scan-run.h"
#include "drivers/inventory/inventory.h"

struct unit {
	void *owner; /* the list's */
	struct device *device;
	struct device *excluded;     /* of a held unit: the device that it stands for, if a scan
				      * found it; else NULL */
	struct health_unit *health;  /* NULL: no probes */
	const struct cordon *cordon; /* NULL: none */
	char *owner_name;            /* the resource that it belongs to; NULL: ours */
	unsigned replicas;           /* ids that are offered for it */
	bool owner_released;         /* released by its owner: ours, if the next scan finds it */
	bool present;                /* the last scan found it, or it is away */
	bool away;                   /* moved out of the host's view into its container */
	uint64_t gone_since;         /* CLOCK_MONOTONIC microseconds; while no scan finds it */
	bool healthy;
	enum unit_cause cause;
	char *reason;       /* why not; NULL if healthy */
	uint64_t changes;   /* of health */
	uint64_t since;     /* CLOCK_REALTIME */
	bool booked;        /* the kubelet has booked one of its offered ids */
	uint64_t numa_kept; /* a hash of the other NUMA nodes with which ids of the unit were
			       booked; 0: none */
	struct unit_list *list;
	size_t index; /* there, as the last snapshot of all units has it */
};

struct unit_list {
	const struct declaration *declaration;
	struct health *health; /* NULL: no probes */
	void *owner;
	struct unit **units;
	size_t n_units;
	struct device **excluded; /* found by the last scan, but excluded; sorted by id */
	size_t n_excluded;
	struct unit **held; /* booked ids that no unit offers, sorted; see inventory_set_booked() */
	size_t n_held;
	struct bookings *kubelet_booked; /* what the kubelet has booked; NULL: not known */
	struct bookings *allocations;    /* allocations since then; NULL: none */
	struct bookings *pending;        /* for Allocate calls without an answer; NULL: none */
	struct bookings *joined;         /* all three together; NULL: nothing */
	struct bookings *booked; /* the bookings as they are listed: all with NUMA nodes, or none */
	bool not_covered;        /* memory was short for that */
	bool owner_released;     /* some units are */
	struct saved_state *saved; /* the initial state of units, until a scan has been complete */
	uint64_t now; /* CLOCK_REALTIME of the last change of which devices there are */
};

struct unit *unit_free(struct unit *unit);
DEFINE_CLEANUP(struct unit *, unit_free)

/* Makes a unit of a device, with its saved state; `index` is its place in the list. */
int unit_new(struct unit_list *list, struct device *device, size_t index, struct unit **ret);

/* See inventory_save() and inventory_write(). */
int unit_list_save(const struct unit_list *list, struct saved_state **ret);
int unit_list_write(const struct unit_list *list, uint64_t match_fingerprint, int fd);

/* Copies the units of another list that are removed, or away, into this one, which is empty; they
 * stay so until a scan finds them. Returns 0 or -ENOMEM. */
int unit_list_inherit_gone(struct unit_list *list, const struct unit_list *previous);

/* Adds the units that are assigned in the saved state to this list, which is empty, as if a scan
 * had just found them. Returns 0 or -ENOMEM. */
int unit_list_restore_assigned(struct unit_list *list);

/* Merges a complete scan. Returns 1 if that changed anything, 0 if not, -E2BIG if the list would
 * not fit the kubelet's limit, -ENOSPC for more than CLAIMS_MAX claims, or -ENOMEM; on failure the
 * list stays as it was. */
int unit_list_merge(struct unit_list *list, struct scan *scan, struct error *error);

/* The unit of that id, or NULL; `ret_index`, if not NULL: its place in the list. */
const struct unit *unit_list_find(const struct unit_list *list, const char *id, size_t *ret_index);

/* See inventory_set_owners(). */
int unit_list_set_owners(struct unit_list *list, const char *owners);

/* After a scan: units that their owner released and that the scan found are ours. Returns 1 if
 * there was any, 0 if not, or -ENOMEM. */
int unit_list_take_released(struct unit_list *list);

/* Computes which units are booked, with which NUMA nodes, and which booked ids no unit offers.
 * Returns 1 if the list changes, 0 if not, or -ENOMEM. */
int unit_list_cover_booked(struct unit_list *list);

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

/* Whether the unit is away and nothing on the host shows if it exists; for hardware that is always
 * known. */
bool unit_may_be_gone(const struct unit *unit);

/* Computes the state of the unit. Returns 1 if that changed, 0 or -ENOMEM. */
int unit_evaluate(struct unit *unit);

/* The current list. `previous` is the previous snapshot, or NULL. `changed` contains all units that
 * differ from it, which were recorded because their health has changed; NULL: any may differ.
 * Returns 0 or -ENOMEM. */
int unit_list_snapshot(struct unit_list *list, const struct snapshot *previous,
	struct unit *const *changed, size_t n_changed, struct snapshot **ret);
void unit_list_done(struct unit_list *list);
