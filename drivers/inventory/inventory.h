/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices of a resource and their health: the driver's scans merged with the results of the
 * health probes. It is level-triggered: events only make a scan run sooner, a scan finds the
 * current state, a failed scan keeps the last good one. A device that disappears stays, unhealthy,
 * until it returns or no container uses it. Every id that the kubelet has booked is listed even if
 * its device was removed (promise P17), because a kubelet that starts panics, or fails the pod, if
 * one is missing. The main thread owns the inventory; other threads see it only through snapshots,
 * which never change.
 */

#include <stdatomic.h>
#include <systemd/sd-event.h>

#include "common/finding.h"
#include "drivers/health/saved-state.h"
#include "drivers/model/bookings.h"
#include "drivers/model/driver.h"
#include "drivers/model/measurement.h"

/* Why a unit is not healthy, for programs. */
enum unit_cause {
	CAUSE_NONE,     /* it is healthy */
	CAUSE_GONE,     /* no scan finds it */
	CAUSE_CLAIMED,  /* it belongs to another resource, or is in use in the other way */
	CAUSE_IN_USE,   /* its hardware is in use as a device of another resource */
	CAUSE_STALE,    /* the stored answer for its pod, or one that leads to it, is outdated */
	CAUSE_RETURNED, /* it was missing while a pod had it, which is to end (missing.on_return) */
	CAUSE_CORDONED, /* by an administrator */
	CAUSE_DEVICE,   /* the driver found that it cannot be used */
	CAUSE_PROBE,    /* a health probe */
	CAUSE_UNPROBED, /* a health probe has had no result yet */
	CAUSE_BOOKED,   /* it is listed only because the kubelet has booked it */
	CAUSE_CLEANING, /* it is cleaned after a pod, or could not be */
	_CAUSE_MAX,
};

/* The name of a cause, "" for CAUSE_NONE. */
const char *unit_cause_name(enum unit_cause cause);

struct snapshot_unit {
	const struct device *device;
	const struct device *excluded; /* of a placeholder: what it stands for, or NULL */
	unsigned replicas;             /* offered ids */
	bool present;                  /* the last scan found it; if not it is not healthy either */
	bool may_be_gone;              /* see unit_may_be_gone() */
	bool lost;                     /* it was missing while a pod had it that still has it */
	bool healthy;
	bool has_pod;           /* a pod or a claim has one of its ids, and has not ended */
	bool claimed_by_other;  /* it belongs to another resource, is in use by the device plugin
				 * while DRA serves it or the other way round, or is of the same
				 * whole as a device in use; and is not offered */
	bool of_other_resource; /* because it belongs to another resource */
	unsigned withheld;      /* how many of its ids are not offered, see snapshot_withholds() */
	bool numa_kept;         /* some ids are listed with other NUMA nodes, see snapshot_numa() */
	enum unit_cause cause;
	const char *reason;           /* why not, for people; NULL if healthy */
	struct finding_set *findings; /* of its probes, also of a healthy unit; NULL: none */
	uint64_t changes;             /* of health, since the device was found first */
	uint64_t since;               /* CLOCK_REALTIME microseconds of the last change of health */
};

struct snapshot_devices;

struct snapshot {
	atomic_uint references;
	uint64_t generation; /* grows by one with every change */
	bool shared;         /* offered ids are "<id>#<n>", from 0, else "<id>" */
	/* Sorted by id (strcmp). After them, also sorted, `n_placeholders` units that are not
	 * devices of the resource now: each is listed once, under its unchanged id, because the
	 * kubelet has booked it. */
	struct snapshot_unit *units;
	size_t n_units; /* all of them */
	size_t n_placeholders;
	/* private */
	struct snapshot_devices *devices; /* keeps them alive; NULL: the devices are kept alive
					     otherwise */
	char *reasons;                    /* keeps them alive, in one block */
	bool keeps_findings;              /* references of units to findings are the snapshot's */
	struct bookings *bookings;        /* the numa_kept of units; NULL: no unit has any */
	struct bookings *elsewhere;       /* the withheld ids; NULL: none */
};

struct snapshot *snapshot_ref(struct snapshot *snapshot);
struct snapshot *snapshot_unref(struct snapshot *snapshot);
DEFINE_CLEANUP(struct snapshot *, snapshot_unref)
#define _cleanup_snapshot_ _cleanup_(snapshot_unrefp)

/* Makes a complete snapshot keep its devices alive, together with `previous` if that has exactly
 * the same ones, and the same of them exist. Called once for each snapshot. Returns 0 or
 * -ENOMEM. */
