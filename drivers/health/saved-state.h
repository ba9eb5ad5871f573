/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The health of a resource's devices and the results of probes, separate from the inventory: for
 * the next configuration of a process, and as a file for the next process. After a restart, a
 * failed device stays unhealthy and a working one healthy. After a reboot nothing is restored: the
 * file of another boot is not read.
 */

#include "common/json-write.h"
#include "common/map.h"
#include "drivers/health/probe-result.h"
#include "drivers/model/bookings.h"
#include "drivers/model/device.h"

struct saved_result {
	uint64_t probe; /* what was probed, see probe_key() */
	struct probe_result result;
};

struct saved_unit {
	char *id;
	bool healthy;
	uint64_t since;   /* CLOCK_REALTIME microseconds of the last change */
	uint64_t changes; /* of health */
	bool assigned;    /* device_was_assigned() */
	bool lost;        /* missing while a pod had it, which may still have it */
	/* The device as it was found last, if it is assigned; NULL: it is not assigned, or the file
	 * cannot represent it. */
	struct device *device;
	struct saved_result *results;
	size_t n_results;
};

struct saved_state {
	struct saved_unit **units;
	size_t n_units;
	struct map by_id;
	uint64_t match_fingerprint; /* a hash of the keys that the devices were found by; 0:
				       unknown */
	/* Allocations that are not in the kubelet's data yet; NULL: none. */
	struct bookings *allocations;
};

int saved_state_new(struct saved_state **ret);
struct saved_state *saved_state_free(struct saved_state *saved);
DEFINE_CLEANUP(struct saved_state *, saved_state_free)
#define _cleanup_saved_state_ _cleanup_(saved_state_freep)

/* Adds a unit; -EEXIST, -ENOMEM. The saved state owns it. */
int saved_state_add(struct saved_state *saved, const char *id, bool healthy, uint64_t since,
	struct saved_unit **ret);

/* Adds a copy of a probe's state. */
int saved_unit_add(struct saved_unit *unit, uint64_t probe, const struct probe_result *result);

/* The unit with that id, or NULL; `saved` may be NULL. */
const struct saved_unit *saved_state_find(const struct saved_state *saved, const char *id);

/* Adds a copy of a unit; -EEXIST, -ENOMEM. */
int saved_state_add_copy(struct saved_state *saved, const struct saved_unit *unit);

/* The saved state of the probe, or NULL; `unit` may be NULL. */
const struct probe_result *saved_state_result(const struct saved_unit *unit, uint64_t probe);

/* Identifies what a probe checks: its kind and target, not its thresholds or intervals. 0: its
 * state is not saved. */
uint64_t probe_key(const struct declared_probe *probe);

/* Writes a saved state as JSON, without one in memory: there may be many units. */
struct saved_state_writer {
	struct json_writer json;
	struct saved_unit last; /* borrowed */
};

/* Begins at the descriptor's position, then one call for each unit, and the end; `allocations` may
 * be NULL. What a unit points to must stay until the next one is written. Return 0 or negative
 * errno. */
int saved_state_write_begin(struct saved_state_writer *ret, int fd, uint64_t match_fingerprint);
int saved_state_write_unit(struct saved_state_writer *writer, const struct saved_unit *unit);
int saved_state_write_end(struct saved_state_writer *writer, const struct bookings *allocations);

/* Reads the file from its beginning. -ESTALE: it is of another boot, -EBADMSG: it is not a saved
 * state, -ENOMEM. */
int saved_state_read(int fd, struct saved_state **ret);
