/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a declared resource would find and give, worked out here and now with the driver and the
 * core that the daemon's children use; nothing is registered, no probe is run, and programs that
 * are asked at Allocate are so only on demand: what they do may last.
 */

#include <jansson.h>

#include "drivers/declaration.h"

/* Looks once, and builds the answer for a container that is given the devices `ids` (separated by
 * commas; NULL: the first that is healthy, if any). Programs that the devices' entries name for
 * Allocate are run if `ask`; if not, a note says what is missing. Gives
 *
 *   {"resource", "driver",
 *    "devices": [{"id", "healthy", "reason", "numa": []}], "notes": [],
 *    "ids": [], "answer": {"devices": [{"host_path", "container_path", "permissions"}],
 *                          "mounts": [{"host_path", "container_path", "read_only"}],
 *                          "envs": {}, "annotations": {}, "cdi_devices": []}}
 *
 * "ids" and "answer" are missing where there is no device to give. Returns 0 or negative errno with
 * the error filled. */
int try_out(const struct declaration *declaration, const char *root, const char *ids, bool ask,
	json_t **ret, struct error *error);
