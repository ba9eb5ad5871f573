/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The families of metrics, in one table each for the daemon, its resources and their devices. There
 * is a series for each physical unit, never for a replica. A free text, such as the reason of a
 * failure, is never a label, because label values must be a bounded set.
 */

#include "exporter/exposition.h"
#include "exporter/scrape.h"

struct families_options {
	bool assigned; /* name the pods that use devices */
	bool process;  /* the exporter's own process_* */
};

/* Writes all families. Returns 0 or -ENOMEM. */
int families_write(const struct scrape *scrape, const struct families_options *options,
	struct exposition *exposition);
