/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What probes found about the devices of a resource, kept apart from the inventory that found it:
 * for the next configuration of a process, and as a file for the next process. A restart is no
 * amnesty for a device that failed, and no doubt about one that works. A reboot is both: what was
 * found under another boot of the host is not read back.
 */

#include "drivers/device.h"
#include "drivers/map.h"
#include "drivers/probe.h"

struct memory_verdict {
	uint64_t probe; /* what was looked at, see probe_key() */
	struct verdict verdict;
};

struct memory_unit {
	char *id;
	bool healthy;
	uint64_t since; /* CLOCK_REALTIME microseconds of the last change */
	bool lent;      /* device_was_lent() */
	/* One that is lent, as it was found last; NULL: it is not, or has what the file has no room
	 * for. */
	struct device *device;
	struct memory_verdict *verdicts;
	size_t n_verdicts;
};

struct memory {
	struct memory_unit **units;
	size_t n_units;
	struct map by_id;
	uint64_t sought; /* what the devices were found by, as a hash; 0: not said */
};

int memory_new(struct memory **ret);
struct memory *memory_free(struct memory *memory);
DEFINE_CLEANUP(struct memory *, memory_free)
#define _cleanup_memory_ _cleanup_(memory_freep)

/* Adds a unit; -EEXIST, -ENOMEM. It belongs to the memory. */
int memory_add(struct memory *memory, const char *id, bool healthy, uint64_t since,
	struct memory_unit **ret);

/* Adds a copy of a verdict. */
int memory_unit_add(struct memory_unit *unit, uint64_t probe, const struct verdict *verdict);

/* The unit of that id, or NULL; `memory` may be NULL. */
const struct memory_unit *memory_find(const struct memory *memory, const char *id);

/* Adds copies of those units of another memory that this one lacks. Returns 0 or -ENOMEM. */
int memory_merge(struct memory *memory, const struct memory *other);

/* What the unit knows of the probe, or NULL; `unit` may be NULL. */
const struct verdict *memory_verdict(const struct memory_unit *unit, uint64_t probe);

/* Identifies what a probe looks at: its kind and target, not its thresholds or intervals. 0: no
 * memory for it. */
uint64_t probe_key(const struct declared_probe *probe);

/* Writes the memory as JSON, at the descriptor's position: behind another one it says what is new.
 * Returns 0 or negative errno. */
int memory_write(const struct memory *memory, int fd);

/* Reads back all that the file has, from its begin. -ESTALE: it is of another boot, -EBADMSG: it is
 * not a memory, -ENOMEM. */
int memory_read(int fd, struct memory **ret);
