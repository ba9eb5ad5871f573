/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The driver's API server, which is a devplug-apiserver: requests of an administrator, the slices
 * that the driver has published, claims that the scheduler has allocated, and faults. A function
 * that returns false or NULL has set the trial's message.
 */

#include <jansson.h>

#include "kubelet/conformance/dra-calls.h"

/* Takes `body`, which may be NULL. `ret` may be NULL. False as well if the server refuses. */
bool api_request(
	struct trial *trial, const char *method, const char *path, json_t *body, json_t **ret);

/* The driver's ResourceSlices; json_decref(). */
json_t *api_slices(struct trial *trial);
bool api_delete_slices(struct trial *trial);

/* Stores the slice as another client. */
bool api_write_slice(struct trial *trial, const json_t *slice);

/* The driver's pools as devplug-apiserver judges them: [{"name", "complete", "invalid", "devices"},
 * ...] in the scheduler's order; json_decref(). */
json_t *api_pools(struct trial *trial);

/* Waits until all pools of the driver are complete, and returns their devices by "POOL/NAME", in
 * the scheduler's order, each with its "pool". */
json_t *api_await_pool(struct trial *trial);

/* The same, until the devices are equal to `wanted`, apart from taints. */
bool api_await_devices(struct trial *trial, const json_t *wanted);

/* The device's first taint that keeps pods away; NULL: there is none. */
const json_t *api_find_taint(const json_t *device);

/* How often clients have written ResourceSlices. */
bool api_count_writes(struct trial *trial, size_t *ret);

/* Takes `faults`, a list for devplug-apiserver; NULL: there are none any more. */
bool api_set_faults(struct trial *trial, json_t *faults);

/* Makes a ResourceClaim with that name, in place of an older one. Takes `allocation`, which becomes
 * status.allocation; NULL: it is not allocated. `ret` belongs to the trial and is valid until the
 * next claim of that name is made. */
bool api_make_claim(
	struct trial *trial, const char *name, json_t *allocation, struct claim_name *ret);
bool api_delete_claim(struct trial *trial, const char *name);

/* One result of an allocation. */
json_t *api_result(const char *driver, const char *pool, const char *device);

/* Makes the claims that most cases use, from devices that the driver has published. */
bool api_make_claims(struct trial *trial);

/* Begins a run: no faults, and no requests of earlier runs. Returns 0, or negative errno with the
 * error filled. */
int api_begin(struct trial *trial, struct error *error);

/* Ends faults and deletes the claims, at the end of a run. */
void api_clean(struct trial *trial);
