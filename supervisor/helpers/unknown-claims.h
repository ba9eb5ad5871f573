/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ends claims that only devplugd knows: the kubelet has lost its data, so that it will never
 * unprepare them, and their pods do not exist any more. A round, ten in dra.forget_after, asks
 * both: the kubelet's file, and, about claims that are not in it, the API server. A claim that both
 * do not know in each round for dra.forget_after ends as by "devplugctl forget". A round in which
 * one of them was not asked, because the file or the server could not be read, begins the time
 * again.
 */

#include "common/control-cluster.h"

struct auxiliary;
struct dra_claims;
struct manager;
struct unknown_claims;

/* `process`: devplugd-cluster, which asks the API server. Returns 0 or negative errno. */
int unknown_claims_new(struct manager *manager, struct dra_claims *claims,
	struct auxiliary *process, struct unknown_claims **ret);

/* To be called when claims or the configuration have changed: begins rounds, or ends them when
 * there is no claim. */
void unknown_claims_follow(struct unknown_claims *unknown);

/* Takes a CLUSTER_UNKNOWN. Returns whether it is valid. Logs. */
bool unknown_claims_take(struct unknown_claims *unknown, struct control_message *message);

struct unknown_claims *unknown_claims_free(struct unknown_claims *unknown);
DEFINE_CLEANUP(struct unknown_claims *, unknown_claims_free)
