/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A question to the process of a resource: what the containers of one group of a claim's devices
 * get (dra-claim.h).
 */

#include <jansson.h>

#include "common/control-child.h"
#include "common/error.h"

struct child;
struct manager;

struct dra_question {
	const struct child *child; /* NULL: none is open */
	uint64_t number;
};

/* What a group gets. All NULL: the same as before. */
struct dra_edits {
	json_t *names; /* of CDI devices, with the one of the group if it has edits or metadata */
	json_t *edits; /* NULL: none */
	json_t *hash;
	size_t size; /* of the answer */
};

void dra_question_edits_done(struct dra_edits *edits);
#define _cleanup_edits_ _cleanup_(dra_question_edits_done)

/* Whether DRA serves the resource of each of the claim's devices. Returns 0, or
 * -ENOENT with the error filled. */
int dra_question_check_served(
	const struct manager *manager, const json_t *claim, struct error *error);

/* Replaces the parameters that a new claim sets for its devices by those that they are prepared
 * with: as the configuration that applies to each resource permits, and with its defaults. Returns
 * 0, or negative errno with the error filled: -EINVAL names the claim and the parameter. */
int dra_question_resolve(const struct manager *manager, json_t *claim, struct error *error);

/* Whether hardware of the claim's devices is free, also under the names of other resources, and
 * keeps it so (claimant_hold()), or holds nothing; admin access never does. Returns 0, or negative
 * errno with the error filled. */
int dra_question_hold(const struct manager *manager, const json_t *claim, struct error *error);

/* Ends that. `prepared`: the claim keeps its devices. */
void dra_question_release(const struct manager *manager, const json_t *claim, bool prepared);

/* Asks about the group that begins with the device `at`. With `again`, the claim is prepared
 * already, perhaps when DRA still served the resource: programs are run only if what they are run
 * for has changed, and prestart is not. Returns 0, or negative errno with the error filled. */
int dra_question_ask(struct dra_question *question, const struct manager *manager,
	const json_t *claim, size_t at, bool again, struct error *error);

/* Whether the message answers the question, which is then closed. */
bool dra_question_is_answer(struct dra_question *question, const struct child *child,
	const struct control_message *message);

/* Reads an answer, and checks it by the configuration that applies to the resource. Returns 0, or
 * negative errno with the error filled, which names the resource. */
int dra_question_read(const struct child *child, struct control_message *message,
	const json_t *claim, size_t at, struct dra_edits *ret, struct error *error);
