/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The units of an inventory: what scans found, merged over time, each with its health. Sorted by
 * id. A unit stays when its device vanishes, so that whoever was given it can be told; it leaves
 * when nobody has it, or if the list would not fit the kubelet's limit otherwise.
 */

#include "drivers/health.h"
#include "drivers/inventory.h"
#include "drivers/scan.h"

/* For whom it is kept which units have changed, so that they need not look at all of them. */
enum unit_mark {
	UNIT_SHOWN,      /* in a snapshot */
	UNIT_REMEMBERED, /* see inventory_remember_changes() */
	_UNIT_MARKS_MAX,
};

struct unit_marks {
	bool complete; /* no other unit has changed */
	struct unit **units;
	size_t count;
};

struct unit {
	void *owner; /* the list's */
	struct device *device;
	struct health_unit *health;  /* NULL: no probes */
	const struct cordon *cordon; /* NULL: none */
	char *owner_name;            /* the resource that it belongs to; NULL: ours */
	bool let_go;                 /* not its any more: ours, if the next scan finds it */
	bool present;                /* the last scan found it, or it is away */
	bool away;                   /* where only the container sees it that it was given to */
	uint64_t gone_since;         /* CLOCK_MONOTONIC microseconds; while no scan finds it */
	bool healthy;
	char *reason;   /* why not; NULL if healthy */
	uint64_t since; /* CLOCK_REALTIME */
	struct unit_list *list;
	size_t index; /* there, as the last snapshot has it */
	bool marked[_UNIT_MARKS_MAX];
};

struct unit_list {
	const struct declaration *declaration;
	struct health *health; /* NULL: no probes */
	void *owner;
	struct unit **units;
	size_t n_units;
	bool let_go;                  /* some units are */
	struct memory *memory;        /* where units begin, until a scan has been complete */
	const struct snapshot *shown; /* the last one; compared only */
	struct unit_marks marks[_UNIT_MARKS_MAX];
};

struct unit *unit_free(struct unit *unit);
DEFINE_CLEANUP(struct unit *, unit_free)

/* Makes a unit of a device, with what is remembered of it; `index` is its place in the list. */
int unit_new(struct unit_list *list, struct device *device, size_t index, struct unit **ret);

/* Notes that a unit has changed. */
void unit_mark(struct unit *unit, enum unit_mark mark);

/* Whoever it was noted for has seen all units, or those that were noted. */
void unit_list_unmark(struct unit_list *list, enum unit_mark mark);

/* Any unit may change now, come or go: whatever was noted is not all. */
void unit_list_disturb(struct unit_list *list);

/* What is known about the units' health, and those in containers. Returns 0 or -ENOMEM. */
int unit_list_remember(const struct unit_list *list, struct memory **ret);

/* See inventory_remember_changes() and inventory_note_remembered(). */
int unit_list_remember_changes(struct unit_list *list, struct memory **ret);
void unit_list_note_remembered(struct unit_list *list);

/* Puts the units of another list that are gone, or away, into this one, which is empty, to stay so
 * until a scan finds them. Returns 0 or -ENOMEM. */
int unit_list_inherit_gone(struct unit_list *list, const struct unit_list *previous);

/* Puts the units that the memory has as lent into this list, which is empty, as if a scan had just
 * found them. Returns 0 or -ENOMEM. */
int unit_list_recall_lent(struct unit_list *list);

/* Takes a complete scan in. Returns 1 if that changed anything, 0 if not, -E2BIG if the list would
 * not fit the kubelet's limit, or -ENOMEM; the list is as before then. */
int unit_list_merge(struct unit_list *list, struct scan *scan, struct error *error);

/* The unit of that id, or NULL. */
const struct unit *unit_list_find(const struct unit_list *list, const char *id);

/* See inventory_set_owners(). */
int unit_list_set_owners(struct unit_list *list, const char *owners);

/* After a scan: what it found of units that were let go is ours. Returns 1 if there was any, 0 if
 * not, or -ENOMEM. */
int unit_list_take_let_go(struct unit_list *list);

/* See inventory_drop_gone(). */
int unit_list_drop_gone(struct unit_list *list, const char *in_use, uint64_t until);

/* Whether the unit is away and nothing on the host tells if it exists: of hardware it is known. */
bool unit_may_be_gone(const struct unit *unit);

/* Works out how the unit is from what is known. Returns 1 if that changed, 0 or -ENOMEM. */
int unit_evaluate(struct unit *unit);

/* The list as it is now. `previous` is the snapshot before, or NULL. Returns 0 or -ENOMEM. */
int unit_list_snapshot(
	struct unit_list *list, const struct snapshot *previous, struct snapshot **ret);
void unit_list_done(struct unit_list *list);
