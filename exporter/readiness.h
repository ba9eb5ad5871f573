/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides whether the node's resources are ready, for /readyz. A resource that has the key `expect`
 * is required; one that lacks it is not.
 */

#include "exporter/scrape.h"

bool readiness_is_required(const struct resource *resource);

/* Why a required resource is not ready; NULL: it is ready. The text is the scrape's, or constant.
 */
const char *readiness_reason(const struct resource *resource);

/* Writes a line for each required resource that is not ready, or else one line with their number
 * (malloc'ed, NULL without memory). Returns whether all are ready. */
bool readiness_write(const struct scrape *scrape, char **ret);
