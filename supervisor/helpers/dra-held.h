/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends devplugd-cluster which devices claims hold: it keeps those in their ResourceSlices.
 */

#include "common/util.h"

struct auxiliary;
struct dra_claims;
struct dra_preparations;

/* Sends them if they may have changed since `*sent`, the value that an earlier call has left there;
 * 0: they were never sent. Returns 0 or negative errno. */
int dra_held_send(struct auxiliary *process, const struct dra_claims *claims,
	const struct dra_preparations *preparations, uint64_t *sent);
