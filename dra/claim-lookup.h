/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads claims from the API server for the supervisor, which asks which ones the server does not
 * have: a CLUSTER_LOOK_UP is answered with a CLUSTER_UNKNOWN.
 */

#include <jansson.h>

#include "common/control-cluster.h"
#include "dra/dra-api.h"

struct claim_lookup;

/* `node` outlives it. Returns 0 or -ENOMEM. */
int claim_lookup_new(struct dra_api *api, const char *node, struct claim_lookup **ret);

/* Takes a CLUSTER_LOOK_UP in place of an earlier one, which is then not answered. Returns 0, or
 * -EBADMSG or -ENOMEM. */
int claim_lookup_begin(struct claim_lookup *lookup, struct control_message *message);

/* Whether the answer to a GET of the claim shows that the API server does not have it for this
 * node: there is no claim of that name, it has another UID, or the Node authorizer finds no pod of
 * the node that uses it. */
bool claim_lookup_is_unknown(
	const struct dra_answer *answer, const char *name, const char *uid, const char *node);

struct claim_lookup *claim_lookup_free(struct claim_lookup *lookup);
DEFINE_CLEANUP(struct claim_lookup *, claim_lookup_free)
