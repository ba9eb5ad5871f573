/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether containers have devices near their CPUs.
 */

#include "exporter/scrape.h"

/* Counts the containers with exclusive CPUs and a device, of any plugin or of a claim of devplugd,
 * whose NUMA nodes are known and which is on none of the nodes of these CPUs. scrape->pods is not
 * NULL. Returns 0 or -ENOMEM. */
int placement_misplaced(const struct scrape *scrape, uint64_t *ret);
