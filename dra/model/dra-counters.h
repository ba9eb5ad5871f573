/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counters by which the scheduler excludes devices that share hardware (overlap = "exclusive";
 * KEP-4815, partitionable devices). Devices report their hardware, and with MARK_CONTAINER what
 * they are a part of. A piece of hardware that several devices have is a counter: its value is the
 * number of its parts, a part takes 1, and a device that is the whole takes all. The pieces of
 * devices that have any in common are one set.
 */

#include <jansson.h>

#include "common/util.h"

/* k8s.io/api/resource/v1: counters of a set, and sets of a slice. */
#define DRA_COUNTERS_MAX 32
#define DRA_SETS_MAX     8

struct dra_counters {
	json_t *uses;     /* by dra_counters_key(): consumesCounters of the device */
	json_t *sets;     /* array of { "name", "counters" } */
	json_t *wholes;   /* by key: the device contains parts */
	json_t *left_out; /* by key: not offered, because a device of an earlier resource has its
			   * hardware, and the server has no counters, the set would be too large,
			   * or a device has replicas, or parts for default amounts */
	unsigned missed;  /* of LACK_COUNTERS and LACK_SHARED_COUNTERS, those for which devices are
			   * left out */
};

/* `resources` as for dra_inventory_build(), `lacks`: bits of enum slice_lack. Returns 0 or -ENOMEM.
 */
int dra_counters_build(
	const json_t *resources, const char *driver, unsigned lacks, struct dra_counters *ret);
void dra_counters_done(struct dra_counters *counters);

/* The key of a device; NULL: no memory. */
char *dra_counters_key(const char *resource, const char *id);
