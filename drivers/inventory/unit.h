/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of inventory: a unit, a device that scans found, merged over time, with its health; and
 * the list of them, sorted by id. units.h changes the list.
 */

#include "drivers/health/probes.h"
#include "drivers/inventory/inventory.h"

struct unit {
	void *owner; /* the list's */
	struct device *device;
	struct device *excluded;     /* of a placeholder: the device that it stands for, if a scan
				      * found it; else NULL */
	struct health_unit *health;  /* NULL: no probes */
	const struct cordon *cordon; /* NULL: none */
	char *owner_name;            /* the resource that it belongs to; NULL: ours */
	unsigned replicas;           /* ids that are offered for it */
	unsigned withheld;           /* of those, in use in the other way, see unit_list.elsewhere;
				      * `replicas`:	   none is offered */
	char *companion;   /* a device in use, of the same whole (device_set_whole()), while
			    * this one is free; NULL: none */
	char *stale;       /* why an answer makes it unhealthy; NULL: none does */
	bool stale_in_use; /* `stale` is that its hardware is in use elsewhere instead */
	char *dirty;       /* see inventory_set_dirty(): why it is not offered, "" if it is; NULL:
			    * it has no line */
	bool awaits_owner, has_owner; /* see inventory_await_owners(); the answer has arrived */
	bool owner_released;          /* released by its owner: ours, if the next scan finds it */
	bool present;                 /* the last scan found it, or it is away */
	bool undecided; /* the last scan did not find it, but could not read all of the host, and
			 * the hardware was not seen to be removed */
	char *loss;     /* what the scan found that did not find it; NULL: unknown */
	bool away;      /* moved out of the host's view into its container */
	bool lost;      /* it was missing while a pod had it that still has it */
	uint64_t gone_since; /* CLOCK_MONOTONIC microseconds; while no scan finds it */
	bool healthy;
	enum unit_cause cause;
	char *reason;                 /* why not; NULL if healthy */
	struct finding_set *findings; /* of its probes; NULL: none */
	uint64_t changes;             /* of health */
	uint64_t since;               /* CLOCK_REALTIME */
	bool booked;                  /* the kubelet has booked one of its offered ids */
	bool in_use;                  /* a pod or a claim has one of its ids */
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
	struct unit **placeholders; /* for booked ids that no unit offers, sorted; see
				       inventory_set_booked() */
	size_t n_placeholders;
	struct bookings *kubelet_booked; /* what the kubelet has booked; NULL: not known */
	struct bookings *allocations;    /* allocations since then; NULL: none */
	struct bookings *pending;        /* for Allocate calls without an answer; NULL: none */
	struct bookings *all_booked;     /* all three together */
	struct bookings *joined;         /* of those, those of the way by which the resource is
					    served now: device plugin or DRA; NULL: nothing */
	struct bookings *elsewhere;      /* those of the other way that are in use; NULL: nothing */
	struct bookings *booked; /* the bookings as they are listed: all with NUMA nodes, or none */
	bool not_applied;        /* memory was short for the bookings */
	bool owner_released;     /* some units are */
	char *dirty;             /* see inventory_set_dirty(); NULL: no device is */
	struct saved_state *saved; /* the initial state of units, until a scan has been complete */
	bool scanned;              /* one has been */
	uint64_t now; /* CLOCK_REALTIME of the last change of which devices there are */
};

struct unit *unit_free(struct unit *unit);
DEFINE_CLEANUP(struct unit *, unit_free)

/* Whether the unit is away and nothing on the host shows if it exists; for hardware that is always
 * known. */
bool unit_may_be_gone(const struct unit *unit);

/* Whether all of its ids are in use in the other way. */
static inline bool unit_is_withheld(const struct unit *unit)
{
	return unit->withheld > 0 && unit->withheld >= unit->replicas;
}

/* Whether a pod or a claim has it that has not ended. The kubelet books a device for longer. */
bool unit_has_pod(const struct unit *unit);

/* Computes the state of the unit. Returns 1 if that changed, 0 or -ENOMEM. */
int unit_evaluate(struct unit *unit);

/* The unit of that id, or NULL; `ret_index`, if not NULL: its place in the list. */
const struct unit *unit_list_find(const struct unit_list *list, const char *id, size_t *ret_index);
