/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a resource has, and how it is: the driver's scans merged with the verdicts of the health
 * probes. Level-triggered: events only make a scan run sooner, a scan gives the truth, a failed
 * scan keeps the last good one. A device that vanishes stays, unhealthy, until it returns
 * or nobody has it. The main
 * thread owns the inventory; other threads see it only through snapshots, which never change.
 */

#include <stdatomic.h>
#include <systemd/sd-event.h>

#include "drivers/driver.h"
#include "drivers/memory.h"

struct snapshot_unit {
	const struct device *device;
	unsigned replicas; /* offered ids */
	bool present;      /* the last scan found it; if not it is not healthy either */
	bool may_be_gone;  /* see unit_may_be_gone() */
	bool healthy;
	bool foreign;       /* it belongs to another resource and is not offered */
	const char *reason; /* why not, for people; NULL if healthy */
	uint64_t since;     /* CLOCK_REALTIME microseconds of the last change of health */
};

struct snapshot_devices;

struct snapshot {
	atomic_uint references;
	uint64_t generation;         /* grows by one with every change */
	bool shared;                 /* offered ids are "<id>#<n>", from 0, else "<id>" */
	struct snapshot_unit *units; /* sorted by id (strcmp) */
	size_t n_units;
	/* private */
	struct snapshot_devices *devices; /* keeps them alive; NULL: somebody else does */
	char *reasons;                    /* keeps them alive, in one block */
};

struct snapshot *snapshot_ref(struct snapshot *snapshot);
struct snapshot *snapshot_unref(struct snapshot *snapshot);
DEFINE_CLEANUP(struct snapshot *, snapshot_unref)
#define _cleanup_snapshot_ _cleanup_(snapshot_unrefp)

/* Makes a complete snapshot keep its devices alive: together with `previous`, if that has the very
 * same ones. Once for each snapshot. Returns 0 or -ENOMEM. */
int snapshot_keep_devices(struct snapshot *snapshot, const struct snapshot *previous);

/* Whether unit i of the one is the same device as unit i of the other for all i, as it is where
 * only health has changed. Takes no time; false if it is not known. `a` NULL: no. */
bool snapshot_shares_devices(const struct snapshot *a, const struct snapshot *b);

/* Whether both have the same devices in the same state of being there; `a` NULL: no. */
bool snapshot_same_devices(const struct snapshot *a, const struct snapshot *b);

/* Finds the unit behind an offered id. Returns 0, or -ENOENT if this resource never offered it. */
int snapshot_find(
	const struct snapshot *snapshot, const char *id, size_t *ret_unit, unsigned *ret_replica);

/* Writes the offered id of a unit's replica. */
#define OFFERED_ID_MAX (DEVICE_ID_MAX + 1 + 10)
void snapshot_offered_id(const struct snapshot *snapshot, size_t unit, unsigned replica,
	char ret_id[static OFFERED_ID_MAX + 1]);

struct inventory;

/* Told after every change, on the main thread; changes are collected for INVENTORY_QUIET after one
 * told. */
#define INVENTORY_QUIET (100 * USEC_PER_MSEC)
typedef void (*inventory_handler)(struct inventory *inventory, void *userdata);

/* Prepares an inventory; the declaration must outlive it. `root` is the directory that stands for
 * "/" ("" on a real host). Nothing is read yet. */
int inventory_new(sd_event *event, const struct declaration *declaration, const char *root,
	inventory_handler on_change, void *userdata, struct inventory **ret);

/* Before inventory_start(): this inventory takes the place of `previous`. Devices begin with the
 * health that the same probes found there, and with `keep_gone` those that had vanished stay
 * listed. Returns 0 or -ENOMEM. */
int inventory_inherit(
	struct inventory *inventory, const struct inventory *previous, bool keep_gone);

/* Before inventory_start(): devices begin with what is remembered. Takes the memory. */
void inventory_recall(struct inventory *inventory, struct memory *memory);

/* Behind that: the same devices are sought as when the memory was made. What was listed then counts
 * as listed (scan_lists()), and what containers have stays listed although no scan finds it.
 * Returns 0 or -ENOMEM. */
int inventory_recall_list(struct inventory *inventory);

/* What probes have found so far, and which devices are in containers, for inventory_recall().
 * Returns 0 or -ENOMEM. */
int inventory_remember(const struct inventory *inventory, struct memory **ret);

/* The same of those devices only whose health was found to be another since the last call of this
 * or of inventory_note_remembered(). Returns 0, -ESTALE if devices may have come or gone since, or
 * -ENOMEM; after a failure, and when containers were given devices, all must be remembered. */
int inventory_remember_changes(struct inventory *inventory, struct memory **ret);

/* All that was found so far is remembered somewhere. */
void inventory_note_remembered(struct inventory *inventory);

/* First scan and first probes, then watching. When it returns 0 the snapshot is complete. Returns
 * negative errno with the error filled if the first scan fails for a reason that will not mend
 * itself (a limit, a contradiction); a scan that fails otherwise is retried in the background and
 * the list is empty. */
int inventory_start(struct inventory *inventory, struct error *error);

/* Tells which devices belong to other resources: lines of "ID<TAB>RESOURCE". All others do not, if
 * they are still there: those that did before are ours after a scan, which is made soon. Of the
 * rest the snapshot is renewed at once, without on_change(). Returns 1 if anything changed, 0 if
 * not, or -ENOMEM. */
int inventory_set_owners(struct inventory *inventory, const char *owners);

/* Forgets devices that have been gone since `until` (CLOCK_MONOTONIC microseconds) or longer, but
 * for those that containers have: `in_use` has an offered id in each line. The snapshot is renewed
 * at once, without on_change(). Returns 1 if anything changed, 0 if not, or -ENOMEM. */
int inventory_drop_gone(struct inventory *inventory, const char *in_use, uint64_t until);

/* Why the last scan failed, so that the list before it stays; NULL if it did not. The inventory's,
 * until it runs again; on_change() tells of a change. */
const char *inventory_failure(const struct inventory *inventory);

/* What the last good scan could not see. Likewise. */
const struct strings *inventory_notes(const struct inventory *inventory);

/* The newest snapshot, as a new reference. */
struct snapshot *inventory_snapshot(struct inventory *inventory);

struct inventory *inventory_free(struct inventory *inventory);
DEFINE_CLEANUP(struct inventory *, inventory_free)
