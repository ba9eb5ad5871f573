/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides whether the node's resources are ready, for /readyz. A resource that has the key `expect`
 * is required; one that lacks it is not.
 */

#include "exporter/scrape.h"

/* Whether the resource is required, and why it is not ready: NULL if it is ready, or belongs to the
 * scrape or is constant. */
bool readiness_is_required(const struct resource *resource);
const char *readiness_reason(const struct resource *resource);

/* Writes a line for each required resource that is not ready, or else one line with their number
 * (malloc'ed, NULL without memory). Returns whether all are ready. */
bool readiness_write(const struct scrape *scrape, char **ret);
