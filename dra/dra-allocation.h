/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds our devices in a ResourceClaim. The API server has checked the claim; it is checked again,
 * because it may have been deleted and created again, or have been allocated devices that are not
 * ours or no longer exist, and because devplugd ends a process that sends it an invalid claim.
 */

#include <jansson.h>

#include "common/error.h"

/* Makes the document for the supervisor (supervisor/books/dra-claim.h) from the claim with that
 * uid. `names`: as in struct dra_inventory. Returns 0, or negative errno with the error filled. */
int dra_allocation_read(const json_t *claim, const char *uid, const char *driver, const char *pool,
	const json_t *names, json_t **ret, struct error *error);
