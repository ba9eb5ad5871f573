/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The ResourceClaims of pods, as a kubelet keeps them: which driver has prepared what, and
 * which pods use it. The table is a JSON object by "NAMESPACE/NAME":
 *
 *   {"namespace", "name", "uid": strings, "prepared": boolean, "pods": [uid, ...],
 *    "drivers": {DRIVER: [{"requests": [...], "pool", "device", "cdi": [...]}, ...]}}
 *
 * The claims of a pod are [{"name", "uid", "drivers": [...], "extended": boolean}, ...].
 */

#include "kubelet/model.h"

/* Reads ResourceClaims, in the API server's form, into the claims of a pod. Returns 0, or negative
 * errno with the error filled. */
int pod_read_claims(struct pod *pod, const json_t *objects, struct error *error);

/* Adds the pod to its claims. -EEXIST with the error filled: an older claim has the name of one. */
int claim_table_add_pod(json_t *table, const struct pod *pod, struct error *error);

/* The entry of a claim of the pod, or NULL. */
json_t *claim_table_find(const json_t *table, const struct pod *pod, const json_t *claim);

/* The pod's claims, by driver, that are not prepared yet; or, to be unprepared, the claims that no
 * other pod uses: {DRIVER: [entry, ...]}. NULL: no memory. */
json_t *claim_table_unprepared(const json_t *table, const struct pod *pod);
json_t *claim_table_last_used(const json_t *table, const struct pod *pod);

void claim_table_set_prepared(json_t *table, const struct pod *pod);

/* The host has restarted, so no claim is prepared. */
void claim_table_forget_prepared(json_t *table);

/* Adds what a driver has prepared: a kubelet adds a device with other CDI names to the one that it
 * knows. Returns 1 if it has then two sets of names for one device, 0, or -ENOMEM. Takes the
 * device. */
int claim_table_add_device(json_t *devices, json_t *device);
void claim_table_remove_pod(json_t *table, const struct pod *pod);

/* What a container gets through the claims of its pod: the CDI names, and the member
 * "dynamic_resources" of other-resources.h. From a claim for extended resources, it only gets the
 * devices whose request is named after the container. Returns 0 or -ENOMEM. */
int claim_table_container(const json_t *table, const struct pod *pod, size_t container,
	json_t **ret_cdi, json_t **ret_dynamic);

/* Write and read the kubelet's file of claims, see claim-checkpoint.h; one that is missing is
 * written. */
int claim_table_write(const json_t *table, const char *state_dir, struct error *error);
int claim_table_read(const char *state_dir, json_t **ret, struct error *error);
