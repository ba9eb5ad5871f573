/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds our devices in a ResourceClaim. The API server has checked the claim; it is checked again,
 * because it may have been deleted and created again, or have been allocated devices that are not
 * ours or no longer exist, and because devplugd ends a process that sends it an invalid claim.
 */

#include <jansson.h>

#include "common/error.h"

/* What a driver knows of devices. */
struct dra_known {
	const char *driver, *pool;
	const json_t *names; /* as in struct dra_inventory; NULL: nothing yet */
	const json_t *held;  /* as in struct dra_inventory_options. A claim that holds a device may
			      * be prepared again after the resource got another driver. */
	bool published;      /* the server stores the names, so no other one comes soon */
};

/* Makes the document for the supervisor (supervisor/books/dra-claim.h) from the claim with that
 * uid. Returns 0, or negative errno with the error filled. */
int dra_allocation_read(const json_t *claim, const char *uid, const struct dra_known *known,
	json_t **ret, struct error *error);