int snapshot_keep_devices(struct snapshot *snapshot, const struct snapshot *previous);

/* Whether for all i, unit i is the same device in both and exists in both or in neither, which is
 * so where only health has changed. Takes constant time; false if it is not known. `a` NULL: no. */
bool snapshot_shares_devices(const struct snapshot *a, const struct snapshot *b);

/* Finds the unit behind an offered id. Returns 0, or -ENOENT if this resource never offered it. */
int snapshot_find(
	const struct snapshot *snapshot, const char *id, size_t *ret_unit, unsigned *ret_replica);

/* The offered id of a unit's replica: written to the buffer, or the unit's own id. */
const char *snapshot_offered_id(const struct snapshot *snapshot, size_t unit, unsigned replica,
	char buffer[static OFFERED_ID_MAX + 1]);

/* Whether this id of the unit is not offered because it is in use by the device plugin while DRA
 * serves the resource, or the other way round. */
bool snapshot_withholds(const struct snapshot *snapshot, size_t unit, const char *offered_id);

/* The NUMA nodes that an offered id of the unit is listed with: the device's nodes or, while the
 * kubelet has booked it, the nodes at the time of the booking. */
const int *snapshot_numa(
	const struct snapshot *snapshot, size_t unit, const char *offered_id, size_t *ret_n);

/* Adds bookings of these offered ids, with the NUMA nodes that they are listed with; an id that is
 * not there has none. Returns 0 or -ENOMEM. */
int snapshot_add_bookings(const struct snapshot *snapshot, const char *const *ids, size_t n_ids,
	uint64_t allocated_at, struct bookings *bookings);

/* The device of a unit for files and claims: a device that exists. An excluded device counts while
 * it is assigned to a pod, and is then returned for one of the assigned ids. NULL: none. */
const struct device *snapshot_existing(const struct snapshot *snapshot, size_t unit);

/* In a loop over all units: the ids are anywhere in memory, and waiting for each takes most of the
 * time. */
static inline void snapshot_prefetch(const struct snapshot *snapshot, size_t unit)
{
	if (unit + 16 >= snapshot->n_units)
		return;
	__builtin_prefetch(snapshot->units[unit + 16].device);
	__builtin_prefetch(snapshot->units[unit + 8].device->id);
}

struct inventory;

/* Called on the main thread after a change; changes within INVENTORY_QUIET of a call, or within
 * PACE_FACTOR times the processor time that it took, are collected for the next. */
#define INVENTORY_QUIET (100 * USEC_PER_MSEC)
typedef void (*inventory_handler)(struct inventory *inventory, void *userdata);

/* Prepares an inventory; the declaration must outlive it. `root` is the directory that stands for
 * "/" ("" on a real host). Nothing is read yet. */
int inventory_new(sd_event *event, const struct declaration *declaration, const char *root,
	inventory_handler on_change, void *userdata, struct inventory **ret);

/* To be called before inventory_start(): this inventory replaces `previous`. Devices begin with the
 * health that the same probes found there, bookings stay, also pending ones, and with `keep_gone`
 * the removed devices, and those in containers, stay listed. Returns 0 or -ENOMEM. */
int inventory_inherit(
	struct inventory *inventory, const struct inventory *previous, bool keep_gone);

/* To be called before inventory_start(): devices begin with the saved state, which the inventory
 * then owns. */
void inventory_restore(struct inventory *inventory, struct saved_state *saved);

/* To be called after inventory_restore(): the declaration finds the same devices as the one of the
 * saved state. Devices that were listed then count as listed (scan_lists()), and devices in
 * containers stay listed although no scan finds them. Returns 0 or -ENOMEM. */
int inventory_restore_list(struct inventory *inventory);

/* The health of the devices, and which of them are in containers, for inventory_restore().
 * Returns 0 or -ENOMEM. */
int inventory_save(const struct inventory *inventory, struct saved_state **ret);

/* Writes the same to the descriptor, for saved_state_read(). Returns 0 or negative errno. */
int inventory_write(const struct inventory *inventory, uint64_t match_fingerprint, int fd);

/* Starts with the first scan and the first probes, then watches. When it returns 0, the snapshot is
 * complete. Returns negative errno with the error filled if the first scan fails for a permanent
 * reason (a limit, a contradiction); a scan that fails for another reason is retried in the
 * background and the list is empty. Too many claims are a permanent reason only if the inventory
 * replaces another one. */
int inventory_start(struct inventory *inventory, struct error *error);

