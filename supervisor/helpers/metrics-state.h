/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's state for the exporter, see metrics.h.
 */

#include "common/util.h"

struct manager;

struct metrics_facts {
	bool pods_wanted, pods_known;
	uint64_t pod_errors;
};

/* Makes a sealed memfd of it. Returns 0 or negative errno. */
int metrics_state(const struct manager *manager, const struct metrics_facts *facts, int *ret_fd);
