/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The claims of a run, and calls to the driver for them, as a kubelet makes them. A function that
 * returns false has set the message of the trial.
 */

#include "dra.pb-c.h"
#include "kubelet/conformance/call.h"
#include "proto/message.h"

/* A claim as a call names it. The strings belong to the options, or are constants. */
struct claim_name {
	const char *namespace, *name, *uid;
};

/* A claim that no API server has. */
#define UNKNOWN_CLAIM "devplug-kubelet-conformance-unknown"
extern const struct claim_name unknown_claim;

/* Whether each claim is one that is allocated. Returns 0, or negative errno with the error filled.
 */
int claims_check(const json_t *claims, struct error *error);

size_t claims_count(const struct trial *trial);
struct claim_name claims_name(const struct trial *trial, size_t i);

/* The results of the claim's allocation that are the driver's, as [result, ...]; json_decref(). */
json_t *claims_results(const struct trial *trial, size_t i);

/* The first claim after number 0 that shares a device with it, or shares none. False without a
 * message: there is none. */
bool claims_find(const struct trial *trial, bool sharing, size_t *ret);

/* The call as a whole. False: it failed, or the answer cannot be read. */
bool dra_prepare_call(
	struct trial *trial, const struct claim_name *claims, size_t n, struct message *ret);
bool dra_unprepare_call(
	struct trial *trial, const struct claim_name *claims, size_t n, struct message *ret);

/* What the answer has for the uid; NULL: nothing. */
const Dra__NodePrepareResourceResponse *dra_find_prepared(
	const struct message *message, const char *uid);
const Dra__NodeUnprepareResourceResponse *dra_find_unprepared(
	const struct message *message, const char *uid);

/* One claim, which must succeed. `ret`: lines with pool, device, requests and CDI names, sorted, to
 * be compared (malloc'ed). */
bool dra_prepare_one(struct trial *trial, const struct claim_name *claim, char **ret);
bool dra_unprepare_one(struct trial *trial, const struct claim_name *claim);

/* The lines of dra_prepare_one() for an answer. */
char *dra_describe_devices(const Dra__NodePrepareResourceResponse *prepared);

/* How many files describe the CDI names of a prepared claim, all together. */
size_t dra_count_described(
	const struct trial *trial, const Dra__NodePrepareResourceResponse *prepared);
