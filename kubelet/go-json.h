/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON as Go's encoder writes it.
 */

#include <jansson.h>

/* A copy of an object with its keys in order, as Go writes maps; steals the reference. NULL: no
 * memory. */
json_t *json_sorted(json_t *stolen);
