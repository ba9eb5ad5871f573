/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's state for the exporter, see metrics.h.
 */

#include "common/util.h"

struct manager;

/* Maximum size of a resource's devices, and of all devices together; the rest is left out. */
#define SNAPSHOT_DEVICES_MAX     (16U << 20)
#define SNAPSHOT_ALL_DEVICES_MAX (64U << 20)

struct metrics_facts {
	bool pods_wanted, pods_known;
	uint64_t pod_errors;
};

/* Makes both sealed memfds. Returns 0 or negative errno. */
int metrics_snapshot(const struct manager *manager, const struct metrics_facts *facts,
	int *ret_state_fd, int *ret_devices_fd);