/* Sets which devices belong to other resources: lines of "ID<TAB>RESOURCE". All other devices are
 * ours: one that belonged to another resource before is ours after the next scan, which is made
 * soon, if it still exists. A line of "ID<TAB>!REASON" is about a device that is unhealthy because
 * of an outdated answer, until a later call lacks it. The snapshot is renewed at once, without
 * on_change(). Returns 1 if anything changed, 0 if not, or -ENOMEM. */
int inventory_set_owners(struct inventory *inventory, const char *owners);

/* Sets which devices are cleaned soon, or could not be: lines of "ID<TAB>REASON", with an empty
 * reason while the device is offered, also if the kubelet books it for a pod that has ended. All
 * other devices are not. The snapshot is renewed at once, without on_change(). Returns 1 if
 * anything changed, 0 if not, or -ENOMEM. */
int inventory_set_dirty(struct inventory *inventory, const char *dirty);

/* Notes that new devices are not offered before the next inventory_set_owners(): one that
 * disappears before is dropped, because the kubelet never had it. */
void inventory_await_owners(struct inventory *inventory);

/* Sets which offered ids the kubelet has booked; takes a reference. All of them stay listed until a
 * later call lacks them, even before inventory_start(). Devices that were removed at `gone_until`
 * (CLOCK_MONOTONIC microseconds) or earlier and are not booked leave the list. Allocations noted
 * until then, or before `allocated_until`, no longer count. The snapshot is renewed at once,
 * without on_change(). Returns 1 if anything changed, 0 if not, or -ENOMEM. */
int inventory_set_booked(struct inventory *inventory, struct bookings *booked, uint64_t gone_until,
	uint64_t allocated_until);

/* Notes that these offered ids were allocated, with the NUMA nodes that `listed` had for them: they
 * count as booked until inventory_set_booked() lists them, or confirms that no container uses them.
 * Their devices are marked as assigned. Returns 0 or -ENOMEM. */
int inventory_note_allocated(struct inventory *inventory, const struct snapshot *listed,
	const char *const *ids, size_t n_ids);

/* Marks the devices of these offered ids as assigned, see device_set_mobile(), without booking
 * them: the kubelet does not book devices that DRA has allocated. */
void inventory_note_assigned(struct inventory *inventory, const char *const *ids, size_t n_ids);

/* Sets the bookings for Allocate calls without an answer, of which a reference is taken; NULL:
 * none. They count until the next call of this function. Returns 0 or -ENOMEM. */
int inventory_set_pending(struct inventory *inventory, struct bookings *pending);

/* Drops the noted allocations of an offered id, or of all replicas of a unit of that id, and drops
 * the unit if it was removed. Returns as inventory_set_booked(). */
int inventory_forget(struct inventory *inventory, const char *id);

/* Has a device that has failed tested again, or `untested` offered without a test (the probes with
 * on_recovery). Returns 1, or 0 if the device is not one that waits for that. */
int inventory_resume(struct inventory *inventory, const char *id, bool untested);

/* Has the driver close the devices, or open them again, when the device `reset` was reset (an id,
 * empty: none was). Returns 0, -ENOMEM, or -EOPNOTSUPP if it keeps none open. */
int inventory_release(struct inventory *inventory, bool released, const char *reset);

/* Scans soon, and calls the handler once when that scan was made and its changes were passed to
 * on_change(). Replaces an earlier handler that was not called yet. */
void inventory_scan(struct inventory *inventory, inventory_handler on_scanned);

/* Sets the handler of changed measurements, and of inventory_is_complete(); the list does not
 * change with them. */
void inventory_on_measured(struct inventory *inventory, inventory_handler on_measured);

/* The measurements of the last successful scan. The inventory owns them until the next scan. */
const struct measurements *inventory_measurements(const struct inventory *inventory);

/* Why the last scan failed, so that the list before it stays; NULL if it did not fail. Belongs to
 * the inventory until the next scan; a change calls on_change(). */
const char *inventory_failure(const struct inventory *inventory);

/* What the last successful scan could not read, and what it explains. The inventory owns them in
 * the same way. */
const struct strings *inventory_notes(const struct inventory *inventory);

/* Whether the last good scan found all devices: not if a driver's program has not answered yet, or
 * a file could not be read. Until then, a device that is missing may exist. */
bool inventory_is_complete(const struct inventory *inventory);

/* The newest snapshot, as a new reference. */
struct snapshot *inventory_snapshot(struct inventory *inventory);

struct inventory *inventory_free(struct inventory *inventory);
DEFINE_CLEANUP(struct inventory *, inventory_free)
