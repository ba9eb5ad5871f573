/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares a ResourceSlice as the API server stores it with the wanted one. The server adds
 * members, such as the time when a taint was added, and drops what it does not know.
 */

#include <jansson.h>

#include "common/util.h"

/* Whether the stored slice has the wanted content. */
bool stored_slice_is(const json_t *stored, const json_t *wanted);

/* Has the stored slice, which is as wanted, share the wanted devices. What the server adds to its
 * own is the time of taints, see taint_times_take(). */
void stored_slice_share(json_t *stored, const json_t *wanted);

/* Notes in `settled` (by name) that the server answered `sent` with `stored`, if that has other
 * content: writing the same again would change nothing. Returns 0 or -ENOMEM. */
int stored_slice_settle(json_t *settled, const json_t *sent, const json_t *stored);

/* Whether the stored slice is what the server made of the wanted one. */
bool stored_slice_is_settled(const json_t *settled, const json_t *stored, const json_t *wanted);

/* The object to be written in place of the stored one: the wanted members, and those of the server
 * and of other clients. NULL if memory is short. */
json_t *stored_slice_update(const json_t *stored, const json_t *wanted);

/* Times of taints, by device, from which tolerationSeconds of claims count (KEP-5055). They outlive
 * the slices, which a kubelet deletes when it starts. */

/* Replaces the times of the slice's devices. Returns 0 or -ENOMEM. */
int taint_times_take(json_t *times, const json_t *stored);

/* Sets the times of taints that have not changed. A taint with another effect gets no time, because
 * the time that it is tolerated begins again. */
void taint_times_set(const json_t *times, json_t *slice);

/* Forgets devices that are not among these names. */
void taint_times_forget(json_t *times, const json_t *names);
