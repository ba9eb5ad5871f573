/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Preparing claims: the processes of a claim's resources build the edits of its groups, one after
 * the other. Claims of different resources are prepared side by side. A resource's process is asked
 * about one group at a time, so that its programs do not run for several claims at once.
 *
 * A preparation goes on when no request waits for it any more: its programs may be running, and the
 * kubelet asks again. The next request for the claim then waits for the same preparation.
 */

#include <jansson.h>

#include "common/control-child.h"
#include "common/error.h"

struct child;
struct dra_claims;
struct dra_preparations;
struct manager;

/* How long a request waits at most: longer than any prestart, shorter than the kubelet's 45 s. */
#define DRA_PREPARE_TIMEOUT (40 * USEC_PER_SEC)
/* How long a process may take for an answer, with all programs that it runs for it. */
#define DRA_ANSWER_TIMEOUT (120 * USEC_PER_SEC)

/* Answers a request for the claim: `error` NULL: it is prepared, as in dra-claim.h. The code of the
 * error decides whether devplugd-cluster tries again during the kubelet's call: -EAGAIN and -EBUSY:
 * until the call ends, because the claim waits for something that passes; -EIO: a few times;
 * -EINPROGRESS: not during that call, because the preparation goes on. */
typedef void (*dra_prepare_handler)(
	uint64_t request, const json_t *claim, const struct error *error, void *userdata);

int dra_prepare_new(struct manager *manager, struct dra_claims *claims, dra_prepare_handler on_end,
	void *userdata, struct dra_preparations **ret);

/* A request of devplugd-cluster, and when it is answered at the latest (CLOCK_MONOTONIC). */
struct dra_request {
	uint64_t number, until;
};

/* Has a request wait for the preparation of the claim that is under way. Returns false if there is
 * none. The handler may be called before this returns. */
bool dra_prepare_join(struct dra_preparations *preparations, const char *driver, const char *uid,
	const struct dra_request *request);

/* Begins to prepare a claim, which is well-formed (dra_claim_read()) and neither prepared nor being
 * prepared. Returns 0, or negative errno with the error filled: then the handler is not called. */
int dra_prepare_add(struct dra_preparations *preparations, json_t *claim,
	const struct dra_request *request, struct error *error);

/* The claim is unprepared: what is being prepared of it is not kept. */
void dra_prepare_cancel(struct dra_preparations *preparations, const char *driver, const char *uid);

/* Adds the UIDs of the claims that are being prepared to an object. Returns 0 or -ENOMEM. */
int dra_prepare_add_uids(const struct dra_preparations *preparations, json_t *uids);

/* The answer to a request, or to all of them, is not waited for any more. */
void dra_prepare_drop_request(struct dra_preparations *preparations, uint64_t number);
void dra_prepare_drop_requests(struct dra_preparations *preparations);

/* Takes a process's answer to CHILD_EDIT, or a notice that it has ended. */
void dra_prepare_take(struct dra_preparations *preparations, const struct child *child,
	struct control_message *message);
void dra_prepare_child_gone(struct dra_preparations *preparations, const struct child *child);

struct dra_preparations *dra_prepare_free(struct dra_preparations *preparations);
DEFINE_CLEANUP(struct dra_preparations *, dra_prepare_free)
