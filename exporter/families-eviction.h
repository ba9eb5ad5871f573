/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The metrics of resources that evict pods from failed devices.
 */

#include "exporter/exposition.h"
#include "exporter/scrape.h"

void families_eviction_write(const struct scrape *scrape, struct exposition *out);
