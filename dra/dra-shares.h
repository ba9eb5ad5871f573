/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The share of a device that a result of a ResourceClaim names, and its amounts. They are checked,
 * because their names and numbers go into files and programs.
 */

#include <jansson.h>

#include "common/error.h"

/* Adds "share", "amounts" and "of" (supervisor/books/dra-claim.h) to the device, if the result has
 * amounts of it. `devices`: those of earlier results; `found`: what is known of the device
 * (struct dra_inventory). Returns 0, or negative errno with the error filled. */
int dra_share_read(json_t *device, const json_t *devices, const json_t *result, const char *driver,
	const json_t *found, struct error *error);
