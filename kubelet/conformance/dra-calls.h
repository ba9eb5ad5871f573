/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The claims of a run, and a kubelet's calls to the driver for them. A function that returns false
 * has set the trial's message.
 */

#include "dra.pb-c.h"
#include "kubelet/conformance/call.h"
#include "proto/message.h"

/* A claim as a call names it. The strings belong to the options, or are constants. */
struct claim_name {
	const char *namespace, *name, *uid;
};

/* A claim that does not exist in the API server. */
#define UNKNOWN_CLAIM "devplug-kubelet-conformance-unknown"
extern const struct claim_name unknown_claim;

/* Checks that each claim is allocated. Returns 0, or negative errno with the error filled. */
int claims_check(const json_t *claims, struct error *error);

size_t claims_count(const struct trial *trial);
struct claim_name claims_name(const struct trial *trial, size_t i);

/* The driver's results in the claim's allocation, as [result, ...]; json_decref(). */
json_t *claims_results(const struct trial *trial, size_t i);

/* The first claim after number 0 that shares a device with it, or shares none. False without a
 * message: there is none. */
bool claims_find(const struct trial *trial, bool sharing, size_t *ret);

/* Makes the whole call. False: it failed, or the answer cannot be read. */
bool dra_prepare_call(
	struct trial *trial, const struct claim_name *claims, size_t n, struct message *ret);
bool dra_unprepare_call(
	struct trial *trial, const struct claim_name *claims, size_t n, struct message *ret);

/* The answer's entry for the uid; NULL: none. */
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

/* Prepares a claim. The kubelet repeats a call that failed: a driver that has just started may not
 * know its devices yet. */
bool dra_prepare_waiting(
	struct trial *trial, const struct claim_name *claim, struct message *ret_message);

/* Checks that the driver refuses to prepare a claim, and keeps working. The error is in the entry
 * or in the call; the pod waits in both cases. */
enum outcome dra_check_refused(
	struct trial *trial, const struct claim_name *claim, const char *what);
enum outcome dra_check_refused_within(
	struct trial *trial, const struct claim_name *claim, const char *what, uint64_t limit);

/* The end of a case that succeeds if the claim can be unprepared. */
enum outcome dra_end(struct trial *trial, const struct claim_name *claim);

/* Unprepares the claims of an earlier case. Other cases test whether that works. */
void dra_unprepare_all(struct trial *trial);

/* Checks that no file describes a claim that has been unprepared. */
bool dra_check_removed(struct trial *trial, const Dra__NodePrepareResourceResponse *prepared);
