/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How devplugctl shows the eviction of pods from failed devices.
 */

#include "common/json-read.h"

/* Copies the member "eviction" of a resource, as the daemon describes it (docs/json.md); NULL if it
 * has none. */
json_t *evictions_clean(const json_t *resource);

/* Prints what is held, and each pod that is not evicted, in a line of its own; `*gap` is printed
 * before the first. */
void evictions_print(const json_t *resource, const char **gap);

/* Explains the eviction of one device, if there is any. */
void evictions_explain(const json_t *resource, const char *device);
