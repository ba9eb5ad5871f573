/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares a ResourceSlice as the API server stores it with the wanted one. The server adds
 * members, such as the time when a taint was added.
 */

#include <jansson.h>

#include "common/util.h"

/* Whether nothing is to be written. */
bool stored_slice_is(const json_t *stored, const json_t *wanted);

/* The object to be written in place of the stored one: the wanted members, and those of the server
 * and of other clients. A taint that has not changed keeps its time, from which tolerationSeconds
 * of claims count (KEP-5055). NULL if memory is short. */
json_t *stored_slice_update(const json_t *stored, const json_t *wanted);
