/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares the devices that the kubelet has assigned to running containers with those that the
 * containers can open.
 */

#include <jansson.h>

#include "common/error.h"

struct config;

/* Checks the containers with devices of that resource, of any plugin or by a claim of devplugd's,
 * or of all (NULL). Makes an object {"unknown", "containers", "problems"}, see docs/json.md;
 * "unknown" is why a container cannot be checked. Returns 0, or negative errno with the error
 * filled: -EPERM: needs root; or that of kubelet_checkpoint_read(). */
int check_containers(
	const struct config *config, const char *resource, json_t **ret, struct error *error);
